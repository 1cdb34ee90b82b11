"""Runs as rows: opened, closed, listed. Functions of one transaction."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, SupportsInt

from sqlalchemy import JSON, ColumnElement, Connection, Select, case, cast, func, select, type_coerce, update
from sqlalchemy.dialects import postgresql, sqlite

from longshift.chain import Head, extend
from longshift.contracts import CloseRun, Entry, RunSpec, shared_spec, spec_text
from longshift.jsontext import canonical
from longshift.limits import Limits
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


HELD = "held"
"""Kind of the decision that a run waits for something from outside; its detail has the `reason`."""


_REPORTED, _ALLOWED = MODEL_CALLS.c.output_tokens, MODEL_CALLS.c.allowed
_CHARGED = case(
    (MODEL_CALLS.c.state == "answered", case((_REPORTED > _ALLOWED, 0), else_=func.coalesce(_REPORTED, _ALLOWED))),
    (_REPORTED > _ALLOWED, _ALLOWED),
    else_=func.coalesce(_REPORTED, 0),
)
"""Tokens that a model call is charged with, as longshift.turns and longshift.state do."""
_AS_JSON = {"sqlite": type_coerce, "postgresql": cast}
"""How a text is taken for JSON; SQLite's cast would make a number of it."""


@dataclass(frozen=True)
class RunFigures:
    """One run in few figures: what the journal holds of it, summed up."""

    run_id: str
    agent: str
    endpoint: str
    model: str
    opened_at: float
    """Seconds since the epoch, as `closed_at`."""
    closed_at: float | None
    status: str | None
    """How it ended; None where no end is recorded."""
    detail: str | None
    limits: Limits
    """As it was opened with."""
    model_calls: int
    """As its limit counts them."""
    tool_calls: int
    """As its limit counts them, refused ones too; the dispatched ones where no end is recorded."""
    output_tokens: int
    """As reported."""
    charged_tokens: int
    """As its limit counts them: a turn that reports none is charged with all it was allowed."""
    tokens_before: int
    """Those of them that were charged before its latest model call."""
    exposure: int
    """Micro-USD that its model calls cost, or may have."""
    budget_needed: int
    """Micro-USD: the least budget that admits its model calls, the most that was spent before one and its estimate."""
    last_at: float
    """When its latest model call began or ended; when it was opened, where it made none."""
    held: tuple[str, ...]
    """JSON details of the decisions by which it waited, in order."""


