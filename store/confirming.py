"""Appending to a run's chain what its workflow confirmed. Functions of one write transaction.

The workflow is the authority. A message stands in `messages` only because the workflow named it, so that what a late
worker still writes never gets into a transcript. Where an operator's reset made a run go another way, what the
journal holds of the way not gone is replaced; rows of effects stay, since an effect once made is not undone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Connection, bindparam, delete, func, insert, literal_column, select, union_all

from longshift import jsontext
from longshift.chain import GENESIS, Head, extend
from longshift.contracts import Decision, Entry, RunResult
from longshift.jsontext import canonical
from longshift.messages import AssistantMessage, Weight, text_of
from store.database import shown
from store.errors import JournalMismatch, JournalUnavailable
from store.memory import forget
from store.prepared import Prepared
from store.tables import DECISIONS, MESSAGES, MODEL_CALLS, RUNS, TOOL_CALLS, stored

REWRITTEN = "journal_rewritten"
"""Kind of the decision that says that rows were replaced; its detail names the first message and model call."""

_RUN = Prepared(
    select(RUNS.c.length, RUNS.c.digest, RUNS.c.result)
    .where(RUNS.c.run_id == bindparam("run"))
    .with_for_update()  # two workers may write one run at once; SQLite's write lock covers it there
)
_LINKS = Prepared(
    select(MESSAGES.c.number, MESSAGES.c.digest)
    .where(MESSAGES.c.run_id == bindparam("run"), MESSAGES.c.number >= bindparam("start"))
    .order_by(MESSAGES.c.number)
)
# What is new to a chain is of neighbouring model calls: a range finds it, and is not expanded at each use as an IN is.
# One statement for turns (which have no position) and observations, since each costs a fifth of a millisecond.
_BODIES = Prepared(
    union_all(
        select(
            MODEL_CALLS.c.number.label("model_call"),
            literal_column("-1").label("position"),
            literal_column("''").label("call_id"),
            MODEL_CALLS.c.body,
        ).where(
            MODEL_CALLS.c.run_id == bindparam("run"),
            MODEL_CALLS.c.number.between(bindparam("first"), bindparam("last")),
            MODEL_CALLS.c.state == "answered",
        ),
        select(TOOL_CALLS.c.model_call, TOOL_CALLS.c.position, TOOL_CALLS.c.call_id, TOOL_CALLS.c.body).where(
            TOOL_CALLS.c.run_id == bindparam("run"),
            TOOL_CALLS.c.model_call.between(bindparam("first"), bindparam("last")),
            TOOL_CALLS.c.state == "settled",
        ),
    )
)
_TURN = -1
"""The position of a turn among the bodies."""
_APPEND = Prepared(insert(MESSAGES))


@dataclass(frozen=True)
class Run:
    """What a write needs to know of its run."""

    run_id: str
    head: Head
    """The latest confirmed link."""
    result: str | None
    """JSON of its result; None while it is open."""

    @property
    def admitted(self) -> int:
        """The last number that a closed run gave to a model call; 0 for an open one."""
        if not self.result:
            return 0
        result = RunResult.model_validate_json(self.result)
        return result.model_calls + result.withdrawn


@dataclass(frozen=True)
class Confirmed:
    """Entries as rows of `messages`, and where they part from what stands in the journal."""

    start: Head
    """The chain before them."""
    texts: Sequence[str]
    """Their messages' canonical JSON."""
    rows: Sequence[Mapping[str, Any]]
    parting: Head | None
    """The chain before the first message that stands there with another link; None where there is none."""


def lock_run(connection: Connection, run_id: str) -> Run:
    """The run, locked for this transaction.

    Raises JournalUnavailable where this is not the journal that it was opened in.
    """
    row = _RUN.row(connection, {"run": run_id})
    if row is None:
        raise not_its_journal(connection, run_id)
    return Run(run_id, Head(length=row.length, digest=row.digest), row.result)


def not_its_journal(connection: Connection, run_id: str) -> JournalUnavailable:
    """What to raise where nothing is known of a run that was opened: its journal is elsewhere."""
    return JournalUnavailable(
        f"the journal {shown(connection.engine.url)} is empty or another one, and holds nothing of run {run_id!r}; "
        "bring back the journal that the run began in, and have all workers use it"
    )


def confirm(connection: Connection, run: Run, head: Head, entries: Sequence[Entry]) -> Confirmed:
    """Give entries their numbers and links. Writes nothing.

    Raises JournalMismatch where a body is missing or the links do not end at `head`.
    """
    start = head.length - len(entries)
    links = {run.head.length - 1: run.head.digest, -1: GENESIS}
    if run.head.length != start:
        links |= {row.number: row.digest for row in _LINKS.rows(connection, {"run": run.run_id, "start": start - 1})}
    if start < 0 or start - 1 not in links:
        raise JournalMismatch(
            f"run {run.run_id!r}: the journal has {run.head.length} messages, the workflow goes on after {start}; "
            "rebuild it from the workflow's history"
        )
    before = first = Head(length=start, digest=links[start - 1])
    rows: list[Mapping[str, Any]] = []
    parting = None
    texts = _texts(connection, run.run_id, entries)
    for text, columns in texts:
        size = jsontext.size(text)
        after = extend(before, Weight(bytes=size, sha256=jsontext.sha256(text)))
        if parting is None and links.get(before.length, after.digest) != after.digest:
            parting = before
        where = {"run_id": run.run_id, "number": before.length, "bytes": size, "digest": after.digest}
        rows.append(_NO_BODY | columns | where)
        before = after
    if before != head:
        raise JournalMismatch(
            f"run {run.run_id!r}: the journal's chain does not end at message {head.length - 1} as the workflow's "
            "does; audit the run to find the first row that differs"
        )
    return Confirmed(first, [text for text, _ in texts], rows, parting)


