"""The JSON form of whatever a tool returns.

| returned | JSON |
|---|---|
| None, bool, int, float, str | itself; an int over MAX_INT_BITS in hexadecimal, NaN and the infinities as text |
| enum member | its value |
| bytes | text where it is UTF-8, else Base64 |
| mapping, pydantic model, dataclass | object; keys that are no text become their JSON text |
| list, tuple and other sequences, views of a dict | array, in order |
| set | array, sorted by the items' JSON |
| date, time, timedelta, Decimal, UUID, path, URL ... | text as pydantic writes it in JSON |

Everything else (a file, a generator, a cycle, too deep nesting) has no JSON form.
"""

import math
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel, JsonValue, TypeAdapter

from longshift import jsontext

MAX_INT_BITS = 1023
"""Bits of an integer given in digits: every reader that takes numbers as doubles, and jsontext.parse, takes it."""
MAX_LEVELS = jsontext.MAX_DEPTH - 1
"""Levels of nesting of a value, one less than of the observation around it."""

_SCALARS: TypeAdapter[Any] = TypeAdapter(Any)


class NoJsonForm(ValueError):
    """The value cannot be given as JSON; the text names its type and says why."""


def plain(value: object, notes: set[str]) -> JsonValue:
    """The JSON form of `value`.

    Args:
        value: anything.
        notes: gains a sentence for each kind of change that loses something.

    Raises:
        NoJsonForm: it has none.
    """
    try:
        return _plain(value, notes, ())
    except NoJsonForm:
        raise
    except Exception as error:  # an object of the tool's own may raise anything when it is looked at
        raise NoJsonForm(f"reading a {_type(value)} raised {type(error).__name__}") from None


def whole_text(text: str, notes: set[str]) -> str:
    """`text` as Unicode: halves of a surrogate pair are joined, a lone one becomes U+FFFD and is noted."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if joined.count("\ufffd") > text.count("\ufffd"):
            notes.add("Text that is not Unicode stands here as U+FFFD.")
        return joined
    return text


def _plain(value: Any, notes: set[str], around: tuple[int, ...]) -> JsonValue:
    match value:
        case Enum():
            return _plain(value.value, notes, around)
        case None | bool():
            return value
        case str():
            return whole_text(value, notes)
        case int():
            return _whole_number(value, notes)
        case float():
            return _number(value, notes)
        case bytes() | bytearray() | memoryview():
            return _bytes(bytes(value), notes)
    return _container(value, notes, around)


def _container(value: Any, notes: set[str], around: tuple[int, ...]) -> JsonValue:
    if id(value) in around:
        raise NoJsonForm(f"a {_type(value)} holds itself")
    if len(around) >= MAX_LEVELS:
        raise NoJsonForm(f"it is nested deeper than {MAX_LEVELS} levels")
    inside = (*around, id(value))
    match value:
        case BaseModel():
            return _plain(value.model_dump(warnings=False), notes, around)  # itself no level of JSON
        case Mapping():
            return _object(value, notes, inside)
        case set() | frozenset():
            return sorted(_array(value, notes, inside), key=jsontext.canonical)
        case Sequence() | Set() | ValuesView():
            return _array(value, notes, inside)
    if is_dataclass(value) and not isinstance(value, type):
        return _object({field.name: getattr(value, field.name) for field in fields(value)}, notes, inside)
    return _scalar(value, notes)


def _array(items: Iterable[Any], notes: set[str], around: tuple[int, ...]) -> list[JsonValue]:
    return [_plain(item, notes, around) for item in items]


def _object(pairs: Mapping[Any, Any], notes: set[str], around: tuple[int, ...]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for name, value in pairs.items():
        key = _plain(name, notes, around)
        if isinstance(key, (list, dict)):
            raise NoJsonForm(f"a {_type(name)} is a key; use text")
        if not isinstance(key, str):
            key = jsontext.canonical(key)
        if key in found:
            raise NoJsonForm(f"two keys of one {_type(pairs)} are the same text, {key[:60]!r}")
        found[key] = _plain(value, notes, around)
    return found


def _scalar(value: Any, notes: set[str]) -> str:
    """What pydantic gives as text: dates, Decimal, UUID and the like."""
    if hasattr(type(value), "__fspath__"):  # a path may hold bytes that are no UTF-8, which pydantic refuses
        text = value.__fspath__()
        return _bytes(text, notes) if isinstance(text, bytes) else whole_text(text, notes)
    # An iterator is never read: it may have no end.
    text = None if isinstance(value, Iterator) else _SCALARS.dump_python(value, mode="json", fallback=_nothing)
    if not isinstance(text, str):
        raise NoJsonForm(f"a {_type(value)} has no JSON form; return text, numbers, lists, dicts or models")
    return whole_text(text, notes)


def _nothing(value: object) -> None:
    """What pydantic shall give for a type it does not know."""


def _whole_number(number: int, notes: set[str]) -> JsonValue:
    if number.bit_length() <= MAX_INT_BITS:
        return number
    notes.add(f"An integer of more than {MAX_INT_BITS} bits stands here as hexadecimal text.")
    return hex(number)


def _number(number: float, notes: set[str]) -> JsonValue:
    if math.isfinite(number):
        return number
    notes.add("NaN and infinite numbers stand here as text.")
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _bytes(raw: bytes, notes: set[str]) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        notes.add("Bytes that are not UTF-8 stand here as Base64.")
        return b64encode(raw).decode("ascii")


def _type(value: object) -> str:
    return type(value).__qualname__[:60]
