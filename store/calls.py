"""Model calls and tool calls as rows: what was sent, what came of it. Functions of one transaction.

What is written first stands. A worker that was given up and comes back late changes nothing that the workflow was
told, and learns from the answer that it came late.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import ReturningInsert

from longshift.contracts import CallModel, RunTool
from longshift.jsontext import canonical
from longshift.messages import AssistantMessage, ToolCall, ToolMessage, arguments_digest, text_of
from longshift.recording import record
from longshift.tools import Kind
from longshift.turns import ModelFailure, Turn, Usage
from store.confirming import Confirmed, append, confirm, decide, lock_run, rewrite
from store.errors import JournalMismatch
from store.tables import MODEL_CALLS, RUNS, TOOL_CALLS, stored


@dataclass(frozen=True)
class Fresh:
    """The call stands as sent and is this worker's to send."""


@dataclass(frozen=True)
class Answered:
    """The call was answered before; it is not paid for again."""

    turn: Turn


@dataclass(frozen=True)
class Failed:
    """The call failed before."""

    failure: ModelFailure


@dataclass(frozen=True)
class Lost:
    """The call was sent, or given up, and no outcome was recorded. From now on it stands as failed."""

    failure: ModelFailure


Begun = Fresh | Answered | Lost | Failed
"""What `begin_model_call` finds."""


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


_CALLS_FROM = (
    select(MODEL_CALLS)
    .where(MODEL_CALLS.c.run_id == bindparam("run"), MODEL_CALLS.c.number >= bindparam("from_number"))
    .order_by(MODEL_CALLS.c.number)
    .limit(2)
)
_SEND = insert(MODEL_CALLS)
_OPEN = {"closed_at": None, "status": None, "detail": None, "result": None}
_MOVE = update(RUNS).where(RUNS.c.run_id == bindparam("run"))
_SETTLE_SENT = update(MODEL_CALLS).where(
    MODEL_CALLS.c.run_id == bindparam("run"),
    MODEL_CALLS.c.number == bindparam("call"),
    MODEL_CALLS.c.context_digest == bindparam("context"),
    MODEL_CALLS.c.state == "sent",
)
_TURN = select(MODEL_CALLS.c.body).where(
    MODEL_CALLS.c.run_id == bindparam("run"),
    MODEL_CALLS.c.number == bindparam("call"),
    MODEL_CALLS.c.state == "answered",
)

_PLACE = (
    TOOL_CALLS.c.run_id == bindparam("run"),
    TOOL_CALLS.c.model_call == bindparam("model"),
    TOOL_CALLS.c.position == bindparam("place"),
    TOOL_CALLS.c.call_id == bindparam("id"),
)
_STANDING: tuple[ColumnElement[Any], ...] = (
    TOOL_CALLS.c.name,
    TOOL_CALLS.c.arguments_sha256,
    TOOL_CALLS.c.state,
    TOOL_CALLS.c.body,
    TOOL_CALLS.c.milliseconds,
    TOOL_CALLS.c.fatal,
    TOOL_CALLS.c.whole,
)
_TOOL_CALL = select(*_STANDING).where(*_PLACE)
_SETTLED_COLUMNS = ("state", "body", "whole", "fatal", "milliseconds", "settled_at")


def _start(insert: sqlite.Insert | postgresql.Insert) -> ReturningInsert[Any]:
    return insert.on_conflict_do_nothing().returning(TOOL_CALLS.c.call_id)


def _settle(insert: sqlite.Insert | postgresql.Insert) -> ReturningInsert[Any]:
    return insert.on_conflict_do_update(
        index_elements=list(TOOL_CALLS.primary_key),
        set_={name: insert.excluded[name] for name in _SETTLED_COLUMNS},
        where=TOOL_CALLS.c.state == "started",
    ).returning(*_STANDING)


_START = {"sqlite": _start(sqlite.insert(TOOL_CALLS)), "postgresql": _start(postgresql.insert(TOOL_CALLS))}
_SETTLE = {"sqlite": _settle(sqlite.insert(TOOL_CALLS)), "postgresql": _settle(postgresql.insert(TOOL_CALLS))}


def begin_model_call(
    connection: Connection, request: CallModel, sender: str, now: float
) -> tuple[Begun, Confirmed | None]:
    """Append what is new, then enter the call as sent; or tell what came of it before.

    Returns beside it, for a fresh call, what was appended.
    """
    run = lock_run(connection, request.run_id)
    standing = connection.execute(_CALLS_FROM, {"run": run.run_id, "from_number": request.number}).all()
    own = standing[0] if standing and standing[0].number == request.number else None
    if own is not None and (own.context_length, own.context_digest) == (request.head.length, request.head.digest):
        return _outcome(connection, request, own, now), None  # this request was carried out already

    confirmed = confirm(connection, run, request.head, request.entries)
    if own is None and confirmed.parting is None and (standing or request.number <= run.admitted):
        # The workflow went on to a later call, or to its end, without this one: a suspended worker that wakes up
        # late starts nothing that was given up. (A reset run is told the same, and goes the way it went.)
        failure = _lost(request, "was given up before a worker entered it")
        decide(connection, run.run_id, request.decisions)
        connection.execute(_SEND, _row(request, sender, now) | _failed(failure, now))
        return Lost(failure), None
    keep = confirmed.parting or request.head
    if own is not None or run.head.length > keep.length:
        run = rewrite(connection, run, keep, request.number, now)
    append(connection, run, confirmed.rows)
    connection.execute(_MOVE, {"run": run.run_id, "length": request.head.length, "digest": request.head.digest} | _OPEN)
    decide(connection, run.run_id, request.decisions)
    connection.execute(_SEND, _row(request, sender, now))
    return Fresh(), confirmed


