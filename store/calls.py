"""Model calls as rows: what was sent, what came of it. Functions of one transaction.

What is written first stands. A worker that was given up and comes back late changes nothing that the workflow was
told, and learns from the answer that it came late.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from longshift.context import Excerpt
from longshift.contracts import CallModel
from longshift.executions import precedes
from longshift.funds import NEVER_SENT
from longshift.jsontext import canonical
from longshift.messages import AssistantMessage, text_of
from longshift.recording import record
from longshift.turns import ModelFailure, Turn, Usage
from store import funds
from store.confirming import Confirmed, append, confirm, decide, lock_run, rewrite
from store.errors import JournalMismatch
from store.funds import Draw
from store.memory import remember
from store.prepared import Prepared
from store.tables import LARGEST, MODEL_CALLS, RUNS


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
    """The call was sent, or given up, and no outcome was recorded. From now on it stands as failed; but where a later
    execution has sent it, whose outcome will stand."""

    failure: ModelFailure


Found = Fresh | Answered | Lost | Failed
"""What `begin_model_call` finds."""

_CALLS_FROM = Prepared(
    select(MODEL_CALLS)
    .where(MODEL_CALLS.c.run_id == bindparam("run"), MODEL_CALLS.c.number >= bindparam("from_number"))
    .order_by(MODEL_CALLS.c.number)
    .limit(2)
)
_SEND = Prepared(insert(MODEL_CALLS))
_OPEN = {"closed_at": None, "status": None, "detail": None, "result": None}
_MOVE = Prepared(update(RUNS).where(RUNS.c.run_id == bindparam("run")))
_SETTLE_SENT = Prepared(
    update(MODEL_CALLS)
    .where(
        MODEL_CALLS.c.run_id == bindparam("run"),
        MODEL_CALLS.c.number == bindparam("call"),
        MODEL_CALLS.c.context_digest == bindparam("context"),
        MODEL_CALLS.c.excerpt.is_not_distinct_from(bindparam("sent")),
        MODEL_CALLS.c.state == "sent",
    )
    .returning(MODEL_CALLS.c.fund, MODEL_CALLS.c.reserved)
)
_RELEASE = Prepared(
    update(MODEL_CALLS)
    .where(MODEL_CALLS.c.run_id == bindparam("run"), MODEL_CALLS.c.number == bindparam("call"))
    .values(reserved=0)
)


def begin_model_call(
    connection: Connection, request: CallModel, sender: str, now: float, draw: Draw | None
) -> tuple[Found, Confirmed | None]:
    """Append what is new, then enter the call as sent and let its fund hold what it may cost; or tell what came of it
    before.

    Returns beside it, for a fresh call, what was appended.

    Raises FundRefused, on which the transaction is rolled back: the call was never admitted.
    """
    run = lock_run(connection, request.run_id)
    standing = _CALLS_FROM.rows(connection, {"run": run.run_id, "from_number": request.number})
    own = standing[0] if standing and standing[0].number == request.number else None
    if own is not None and _is_the_same(request, own):
        if own.state == "sent" and own.sender == sender:
            return Fresh(), None  # by this very execution: the connection was lost with its commit
        if own.state == "sent" and precedes(sender, own.sender):
            # This one was given up before it could enter the call. The later one's reply is paid for, and awaited.
            return Lost(_lost(request, "was sent by a later execution", "; the reply is not used")), None
        return _outcome(connection, request, own, now), None  # this request was carried out already

    confirmed = confirm(connection, run, request.head, request.entries)
    if own is None and confirmed.parting is None and (standing or request.number <= run.admitted):
        # The workflow went on to a later call, or to its end, without this one: a suspended worker that wakes up
        # late starts nothing that was given up. (A reset run is told the same, and goes the way it went.)
        failure = _lost(request, "was given up before a worker entered it")
        if request.head.length > run.head.length:  # a reset run has heard more since, and hands it over once
            append(connection, run, confirmed.rows)
            _move(connection, request)
        decide(connection, run.run_id, request.decisions)
        remember(connection, request)
        _SEND.rows(connection, _row(request, sender, now) | _failed(failure, now))
        return Lost(failure), None
    keep = confirmed.parting or request.head
    if own is not None or run.head.length > keep.length:
        run = rewrite(connection, run, keep, request.number, now)
    append(connection, run, confirmed.rows)
    _move(connection, request)
    decide(connection, run.run_id, request.decisions)
    remember(connection, request)
    paid_by = {"fund": draw.fund, "reserved": draw.amount} if draw else {}
    _SEND.rows(connection, _row(request, sender, now) | paid_by)
    if draw:
        funds.reserve(connection, draw)  # at the very end, since other runs wait for the fund's row until the commit
    return Fresh(), confirmed


def _move(connection: Connection, request: CallModel) -> None:
    """Let the run, which is open, stand where the request's chain ends."""
    head = {"length": request.head.length, "digest": request.head.digest}
    _MOVE.rows(connection, {"run": request.run_id} | head | _OPEN)


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
    if _settle_sent(connection, request, values, turn.cost):
        return True
    # It stands already where the connection was lost with the commit, and the transaction is repeated.
    standing = _CALLS_FROM.row(connection, {"run": request.run_id, "from_number": request.number})
    return standing is not None and standing.number == request.number and standing.body == values["body"]


