"""Tool calls as rows: where a call stands, what came of it. Functions of one transaction.

The first outcome stands. A worker that comes back late changes nothing that the workflow was told, and learns from the
answer what stands. `store.ledger` has what is of effects only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from longshift.contracts import RunTool
from longshift.messages import AssistantMessage, ToolCall, ToolMessage, arguments_digest, text_of
from longshift.tools import Kind
from store.errors import JournalMismatch, PlaceTaken
from store.prepared import Prepared
from store.tables import MODEL_CALLS, TOOL_CALLS, ToolState, stored


@dataclass(frozen=True)
class Observed:
    """An observation that stands in the journal."""

    observation: ToolMessage
    milliseconds: int
    """Wall time of the handler."""
    fatal: bool
    """The tool says that nothing the model does can help."""
    whole: str | None = None
    """What the tool returned, where the observation's content was cut."""


Upsert = Mapping[str, Prepared]
"""A statement by its dialect's name: it enters a row, or changes the one that stands, and returns that; or nothing,
where it changed nothing. Even then, on PostgreSQL, it holds the lock of the row that stands."""

AT_PLACE = (
    TOOL_CALLS.c.run_id == bindparam("run"),
    TOOL_CALLS.c.model_call == bindparam("model"),
    TOOL_CALLS.c.position == bindparam("place"),
    TOOL_CALLS.c.call_id == bindparam("id"),
)
_STANDING: tuple[ColumnElement[Any], ...] = (
    TOOL_CALLS.c.name,
    TOOL_CALLS.c.arguments_sha256,
    TOOL_CALLS.c.state,
    TOOL_CALLS.c.dispatch,
    TOOL_CALLS.c.note,
    TOOL_CALLS.c.body,
    TOOL_CALLS.c.milliseconds,
    TOOL_CALLS.c.fatal,
    TOOL_CALLS.c.whole,
    TOOL_CALLS.c.started_at,
)


def upsert(*columns: str, states: tuple[ToolState, ...], newer: bool = False) -> Upsert:
    """Enter a row; or set `columns` of the one that stands, if it is of the same call, in one of `states` and, where
    only `newer` dispatches count, of a lower dispatch."""

    def build(insert: sqlite.Insert | postgresql.Insert) -> Prepared:
        new = insert.excluded
        same = (TOOL_CALLS.c.name == new.name, TOOL_CALLS.c.arguments_sha256 == new.arguments_sha256)
        lower = (TOOL_CALLS.c.dispatch < new.dispatch,) if newer else ()
        entered = insert.on_conflict_do_update(
            index_elements=list(TOOL_CALLS.primary_key),
            set_={name: new[name] for name in columns},
            where=and_(*same, or_(*(TOOL_CALLS.c.state == state for state in states)), *lower),
        ).returning(*_STANDING)
        return Prepared(entered)

    return {"sqlite": build(sqlite.insert(TOOL_CALLS)), "postgresql": build(postgresql.insert(TOOL_CALLS))}


_TURN = select(MODEL_CALLS.c.body).where(
    MODEL_CALLS.c.run_id == bindparam("run"),
    MODEL_CALLS.c.number == bindparam("call"),
    MODEL_CALLS.c.state == "answered",
)
_TOOL_CALL = Prepared(select(*_STANDING).where(*AT_PLACE))
OUTCOME = ("state", "body", "whole", "fatal", "milliseconds", "settled_at")
"""The columns of an outcome."""
_SETTLE = upsert(*OUTCOME, states=("started", "unknown"))


def tool_call(connection: Connection, run_id: str, model_call: int, position: int) -> ToolCall:
    """A call as the model made it, whole.

    Raises JournalMismatch where the journal has no such call.
    """
    body = connection.execute(_TURN, {"run": run_id, "call": model_call}).scalar_one_or_none()
    calls = AssistantMessage.model_validate_json(body).calls if body is not None else ()
    if not 0 <= position < len(calls):
        raise JournalMismatch(f"run {run_id!r}: model call {model_call} has no tool call {position} in the journal")
    return calls[position]