def settle_model_call(
    connection: Connection, request: CallModel, reply: AssistantMessage, turn: Turn, now: float
) -> bool:
    """Enter the whole reply of a call that stands as sent. Returns whether it did."""
    values = {
        "state": "answered",
        "body": text_of(reply),
        "stop_reason": turn.stop_reason,
        "output_tokens": turn.usage.output_tokens,
        "input_tokens": turn.usage.input_tokens,
        "usage": canonical(turn.usage.model_dump(mode="json")),
        "cost": turn.cost,
        "milliseconds": turn.milliseconds,
        "ended_at": now,
    }
    return _settle_sent(connection, request, values)


def fail_model_call(connection: Connection, request: CallModel, failure: ModelFailure, now: float) -> bool:
    """Enter the failure of a call that stands as sent. Returns whether it did."""
    return _settle_sent(connection, request, _failed(failure, now))


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
    row = connection.execute(_TOOL_CALL, _place(request)).one_or_none()
    return _observed(row) if row is not None and row.state == "settled" and _is_of(row, request) else None


def begin_tool_call(connection: Connection, request: RunTool, kind: Kind, attempt: str, now: float) -> bool:
    """Enter a call as started. Returns False, and changes nothing, where its key has a row."""
    row = _tool_row(request, kind, attempt, now) | {"state": "started"}
    return connection.execute(_START[connection.dialect.name], row).one_or_none() is not None


def settle_tool_call(
    connection: Connection, request: RunTool, kind: Kind, attempt: str, observed: Observed, started: float, now: float
) -> Observed:
    """Enter what a call brought, or keep what stands. Returns what stands then.

    Raises JournalMismatch where the key belongs to another call.
    """
    row = (
        connection.execute(
            _SETTLE[connection.dialect.name],
            _tool_row(request, kind, attempt, started)
            | {
                "state": "settled",
                "body": text_of(observed.observation),
                "whole": observed.whole,
                "fatal": observed.fatal,
                "milliseconds": observed.milliseconds,
                "settled_at": now,
            },
        ).one_or_none()
        or connection.execute(_TOOL_CALL, _place(request)).one()
    )
    if not _is_of(row, request):
        raise JournalMismatch(
            f"run {request.run_id!r}: the place of call {request.position} of model call {request.model_call} is held "
            f"by another call, of {row.name!r}, made before the run was reset"
        )
    return _observed(row)


def _outcome(connection: Connection, request: CallModel, row: Row[Any], now: float) -> Begun:
    if row.state == "answered":
        return Answered(
            Turn(
                reply=record(AssistantMessage.model_validate_json(row.body)),
                stop_reason=row.stop_reason,
                usage=Usage.model_validate_json(row.usage),
                cost=row.cost,
                milliseconds=row.milliseconds,
            )
        )
    if row.state == "failed":
        return Failed(ModelFailure.model_validate_json(row.failure))
    failure = _lost(request, "was sent by a worker that recorded no answer")
    fail_model_call(connection, request, failure, now)
    return Lost(failure)


def _lost(request: CallModel, what: str) -> ModelFailure:
    return ModelFailure(
        kind="lost",
        message=f"model call {request.number} {what}; it may have been billed",
        transient=True,
    )


def _row(request: CallModel, sender: str, now: float) -> dict[str, Any]:
    return {
        "run_id": request.run_id,
        "number": request.number,
        "context_length": request.head.length,
        "context_digest": request.head.digest,
        "tools": request.tools,
        "allowed": request.output_tokens,
        "estimate": request.estimate,
        "state": "sent",
        "sender": sender,
        "started_at": now,
    }


def _failed(failure: ModelFailure, now: float) -> dict[str, Any]:
    usage = failure.usage or Usage()
    return {
        "state": "failed",
        "failure": canonical(failure.model_dump(mode="json")),
        "output_tokens": usage.output_tokens,
        "input_tokens": usage.input_tokens,
        "cost": failure.cost,
        "milliseconds": failure.milliseconds,
        "ended_at": now,
    }


def _settle_sent(connection: Connection, request: CallModel, values: dict[str, Any]) -> bool:
    where = {"run": request.run_id, "call": request.number, "context": request.head.digest}
    return connection.execute(_SETTLE_SENT, where | values).rowcount == 1


def _place(request: RunTool) -> dict[str, Any]:
    return {
        "run": request.run_id,
        "model": request.model_call,
        "place": request.position,
        "id": stored(request.call.id),
    }


def _is_of(row: Row[Any], request: RunTool) -> bool:
    return bool(row.name == stored(request.call.name) and row.arguments_sha256 == arguments_digest(request.call))


def _tool_row(request: RunTool, kind: Kind, attempt: str, now: float) -> dict[str, Any]:
    return {
        "run_id": request.run_id,
        "model_call": request.model_call,
        "position": request.position,
        "call_id": request.call.id,
        "name": request.call.name,
        "arguments_sha256": arguments_digest(request.call),
        "kind": kind,
        "fatal": False,
        "attempt": attempt,
        "started_at": now,
    }


def _observed(row: Row[Any]) -> Observed:
    return Observed(ToolMessage.model_validate_json(row.body), row.milliseconds, row.fatal, row.whole)