def open_run(connection: Connection, run_id: str, spec: RunSpec, opening: Sequence[Message], opened_at: float) -> Head:
    """Enter a run and its first messages; or find it entered with the same ones. The first specification stands.

    Raises JournalMismatch where the id is of another run, which was opened at another time or with other messages.
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
        "spec": spec_text(spec),
        "length": head.length,
        "digest": head.digest,
    }
    if connection.execute(_OPEN[connection.dialect.name], row).one_or_none() is not None:
        empty = Run(run_id, Head(), None)
        append(connection, empty, confirm(connection, empty, head, [Entry(message=m) for m in opening]).rows)
        return head
    # A reset keeps the time at which its run was started. One that is started anew under an old id has another,
    # and would be given the old one's answers.
    standing = connection.execute(select(RUNS.c.opened_at).where(RUNS.c.run_id == run_id)).scalar_one()
    if standing != opened_at:
        when = datetime.fromtimestamp(standing, UTC).isoformat(timespec="seconds")
        raise JournalMismatch(
            f"run {run_id!r} stands in the journal as another run, started at {when}: start the new one under "
            "another id"
        )
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
    return shared_spec(text)


def close_run(connection: Connection, request: CloseRun, now: float) -> None:
    """Append what is new and enter the end; or find it entered."""
    run = lock_run(connection, request.run_id)
    result = canonical(request.result.model_dump(mode="json"))
    if run.head == request.head and run.result == result:
        return
    confirmed = confirm(connection, run, request.head, request.entries)
    keep = confirmed.parting or request.head
    if run.head.length > keep.length:
        run = rewrite(connection, run, keep, request.result.model_calls + request.result.withdrawn + 1, now)
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


def read_figures(connection: Connection, since: float) -> list[RunFigures]:
    """The runs that were opened since then, seconds since the epoch, the earliest first."""
    wanted = RUNS.c.opened_at >= since
    ids = select(RUNS.c.run_id).where(wanted)
    sums = {row.run_id: row for row in connection.execute(_summed_calls(ids))}
    tools = select(TOOL_CALLS.c.run_id, func.count()).where(TOOL_CALLS.c.run_id.in_(ids))
    made = {row.run_id: row[1] for row in connection.execute(tools.group_by(TOOL_CALLS.c.run_id))}
    waits = select(DECISIONS.c.run_id, DECISIONS.c.detail).where(DECISIONS.c.run_id.in_(ids), DECISIONS.c.kind == HELD)
    held: defaultdict[str, list[str]] = defaultdict(list)
    for run_id, detail in connection.execute(waits.order_by(DECISIONS.c.run_id, DECISIONS.c.number)):
        held[run_id].append(detail)
    columns = ("run_id", "agent", "endpoint", "model", "opened_at", "closed_at", "status", "detail")
    result, spec = (
        # An answer may hold the escape of NUL, at which PostgreSQL would refuse the whole document.
        _AS_JSON[connection.dialect.name](func.replace(text, r"\u0000", r"\ufffd"), JSON)
        for text in (RUNS.c.result, RUNS.c.spec)
    )
    told = [result[name].label(name) for name in ("model_calls", "tool_calls", "output_tokens", "exposure")]
    limits = spec["agent", "limits"].label("limits")
    runs = select(*(RUNS.c[name] for name in columns), limits, *told).where(wanted)
    found = []
    for row in connection.execute(runs.order_by(RUNS.c.opened_at, RUNS.c.run_id)):
        of = sums.get(row.run_id)
        figures = RunFigures(
            **{name: getattr(row, name) for name in columns},
            limits=Limits.model_validate(row.limits or {}),
            # Not all that a limit counts has a row, such as a refused tool call: the result counts it.
            model_calls=_first(row.model_calls, of and of.model_calls),
            tool_calls=_first(row.tool_calls, made.get(row.run_id)),
            output_tokens=_first(of and of.output_tokens),
            charged_tokens=_first(row.output_tokens, of and of.charged_tokens),
            tokens_before=_first(of and of.tokens_before),
            exposure=_first(row.exposure, of and of.exposure),
            budget_needed=_first(of and of.budget_needed),
            last_at=of.last_at if of else row.opened_at,
            held=tuple(held[row.run_id]),
        )
        found.append(figures)
    return found


def _summed_calls(ids: Select[tuple[str]]) -> Select[Any]:
    """The model calls of some runs, summed up by run."""
    cost = func.coalesce(MODEL_CALLS.c.cost, MODEL_CALLS.c.estimate)

    def before(amount: ColumnElement[int]) -> ColumnElement[int]:
        """The sum of those of the calls before."""
        return func.sum(amount).over(partition_by=MODEL_CALLS.c.run_id, order_by=MODEL_CALLS.c.number) - amount

    calls = (
        select(
            MODEL_CALLS.c.run_id,
            func.coalesce(MODEL_CALLS.c.output_tokens, 0).label("output_tokens"),
            _CHARGED.label("charged_tokens"),
            before(_CHARGED).label("tokens_before"),
            cost.label("exposure"),
            (before(cost) + MODEL_CALLS.c.estimate).label("budget_needed"),
            func.coalesce(MODEL_CALLS.c.ended_at, MODEL_CALLS.c.started_at).label("last_at"),
        )
        .where(MODEL_CALLS.c.run_id.in_(ids))
        .subquery()
    )
    summed = [func.sum(calls.c[name]).label(name) for name in ("output_tokens", "charged_tokens", "exposure")]
    most = [func.max(calls.c[name]).label(name) for name in ("tokens_before", "budget_needed", "last_at")]
    return select(calls.c.run_id, func.count().label("model_calls"), *summed, *most).group_by(calls.c.run_id)


def _first(*counts: SupportsInt | None) -> int:
    """The first count that there is, else 0."""
    return next((int(count) for count in counts if count is not None), 0)