_NO_BODY: dict[str, Any] = {"body": None, "turn": None, "call_model": None, "call_position": None, "call_id": None}


def append(connection: Connection, run: Run, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write those of `rows` that do not stand yet."""
    missing = [row for row in rows if row["number"] >= run.head.length]
    if missing:
        _APPEND.each(connection, missing)


def rewrite(connection: Connection, run: Run, keep: Head, model_call: int, now: float) -> Run:
    """Remove the way not gone: messages after `keep`, model calls from `model_call` on and their reads.

    Returns the run as it stands then. The decision REWRITTEN records it.
    """
    of_run = {"run": run.run_id}
    connection.execute(
        delete(MESSAGES).where(MESSAGES.c.run_id == bindparam("run"), MESSAGES.c.number >= keep.length), of_run
    )
    connection.execute(
        delete(MODEL_CALLS).where(MODEL_CALLS.c.run_id == bindparam("run"), MODEL_CALLS.c.number >= model_call), of_run
    )
    connection.execute(
        delete(TOOL_CALLS).where(
            TOOL_CALLS.c.run_id == bindparam("run"), TOOL_CALLS.c.model_call >= model_call, TOOL_CALLS.c.kind == "read"
        ),
        of_run,
    )
    forget(connection, run.run_id, model_call)
    detail = {"message": keep.length, "removed": run.head.length - keep.length, "model_call": model_call}
    _record(connection, run.run_id, [{"ordinal": None, "at": now, "kind": REWRITTEN, "detail": canonical(detail)}])
    return Run(run.run_id, keep, run.result)


def decide(connection: Connection, run_id: str, decisions: Sequence[Decision]) -> None:
    """Append the workflow's decisions, but for those that stand already: the same number and time is the same
    decision, sent again. A reset makes other decisions under numbers that were used, at other times: both stand."""
    if not decisions:
        return
    standing = connection.execute(
        select(DECISIONS.c.ordinal, DECISIONS.c.at).where(
            DECISIONS.c.run_id == run_id, DECISIONS.c.ordinal >= min(d.number for d in decisions)
        )
    )
    known = {(row.ordinal, row.at) for row in standing}
    _record(
        connection,
        run_id,
        [
            # A signal's payload may hold what JSON has no word for, such as NaN; it becomes null.
            {"ordinal": d.number, "at": d.at, "kind": d.kind, "detail": to_json(d.detail, inf_nan_mode="null").decode()}
            for d in decisions
            if (d.number, d.at) not in known
        ],
    )


def _record(connection: Connection, run_id: str, decisions: Sequence[dict[str, Any]]) -> None:
    latest = select(func.coalesce(func.max(DECISIONS.c.number), 0)).where(DECISIONS.c.run_id == run_id)
    number = connection.execute(latest).scalar_one() + 1
    rows = [{"run_id": run_id, "number": n} | decision for n, decision in enumerate(decisions, number)]
    if rows:
        connection.execute(insert(DECISIONS), rows)


def _texts(connection: Connection, run_id: str, entries: Sequence[Entry]) -> list[tuple[str, dict[str, Any]]]:
    """Each entry's canonical text, and the columns of its row that say where its body stands."""
    turns, calls = _bodies(connection, run_id, entries)
    found: list[tuple[str, dict[str, Any]]] = []
    for entry in entries:
        if entry.turn is not None:
            text = turns.get(entry.turn)
            if text is None:
                raise JournalMismatch(f"run {run_id!r}: the reply of model call {entry.turn} is not in the journal")
            found.append((text, {"role": "assistant", "turn": entry.turn}))
        elif entry.call is not None:
            model_call, position = entry.call
            if entry.call not in calls:
                raise JournalMismatch(
                    f"run {run_id!r}: the observation of call {position} of model call {model_call} is not in the "
                    "journal"
                )
            call_id, text = calls[entry.call]
            where = {"call_model": model_call, "call_position": position, "call_id": call_id}
            found.append((text, {"role": "tool", **where}))
        elif entry.message is not None:
            text = text_of(entry.message)
            found.append((text, {"role": entry.message.role, "body": text}))
        else:
            raise JournalMismatch(f"run {run_id!r}: an entry names no turn, no call and no message")
    return found


def _bodies(
    connection: Connection, run_id: str, entries: Sequence[Entry]
) -> tuple[dict[int, str], dict[tuple[int, int], tuple[str, str]]]:
    """The text of each turn that entries name, by number, and call id and text of each observation, by place."""
    wanted = {e.call for e in entries if e.call is not None}
    numbers = {e.turn for e in entries if e.turn is not None} | {model_call for model_call, _ in wanted}
    if not numbers:
        return {}, {}
    turns: dict[int, str] = {}
    found: dict[tuple[int, int], dict[str, str]] = {place: {} for place in wanted}
    for row in _BODIES.rows(connection, {"run": run_id, "first": min(numbers), "last": max(numbers)}):
        if row.body is None:
            continue  # lost with a journal that was made anew from the history
        if row.position == _TURN:
            turns[row.model_call] = row.body
        elif (row.model_call, row.position) in wanted:
            found[row.model_call, row.position][row.call_id] = row.body
    for (model_call, position), texts in found.items():
        if len(texts) > 1 and model_call in turns:
            # An effect of before a reset may stand at the same place under another id: the turn says which is meant.
            asked = stored(AssistantMessage.model_validate_json(turns[model_call]).calls[position].id)
            found[model_call, position] = {asked: texts[asked]} if asked in texts else {}
    return turns, {place: next(iter(texts.items())) for place, texts in found.items() if texts}