def observation(connection: Connection, run_id: str, model_call: int, position: int) -> Observed | None:
    """What the call at a place in a stored turn brought, where it is settled.

    Raises JournalMismatch where the journal has no such call.
    """
    call = tool_call(connection, run_id, model_call, position)
    return stored_observation(connection, RunTool(run_id=run_id, model_call=model_call, position=position, call=call))


def stored_observation(connection: Connection, request: RunTool) -> Observed | None:
    """What this very call brought, where it is settled."""
    row = standing_row(connection, request)
    return observed_in(row) if row is not None and row.state == "settled" else None


def standing_row(connection: Connection, request: RunTool) -> Row[Any] | None:
    """The row of this very call, where it has one."""
    row = _TOOL_CALL.row(connection, place(request))
    return row if row is not None and _is_of(row, request) else None


def settle_tool_call(
    connection: Connection, request: RunTool, kind: Kind, attempt: str, observed: Observed, started: float, now: float
) -> Observed:
    """Enter what a call brought, or keep what stands. Returns what stands then.

    The number of the dispatch does not matter: all dispatches that were begun did the same operation, and the first
    outcome is the outcome.

    Raises JournalMismatch where the key belongs to another call, or to an effect that was given up before it began.
    """
    return settle(connection, _SETTLE, request, tool_row(request, kind, attempt, started), observed, now)


def settle(
    connection: Connection, outcome: Upsert, request: RunTool, row: dict[str, Any], observed: Observed, now: float
) -> Observed:
    """Enter an observation by `outcome`, in a `row` of its own where none stands. Returns what stands then.

    Raises JournalMismatch as `settle_tool_call` does.
    """
    settled = {
        "state": "settled",
        "body": text_of(observed.observation),
        "whole": observed.whole,
        "fatal": observed.fatal,
        "milliseconds": observed.milliseconds,
        "settled_at": now,
    }
    standing = written(connection, outcome, request, row | settled)
    if standing.state == "fenced":
        raise JournalMismatch(
            f"run {request.run_id!r}: call {request.position} of model call {request.model_call}, of "
            f"{standing.name!r}, was given up before it began, up to dispatch {standing.dispatch}: an outcome of it "
            "comes from a handler that the ledger did not let begin"
        )
    return observed_in(standing)


def written(connection: Connection, statement: Upsert, request: RunTool, row: Mapping[str, Any]) -> Row[Any]:
    """Write `row`. Returns what stands then, written or not.

    Raises PlaceTaken where that is of another call.
    """
    standing = statement[connection.dialect.name].row(connection, row) or _TOOL_CALL.row(connection, place(request))
    assert standing is not None, "what is not entered is kept from it by the row that stands"
    if not _is_of(standing, request):
        raise PlaceTaken(
            f"run {request.run_id!r}: the place of call {request.position} of model call {request.model_call} is held "
            f"by another call, of {standing.name!r}, made before the run was reset"
        )
    return standing


def place(request: RunTool) -> dict[str, Any]:
    """The values of AT_PLACE."""
    return {
        "run": request.run_id,
        "model": request.model_call,
        "place": request.position,
        "id": stored(request.call.id),
    }


def tool_row(request: RunTool, kind: Kind, attempt: str, now: float) -> dict[str, Any]:
    """A new row of a call, but for its state."""
    return {
        "run_id": request.run_id,
        "model_call": request.model_call,
        "position": request.position,
        "call_id": request.call.id,
        "name": request.call.name,
        "arguments_sha256": arguments_digest(request.call),
        "kind": kind,
        "dispatch": request.dispatch,
        "fatal": False,
        "attempt": attempt,
        "started_at": now,
    }


def observed_in(row: Row[Any]) -> Observed:
    """The observation of a settled row."""
    return Observed(ToolMessage.model_validate_json(row.body), row.milliseconds, row.fatal, row.whole)


def _is_of(row: Row[Any], request: RunTool) -> bool:
    return bool(row.name == stored(request.call.name) and row.arguments_sha256 == arguments_digest(request.call))
