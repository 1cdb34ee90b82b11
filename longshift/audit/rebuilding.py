"""Which rows a journal gets that is made anew from a history, and what of them cannot be made.

What stands and follows from the history stays. What does not is made anew, with whatever the standing row has that the
history allows, such as a body that is whole nowhere else. Rows of effects are never removed: what they say keeps
effects from being made twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from longshift.audit.columns import Expected, Row
from longshift.audit.sides import REBUILT, TABLES, Lost, Rows, Sides, is_count
from longshift.jsontext import canonical
from longshift.messages import Weight


@dataclass
class Rebuilt:
    """The rows of a run, made from its history."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By table."""
    kept: int = 0
    """Rows that stood and stay as they were."""
    made: int = 0
    """Rows that were made, or made anew."""
    removed: list[str] = field(default_factory=list)
    """Rows that did not follow from the history."""
    unexplained: list[str] = field(default_factory=list)
    """Rows of effects that follow from nothing, and stay all the same."""
    lost: dict[str, Weight | None] = field(default_factory=dict)
    """What could not be made, now or by an earlier rebuild: row and column, with size and digest where the history has
    them."""

    @property
    def changed(self) -> bool:
        """Whether the journal is to be written."""
        return bool(self.made or self.removed)


def rebuilt(sides: Sides, now: float) -> Rebuilt:
    """The rows that a run is to have.

    Args:
        sides: its history, and the rows that stand.
        now: seconds since the epoch, for the decision that says that the journal was rebuilt.
    """
    found = Rebuilt()
    missing: list[Expected] = []
    for table in TABLES:
        keys = _keep(sides, table, found)
        missing += [one for key, one in sides.path.rows.items() if key[0] == table and key not in keys]
    numbers = sorted(row["number"] if is_count(row["number"]) else 0 for row in found.rows["decisions"])
    if not found.removed and not any(one.must for one in missing) and numbers == list(range(1, len(numbers) + 1)):
        return found  # what is not there need not be
    for one in missing:
        if not one.must and not one.made_anew:
            continue
        made = _made(one, _standing(one, sides.journal or {}))
        found.rows[one.table].append(made)
        found.made += 1
        name = _named((one.table, *one.key))
        found.lost |= {f"{name} {column}": weight for column, weight in one.lost if made[column] is None}
    _number(found.rows["decisions"])
    _say_so(sides.run_id, found, now)
    return found


def _keep(sides: Sides, table: str, found: Rebuilt) -> set[tuple[Any, ...]]:
    """Keep the rows of a table that follow from the history. Returns their keys."""
    rows = found.rows.setdefault(table, [])
    keys: set[tuple[Any, ...]] = set()
    for row in (sides.journal or {}).get(table, ()):
        key = (table, *(row.get(column) for column in TABLES[table]))
        own = table == "decisions" and row.get("ordinal") is None
        if sides.own_decision(row) is None if own else key not in keys and sides.row(key, row) is None:
            rows.append(dict(row))
            found.kept += 1
            if not own:
                keys.add(key)
                found.lost |= _still_lost(sides, key, row)
        elif key not in sides.path.rows and row.get("kind") == "effect":
            rows.append(dict(row))
            found.unexplained.append(_named(key))
        else:
            found.removed.append(_named(key))
    return keys


def _still_lost(sides: Sides, key: tuple[Any, ...], row: Row) -> dict[str, Weight | None]:
    """What a row lacks that stays, since an earlier rebuild could not make it."""
    gone, one = sides.absent(key), sides.path.rows.get(key)
    lost = one.lost if one is not None and gone else []
    return {f"{_named(key)} {column}": weight for column, weight in lost if column in gone and row[column] is None}


def _standing(one: Expected, standing: Rows) -> Row:
    """The row that stands in the place of one that is made anew."""
    columns = TABLES[one.table]
    for row in standing.get(one.table, ()):
        if tuple(row.get(column) for column in columns) == one.key:
            return row
    return {}


def _made(one: Expected, standing: Row) -> dict[str, Any]:
    """A row as the history says it, with what the standing one has that may be so."""
    made = one.made()
    for name, column in one.variants[0].items():
        given = standing.get(name)
        if given is not None and column.fits(given):
            made[name] = given
    return made


def _number(decisions: list[dict[str, Any]]) -> None:
    """Number the decisions anew, in the order in which they were made."""
    decisions.sort(key=lambda row: (row["at"], row["ordinal"] or 0))
    for number, row in enumerate(decisions, 1):
        row["number"] = number


def _say_so(run_id: str, found: Rebuilt, now: float) -> None:
    """Enter the decision that says that the journal was rebuilt, and what it lacks."""
    decisions = found.rows["decisions"]
    detail = canonical(Lost(lost=found.lost).model_dump(mode="json"))
    row: Mapping[str, Any] = {
        "run_id": run_id,
        "number": len(decisions) + 1,
        "ordinal": None,
        "at": now,
        "kind": REBUILT,
        "detail": detail,
    }
    decisions.append(dict(row))


def _named(key: tuple[Any, ...]) -> str:
    return " ".join(map(str, key))
