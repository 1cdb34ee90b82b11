"""Both sides of an audit, and what a row of the journal may be, by the history."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from longshift import jsontext
from longshift.audit.columns import Row, shown, stored
from longshift.audit.history import History
from longshift.audit.rows import Projection, project
from longshift.contracts import OpenRun
from longshift.messages import Weight

Rows = Mapping[str, Sequence[Row]]
"""The rows that a journal holds of one run, by table."""
TABLES: Mapping[str, tuple[str, ...]] = {
    "runs": (),
    "messages": ("number",),
    "model_calls": ("number",),
    "tool_calls": ("model_call", "position", "call_id"),
    "decisions": ("ordinal", "at"),
    "remembered": ("key", "handed_with"),
}
"""Each table with the columns by which its rows are found again in a history."""
REBUILT = "journal_rebuilt"
"""Kind of the decision that says what a journal that was made from a history lacks; its detail is a Lost."""
OWN_DECISIONS = ("journal_rewritten", REBUILT)
"""Kinds of the decisions that are the journal's own: no workflow made them."""


class Lost(BaseModel):
    """What could not be made from a history."""

    model_config = ConfigDict(frozen=True)

    lost: dict[str, Weight | None]
    """Row and column, such as `model_calls 3 body`, with size and digest where the history has them."""


class Sides:
    """What history and journal hold of a run, each None where it cannot be read."""

    def __init__(self, run_id: str, history: History | None, journal: Rows | None) -> None:
        self.run_id, self.history, self.journal = run_id, history, journal
        self.path = project(run_id, history.path, history) if history is not None and history.path else Projection()
        ways = history.ways if history is not None else ()
        self.ways = [project(run_id, way, history) for way in ways if history is not None]
        self.run: Row | None = next(iter((journal or {}).get("runs", ())), None)
        self.lost = self._lost()
        self._absent: dict[str, set[str]] = {}
        for row, _, column in (name.rpartition(" ") for name in self.lost):
            self._absent.setdefault(row, set()).add(column)

    def row(self, key: tuple[Any, ...], row: Row) -> str | None:
        """What is wrong with a row; None where it follows from the history, or may."""
        own = self.path.rows.get(key)
        misfit = own.misfit(row, self.absent(key)) if own is not None else None
        if own is not None and misfit is None:
            return None
        if own is None or not own.must or key[0] == "runs":
            others = [way.rows[key] for way in self.ways if key in way.rows]
            if any(other.misfit(row) is None for other in others):
                return None  # of a way that a reset has left, where the run has not come so far again
        if misfit is not None:
            return " ".join(misfit)
        assert self.history is not None
        if self.history.missing or not self.history.whole or self._may_be_open():
            return None  # of a part that the server keeps no longer, or of an opening that was never reported
        return "does not follow from the history"

    def _may_be_open(self) -> bool:
        """Whether the journal may hold a run of which the history only says that it was to be opened."""
        assert self.history is not None
        steps = [step for part in self.history.parts for step in part.steps]
        return self.history.spec is None and any(isinstance(step.request, OpenRun) for step in steps)

    def absent(self, key: tuple[Any, ...]) -> Collection[str]:
        """The columns of a row that are empty since the journal was rebuilt, which says so."""
        return self._absent.get(" ".join(map(str, key)), ())

    def own_decision(self, row: Row) -> str | None:
        """What is wrong with a decision of the journal's own."""
        assert self.history is not None
        if row.get("kind") not in OWN_DECISIONS:
            return f"is of no workflow and of a kind that no journal makes: {shown(row.get('kind'))}"
        if row.get("run_id") != stored(self.run_id) or not isinstance(row.get("at"), (int, float)):
            return "has no time, or is another run's"
        try:
            detail = jsontext.parse(row.get("detail", ""))
        except (TypeError, ValueError):
            return "has a detail that is no JSON"
        if jsontext.canonical(detail) != row["detail"]:
            return "has a detail that no journal writes"
        if row["kind"] == REBUILT:
            return _wrong_lost(row["detail"], self.path)
        figures = {"message", "removed", "model_call"}
        if not isinstance(detail, dict) or set(detail) != figures or not all(map(is_count, detail.values())):
            return "has a detail that no journal writes"
        known = self.history.ways or self.history.missing or any(part.reset_from for part in self.history.path)
        return None if known else "says that rows were replaced, and no reset is known"

    def _lost(self) -> Mapping[str, Weight | None]:
        """What a rebuild could not make: row and column, with the weight where that is known."""
        found: dict[str, Weight | None] = {}
        for row in (self.journal or {}).get("decisions", ()):
            if row.get("kind") != REBUILT or row.get("ordinal") is not None:
                continue
            try:
                found |= Lost.model_validate_json(row["detail"]).lost
            except (ValidationError, TypeError, KeyError):
                continue
        return found


def bodies_of(journal: Rows) -> dict[int, str]:
    """The body of each message, wherever it stands."""
    turns = {row.get("number"): row.get("body") for row in journal.get("model_calls", ())}
    observed = {
        (row.get("model_call"), row.get("position"), row.get("call_id")): row.get("body")
        for row in journal.get("tool_calls", ())
    }
    found: dict[int, str] = {}
    for row in journal.get("messages", ()):
        place = (row.get("call_model"), row.get("call_position"), row.get("call_id"))
        text = row.get("body") or turns.get(row.get("turn")) or observed.get(place)
        if isinstance(text, str) and is_count(row.get("number")):
            found[row["number"]] = text
    return found


def home(row: Row) -> str:
    """The row in which a message's body stands."""
    if row.get("turn") is not None:
        return f"model_calls {row['turn']}"
    if row.get("call_model") is not None:
        return f"tool_calls {row['call_model']} {row.get('call_position')} {row.get('call_id')}"
    return f"messages {row.get('number')}"


def _wrong_lost(detail: str, made: Projection) -> str | None:
    """What is wrong with what a rebuild says that it could not make."""
    try:
        lost = Lost.model_validate_json(detail).lost
    except ValidationError:
        return "has a detail that names no bodies"
    can = {f"{' '.join(map(str, key))} {name}": weight for key, one in made.rows.items() for name, weight in one.lost}
    wrong = [name for name, weight in lost.items() if name not in can or can[name] != weight]
    return f"says that {shown(wrong[0])} is lost, which the history has" if wrong else None


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
