"""What a history says of one column of a journal row: its value, its digest alone, or nothing but what it may be.

A row that is made from a history gets the `value`; a row that stands in a journal is held against `fits`.
"""

import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from longshift import jsontext
from longshift.jsontext import canonical
from longshift.messages import Weight

Row = Mapping[str, Any]
"""A row of the journal, by column."""
LARGEST = 2**63 - 1
"""The largest integer that a journal holds; what is more stands there as this."""


@dataclass(frozen=True)
class Column:
    """What a history says of a column."""

    fits: Callable[[Any], bool]
    """Whether a value can stand there."""
    value: Any = None
    """What a row made from the history gets."""
    said: str = ""
    """What must stand there, in words."""
    lost: bool = False
    """The history does not have the value, and `value` is none: it cannot be made."""
    weight: Weight | None = None
    """Of what is lost, where the history has that."""
    free: bool = False
    """The history does not fix it."""


@dataclass(frozen=True)
class Expected:
    """What a history says of one row."""

    table: str
    key: tuple[Any, ...]
    must: bool
    """The row surely stands in the journal; else nothing told the workflow whether it was written."""
    variants: tuple[Mapping[str, Column], ...]
    """What the row may be, the one that is made from the history first."""
    made_anew: bool = True
    """A journal that is made from the history gets the row, though it need not stand."""

    def misfit(self, row: Row, absent: Container[str] = ()) -> tuple[str, str] | None:
        """The first column of `row` that cannot be, and what is wrong with it; None where the row fits.

        Args:
            absent: columns that may be empty where the history does not have their values.
        """
        found = [_misfit(variant, row, absent) for variant in self.variants]
        if None in found:
            return None
        return max((one for one in found if one is not None), key=lambda one: one[0])[1:]

    def made(self) -> dict[str, Any]:
        """The row as it is made from the history."""
        return {name: column.value for name, column in self.variants[0].items()}

    @property
    def lost(self) -> list[tuple[str, Weight | None]]:
        """The columns whose values cannot be made from the history, with their weights where those are known."""
        return [(name, column.weight) for name, column in self.variants[0].items() if column.lost]


def _misfit(variant: Mapping[str, Column], row: Row, absent: Container[str]) -> tuple[int, str, str] | None:
    """How many columns fit before the first that does not, its name, and what is wrong."""
    for count, (name, column) in enumerate(variant.items()):
        if name not in row:
            return count, name, "is not there"
        if row[name] is None and column.lost and name in absent:
            continue
        if not column.fits(row[name]):
            return count, name, f"is {shown(row[name])} and should be {column.said}"
    unknown = [name for name in row if name not in variant]
    return (len(variant), unknown[0], "is no column of it") if unknown else None


def stored(value: Any) -> Any:
    """A value as the journal holds it: texts without NUL, integers that its databases hold."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, int) and not isinstance(value, bool):
        return min(value, LARGEST)
    return value


def shown(value: Any) -> str:
    """A value in one short text."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def fixed(value: Any) -> Column:
    """The history knows the value."""
    held = stored(value)
    return Column(lambda given: same(given, held), held, shown(held))


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same; true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def among(values: Sequence[Any], made: Any) -> Column:
    """One of some values."""
    held = [stored(value) for value in values]
    said = " or ".join(shown(value) for value in held[:3])
    return Column(lambda given: any(same(given, value) for value in held), stored(made), said, free=len(held) > 1)


def free(made: Any, kind: type | tuple[type, ...], said: str, *, none: bool = False) -> Column:
    """The history does not fix it; it only is of a kind, or nothing."""

    def fits(given: Any) -> bool:
        if given is None:
            return none
        return isinstance(given, kind) and not isinstance(given, bool)

    return Column(fits, made, said, free=True)


def moment(made: float) -> Column:
    """A time by a worker's clock, in seconds since the epoch."""
    return free(made, (int, float), "a time")


def body(weight: Weight, text: str | None) -> Column:
    """A message's canonical text, of which the history knows the digest; `text` where it holds all of it."""

    def fits(given: Any) -> bool:
        return isinstance(given, str) and jsontext.sha256(given) == weight.sha256

    said = f"the message of {weight.bytes} bytes with the digest {weight.sha256[:12]}"
    lost = text is None
    return Column(fits, text, said, lost=lost, weight=weight if lost else None)


def document(value: BaseModel | None) -> Column:
    """The JSON text of a value. A row of another version may lack usual fields, or have ones not known here."""
    if value is None:
        return fixed(None)
    model, text = type(value), canonical(value.model_dump(mode="json"))

    def fits(given: Any) -> bool:
        if given == text:
            return True
        try:
            return (
                isinstance(given, str)
                and canonical(jsontext.parse(given)) == given
                and canonical(model.model_validate_json(given).model_dump(mode="json")) == text
            )
        except (ValidationError, ValueError):
            return False

    return Column(fits, text, shown(text))


def written(text: str) -> Column:
    """A JSON object's text, its keys in any order: a history that was kept elsewhere may have sorted them."""
    ordered = _ordered(text)

    def fits(given: Any) -> bool:
        try:
            return isinstance(given, str) and len(given) == len(text) and _ordered(given) == ordered
        except (ValueError, RecursionError):
            return False

    return Column(fits, text, shown(text))


def _ordered(text: str) -> str:
    """A JSON text with its keys in order; as text, in which true is not 1."""
    return json.dumps(json.loads(text), sort_keys=True)


def parsed(model: type[BaseModel], *, none: bool = False) -> Column:
    """The JSON text of some value of a type, which the history does not know."""

    def fits(given: Any) -> bool:
        if given is None:
            return none
        try:
            model.model_validate_json(given)
        except (ValidationError, TypeError):
            return False
        return True

    return Column(fits, None, f"the JSON of a {model.__name__}", free=True)
