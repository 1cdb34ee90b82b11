"""Runs as rows: opened, closed, listed. Functions of one transaction."""

from collections.abc import Sequence

from sqlalchemy import Connection, select, update
from sqlalchemy.dialects import postgresql, sqlite

from longshift.chain import Head, extend
from longshift.contracts import CloseRun, Entry, RunSpec
from longshift.jsontext import canonical
from longshift.messages import Message, weigh
from store.confirming import Run, append, confirm, decide, lock_run, not_its_journal, rewrite
from store.errors import JournalMismatch
from store.tables import (
    DECISIONS,
    MESSAGES,
    MODEL_CALLS,
    RUNS,
    TOOL_CALLS,
    DecisionRow,
    ModelCallRow,
    RunRow,
    ToolCallRow,
)

_OPEN = {
    "sqlite": sqlite.insert(RUNS).on_conflict_do_nothing().returning(RUNS.c.run_id),
    "postgresql": postgresql.insert(RUNS).on_conflict_do_nothing().returning(RUNS.c.run_id),
}


def open_run(connection: Connection, run_id: str, spec: RunSpec, opening: Sequence[Message], opened_at: float) -> Head:
    """Enter a run and its first messages; or find it entered with the same ones. The first specification stands.

    Raises JournalMismatch where the run was opened with other messages.
    """
    head = Head()
    for message in opening:
        head = extend(head, weigh(message))
    row = {
        "run_id": run_id,
        "agent": spec.agent.name,
        "endpoint": spec.endpoint.name,
        "model": spec.endpoint.model,
        "opened_at": opened_at,
        "spec": canonical(spec.model_dump(mode="json")),
        "length": head.length,
        "digest": head.digest,
    }
    if connection.execute(_OPEN[connection.dialect.name], row).one_or_none() is not None:
        empty = Run(run_id, Head(), None)
        append(connection, empty, confirm(connection, empty, head, [Entry(message=m) for m in opening]).rows)
        return head
    last = select(MESSAGES.c.digest).where(MESSAGES.c.run_id == run_id, MESSAGES.c.number == head.length - 1)
    if opening and connection.execute(last).scalar_one_or_none() != head.digest:
        raise JournalMismatch(
            f"run {run_id!r} stands in the journal with another opening: start the new one under another id"
        )
    return head


def read_spec(connection: Connection, run_id: str) -> RunSpec:
    """What a run works with.

    Raises JournalUnavailable where this is not the journal that it was opened in.
    """
    text = connection.execute(select(RUNS.c.spec).where(RUNS.c.run_id == run_id)).scalar_one_or_none()
    if text is None:
        raise not_its_journal(connection, run_id)
    return RunSpec.model_validate_json(text)


def close_run(connection: Connection, request: CloseRun, now: float) -> None:
    """Append what is new and enter the end; or find it entered."""
    run = lock_run(connection, request.run_id)
    result = canonical(request.result.model_dump(mode="json"))
    if run.head == request.head and run.result == result:
        return
    confirmed = confirm(connection, run, request.head, request.entries)
    keep = confirmed.parting or request.head
    if run.head.length > keep.length:
        run = rewrite(connection, run, keep, request.result.model_calls + 1, now)
    append(connection, run, confirmed.rows)
    decide(connection, run.run_id, request.decisions)
    connection.execute(
        update(RUNS).where(RUNS.c.run_id == run.run_id),
        {
            "closed_at": now,
            "status": request.result.status.value,
            "detail": request.result.detail,
            "result": result,
            "length": request.head.length,
            "digest": request.head.digest,
        },
    )


def read_run(connection: Connection, run_id: str) -> RunRow | None:
    """One run."""
    row = connection.execute(select(RUNS).where(RUNS.c.run_id == run_id)).one_or_none()
    return None if row is None else RunRow(**row._mapping)


def read_model_calls(connection: Connection, run_id: str) -> list[ModelCallRow]:
    """A run's model calls, in order."""
    rows = select(MODEL_CALLS).where(MODEL_CALLS.c.run_id == run_id).order_by(MODEL_CALLS.c.number)
    return [ModelCallRow(**row._mapping) for row in connection.execute(rows)]


def read_tool_calls(connection: Connection, run_id: str) -> list[ToolCallRow]:
    """A run's dispatched tool calls, in the order of the requests."""
    rows = (
        select(TOOL_CALLS)
        .where(TOOL_CALLS.c.run_id == run_id)
        .order_by(TOOL_CALLS.c.model_call, TOOL_CALLS.c.position, TOOL_CALLS.c.started_at)
    )
    return [ToolCallRow(**row._mapping) for row in connection.execute(rows)]


def read_decisions(connection: Connection, run_id: str) -> list[DecisionRow]:
    """A run's decisions, in the order of writing."""
    rows = select(DECISIONS).where(DECISIONS.c.run_id == run_id).order_by(DECISIONS.c.number)
    return [DecisionRow(**row._mapping) for row in connection.execute(rows)]
