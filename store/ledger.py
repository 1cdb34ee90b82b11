"""The ledger of effects: one row for each, under the key of its call, with the fence that makes it happen at most once.
Functions of one transaction, of one statement wherever two workers could come between.

    no row   -> started    a dispatch begins; its handler runs once this is committed
    no row   -> fenced     the dispatch was given up: it never began, and neither it nor a lower one ever will
    fenced   -> started    by a higher dispatch only
    started  -> unknown    the handler is over and cannot say what came of it
    started  -> fenced     by its own worker, which did not begin the handler in time
    started, unknown -> started    by a higher dispatch, and only of a tool that may be called again (idempotent)
    started, unknown -> settled    by the handler, or by a person's word; what is settled stays as it is

No other worker fences a row that was started, and so a fenced effect was never run.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update

from longshift.contracts import RunTool
from longshift.messages import arguments_digest
from store.confirming import not_its_journal
from store.prepared import Prepared
from store.tables import RUNS, TOOL_CALLS
from store.tool_calls import (
    AT_PLACE,
    OUTCOME,
    Observed,
    observed_in,
    place,
    settle,
    standing_row,
    tool_row,
    upsert,
    written,
)

A_PERSON = "a person"
"""Who entered an outcome that a person told."""


@dataclass(frozen=True)
class Fenced:
    """The effect was not run, and never will be under this dispatch or a lower one."""

    dispatch: int


@dataclass(frozen=True)
class Begun:
    """The effect was begun, and nothing is settled."""

    dispatch: int
    """No dispatch up to this one can begin any more."""
    started_at: float
    """Seconds since the epoch: when the latest handler began."""
    over: bool
    """Its handler is over: nothing more will come from it."""
    why: str | None = None
    """Where it is over: why its outcome is unknown, in words."""


Standing = Observed | Fenced | Begun
"""What `settle_effect` and `read_effect` find."""

_ENTERED = ("state", "dispatch", "attempt", "started_at", "settled_at", "note")
_BEGIN = upsert(*_ENTERED, states=("fenced",), newer=True)
_BEGIN_AGAIN = upsert(*_ENTERED, states=("fenced", "started", "unknown"), newer=True)
# The number of a begun effect rises, too: a dispatch of it that was lost before it began must not begin late either.
_FENCE = upsert("dispatch", states=("fenced", "started", "unknown"), newer=True)
_RESOLVE = upsert(*OUTCOME, "attempt", states=("started", "unknown"))
_LEAVE = update(TOOL_CALLS).where(
    *AT_PLACE,
    TOOL_CALLS.c.name == bindparam("tool"),
    TOOL_CALLS.c.arguments_sha256 == bindparam("arguments"),
    TOOL_CALLS.c.state == "started",
    TOOL_CALLS.c.dispatch == bindparam("under"),
)
_RUN = Prepared(select(RUNS.c.run_id).where(RUNS.c.run_id == bindparam("run")))
_OWN = select(TOOL_CALLS.c.state).where(
    *AT_PLACE,
    TOOL_CALLS.c.state == "started",
    TOOL_CALLS.c.attempt == bindparam("by"),
    TOOL_CALLS.c.dispatch == bindparam("under"),
)


def begin_effect(connection: Connection, request: RunTool, attempt: str, now: float, *, again: bool) -> bool:
    """Enter a dispatch as started. Returns False, and changes nothing, where it must not run.

    Raises JournalUnavailable where this is not the journal that the run was opened in.
    """
    _prove_its_journal(connection, request)
    row = tool_row(request, "effect", attempt, now) | {"state": "started"}
    statement = (_BEGIN_AGAIN if again else _BEGIN)[connection.dialect.name]
    if statement.row(connection, row) is not None:
        return True
    # This very execution's own row: the connection was lost with its commit, and the transaction is repeated.
    own = place(request) | {"by": attempt, "under": request.dispatch}
    return connection.execute(_OWN, own).one_or_none() is not None


def withdraw_effect(connection: Connection, request: RunTool) -> None:
    """Fence a dispatch that was entered as started and whose handler, as its worker knows, was not begun."""
    connection.execute(_LEAVE, _own_call(request) | {"state": "fenced"})


def leave_unknown(connection: Connection, request: RunTool, now: float, why: str) -> None:
    """Enter that the handler of this dispatch is over; where another dispatch was begun since, that one may still
    say what came of it."""
    connection.execute(_LEAVE, _own_call(request) | {"state": "unknown", "note": why, "settled_at": now})


def settle_effect(connection: Connection, request: RunTool, now: float) -> Standing:
    """Fence a dispatch that was given up, unless the effect was begun. Returns what stands then.

    Raises JournalMismatch where the key belongs to another call, JournalUnavailable as `begin_effect` does.
    """
    _prove_its_journal(connection, request)
    return _standing(written(connection, _FENCE, request, tool_row(request, "effect", "", now) | {"state": "fenced"}))


def read_effect(connection: Connection, request: RunTool) -> Standing | None:
    """What stands of this very effect; None where it has no row.

    Raises JournalUnavailable as `begin_effect` does.
    """
    _prove_its_journal(connection, request)
    row = standing_row(connection, request)
    return None if row is None else _standing(row)


def resolve_effect(connection: Connection, request: RunTool, observed: Observed, now: float) -> Observed:
    """Enter a person's word on an effect, or keep what is settled. Returns what stands then.

    An effect without a row, which a journal that was away could not be asked about, is settled too: then no late
    worker can begin it.

    Raises JournalMismatch where the key belongs to another call, or to an effect that was given up before it began.
    """
    return settle(connection, _RESOLVE, request, tool_row(request, "effect", A_PERSON, now), observed, now)


def _prove_its_journal(connection: Connection, request: RunTool) -> None:
    """A database that was made anew, or another one, has no row of an effect that may have been made all the same."""
    if _RUN.row(connection, {"run": request.run_id}) is None:
        raise not_its_journal(connection, request.run_id)


def _standing(row: Row[Any]) -> Standing:
    match row.state:
        case "settled":
            return observed_in(row)
        case "fenced":
            return Fenced(row.dispatch)
        case _:
            return Begun(row.dispatch, row.started_at, row.state == "unknown", row.note)


def _own_call(request: RunTool) -> dict[str, Any]:
    """The values of the conditions of _LEAVE."""
    call = {"tool": request.call.name, "arguments": arguments_digest(request.call)}
    return place(request) | call | {"under": request.dispatch}