def fail_model_call(
    connection: Connection, request: CallModel, failure: ModelFailure, now: float, *, never_sent: bool = False
) -> bool:
    """Enter the failure of a call that stands as sent, or, with `never_sent`, as its kind may say too, that surely
    reached no model. Returns whether it did."""
    never_sent = never_sent or (failure.cost is None and failure.kind in NEVER_SENT)
    return _settle_sent(connection, request, _failed(failure, now), failure.cost, never_sent=never_sent)


def _is_the_same(request: CallModel, standing: Row[Any]) -> bool:
    head = (standing.context_length, standing.context_digest)
    excerpt = None if standing.excerpt is None else Excerpt.model_validate_json(standing.excerpt)
    return head == (request.head.length, request.head.digest) and excerpt == request.excerpt


def _outcome(connection: Connection, request: CallModel, row: Row[Any], now: float) -> Found:
    if row.state == "answered":
        if row.body is None:
            what = f"the reply of model call {request.number} was whole only in a journal that was lost"
            raise JournalMismatch(f"run {request.run_id!r}: {what}")
        return Answered(
            Turn(
                reply=record(AssistantMessage.model_validate_json(row.body)),
                stop_reason=row.stop_reason,
                usage=Usage.model_validate_json(row.usage),
                cost=row.cost,
                milliseconds=row.milliseconds,
                allowed=None if row.allowed == min(request.output_tokens, LARGEST) else row.allowed,
            )
        )
    if row.state == "failed":
        return Failed(ModelFailure.model_validate_json(row.failure))
    failure = _lost(request, "was sent by a worker that recorded no answer")
    fail_model_call(connection, request, failure, now)
    return Lost(failure)


def _lost(request: CallModel, what: str, more: str = "") -> ModelFailure:
    return ModelFailure(
        kind="lost",
        message=f"model call {request.number} {what}; it may have been billed{more}",
        transient=True,
    )


def _row(request: CallModel, sender: str, now: float) -> dict[str, Any]:
    return {
        "run_id": request.run_id,
        "number": request.number,
        "context_length": request.head.length,
        "context_digest": request.head.digest,
        "excerpt": _text(request.excerpt),
        "tools": request.tools,
        "allowed": request.output_tokens,
        "estimate": request.estimate,
        "state": "sent",
        "sender": sender,
        "started_at": now,
        "fund": None,
        "reserved": 0,
    }


def _text(excerpt: Excerpt | None) -> str | None:
    return None if excerpt is None else canonical(excerpt.model_dump(mode="json"))


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


def _settle_sent(
    connection: Connection, request: CallModel, values: dict[str, Any], cost: int | None, *, never_sent: bool = False
) -> bool:
    """Enter an outcome, and settle with the fund where the cost is known; else it goes on holding what it holds."""
    where = {"run": request.run_id, "call": request.number}
    same = {"context": request.head.digest, "sent": _text(request.excerpt)}
    row = _SETTLE_SENT.row(connection, where | same | values)
    if row is None:
        return False
    if row.fund is not None and (cost is not None or never_sent):
        if never_sent:
            _RELEASE.rows(connection, where)
        funds.settle(connection, row.fund, row.reserved, cost or 0)
    return True
