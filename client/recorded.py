"""What the journal holds of a run: its messages, what each model call was sent, and each tool call whole."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pydantic import JsonValue

from client.ending import JOURNAL_REMEDY, open_journal, shown
from client.errors import NoJournal, Refused
from client.inert import inert, short
from longshift.chain import Head
from longshift.context import Excerpt
from longshift.messages import AssistantMessage, Message, ToolCall, ToolMessage, arguments_digest
from longshift.tools import ToolSpec

if TYPE_CHECKING:
    from store.journal import Journal
    from store.tables import ModelCallRow, ToolCallRow

NAMED = 10
"""Calls that are named where one is asked for that does not exist: the latest."""


OF_ROW = ("kind", "state", "dispatch", "note", "attempt", "started_at", "settled_at", "milliseconds")
"""Fields of a call that stand in its row; None where it has none."""


@dataclass(frozen=True)
class RecordedCall:
    """One tool call, whole."""

    run_id: str
    call_id: str
    name: str
    model_call: int
    """Number of the model call that asked for it."""
    position: int
    """Its place in the batch, from 0."""
    arguments: dict[str, JsonValue] | None
    """None where the turn that asked for it was replaced after a reset, or they were no JSON object."""
    malformed: str | None
    """What the model sent instead of a JSON object."""
    arguments_sha256: str
    kind: str | None
    """A longshift.tools.Kind; None where it has no row."""
    state: str | None
    """Of its row in the ledger: started, settled, fenced (never run under this dispatch or a lower one) or unknown.
    None where it has no row: it was not dispatched, or is a read under way."""
    dispatch: int | None
    """The fence of an effect: how many dispatches of it were given up before the latest."""
    note: str | None
    """Why its outcome is, or was, unknown."""
    attempt: str | None
    """The worker and attempt that entered it."""
    started_at: float | None
    """Seconds since the epoch, as `settled_at`."""
    settled_at: float | None
    milliseconds: int | None
    """Wall time of the handler."""
    observation: str | None
    """JSON text of what it brought, uncut."""
    cut: bool
    """The model was given a cut observation."""


@dataclass(frozen=True)
class SentCall:
    """What one model call was sent."""

    run_id: str
    model_call: int
    purpose: Literal["turn", "summary", "wrap-up"]
    state: str
    """sent (no outcome is recorded yet), answered or failed."""
    output_tokens: int
    """Output tokens it was allowed."""
    tools: Sequence[ToolSpec]
    """The tools offered."""
    messages: Sequence[Message]


async def messages(journal_url: str, run_id: str, head: Head | None = None) -> list[Message]:
    """The messages of a run that its workflow confirmed.

    Args:
        head: where the run's chain ends; it proves every message. None: the messages as they stand.

    Raises NoJournal when the journal cannot be read or holds nothing of the run, and where its messages do not end at
    the head.
    """
    async with open_journal(journal_url) as journal:
        if await journal.run(run_id) is None:
            raise _holds_nothing(journal_url, run_id)
        if head is not None:
            return await journal.transcript(run_id, head)
        return [one.message for one in await journal.messages(run_id)]


async def sent(journal_url: str, run_id: str, number: int) -> SentCall:
    """What one model call of a run was sent, proved by the run's chain.

    Raises:
        Refused: the run made no such model call; the text says how many it made.
        NoJournal: as `messages`, and where a message is not what was sent.
    """
    async with open_journal(journal_url) as journal:
        if await journal.run(run_id) is None:
            raise _holds_nothing(journal_url, run_id)
        rows = {row.number: row for row in await journal.model_calls(run_id)}
        if number not in rows:
            made = f"its model calls are {min(rows)} to {max(rows)}" if rows else "it made none yet"
            raise Refused(f"there is no model call {number} in run {run_id}; {made}")
        row = rows[number]
        excerpt = None if row.excerpt is None else Excerpt.model_validate_json(row.excerpt)
        head = Head(length=row.context_length, digest=row.context_digest)
        without_tools: Literal["summary", "wrap-up"] = "summary" if excerpt and excerpt.until else "wrap-up"
        return SentCall(
            run_id=run_id,
            model_call=number,
            purpose="turn" if row.tools else without_tools,
            state=row.state,
            output_tokens=row.allowed,
            tools=(await journal.spec(run_id)).agent.tools if row.tools else (),
            messages=await journal.transcript(run_id, head, excerpt),
        )


async def tool_call(journal_url: str, run_id: str, call_id: str) -> RecordedCall:
    """One tool call of a run; of several with one id, the one that was entered last.

    Args:
        call_id: the call's id, or what is shown of it where it is not inert.

    Raises:
        Refused: the run made no such call; the text names some that it made.
        NoJournal: as `messages`.
    """
    async with open_journal(journal_url) as journal:
        if await journal.run(run_id) is None:
            raise _holds_nothing(journal_url, run_id)
        calls = await _tool_calls(journal, run_id)
    found = [one for one in calls if call_id in (one.call_id, inert(one.call_id))]
    if not found:
        raise Refused(f"there is no call {short(call_id, 60)!r} in run {run_id}; {_named(calls)}")
    return max(found, key=lambda one: one.started_at or 0)


async def _tool_calls(journal: "Journal", run_id: str) -> list[RecordedCall]:
    """All tool calls of a run, in the order of the requests."""
    replies = [one.message for one in await journal.messages(run_id)]
    return tool_calls(run_id, await journal.model_calls(run_id), await journal.tool_calls(run_id), replies)


def tool_calls(
    run_id: str, turns: Sequence["ModelCallRow"], rows: Sequence["ToolCallRow"], transcript: Sequence[Message]
) -> list[RecordedCall]:
    """The tool calls that turns ask for, in their order, each with its row; rows without a turn stand last."""
    from store.tables import stored

    left = {(row.model_call, row.position, row.call_id): row for row in rows}
    told = {one.call_id: one.content for one in transcript if isinstance(one, ToolMessage)}
    found = []
    for turn in turns:
        reply = AssistantMessage.model_validate_json(turn.body) if turn.body is not None else None
        for position, call in enumerate(reply.calls if reply else ()):
            row = left.pop((turn.number, position, stored(call.id)), None)
            found.append(_recorded(run_id, turn.number, position, call, row, told.get(call.id)))
    return found + [_without_turn(row) for row in left.values()]


def _recorded(
    run_id: str, model_call: int, position: int, call: ToolCall, row: "ToolCallRow | None", told: str | None
) -> RecordedCall:
    """A call and its row; `told` is what the transcript holds of a call that has none."""
    if row is not None and row.body is not None:
        told = row.whole or ToolMessage.model_validate_json(row.body).content
    return RecordedCall(
        run_id=run_id,
        call_id=call.id,
        name=call.name,
        model_call=model_call,
        position=position,
        arguments=None if call.malformed else call.arguments,
        malformed=call.malformed,
        arguments_sha256=arguments_digest(call),
        **{field: getattr(row, field, None) for field in OF_ROW},
        observation=told,
        cut=row is not None and row.whole is not None,
    )


def _without_turn(row: "ToolCallRow") -> RecordedCall:
    """A call whose turn was replaced after a reset: the rows of effects outlive it."""
    call = ToolCall(id=row.call_id, name=row.name, arguments_sha256=row.arguments_sha256)
    return replace(_recorded(row.run_id, row.model_call, row.position, call, row, None), arguments=None)


def _named(calls: Sequence[RecordedCall]) -> str:
    if not calls:
        return "it made no tool call yet"
    names = ", ".join(f"{short(one.call_id, 60)} ({short(one.name, 60)})" for one in calls[-NAMED:])
    return f"it has {names}" if len(calls) <= NAMED else f"its latest of {len(calls)} are {names}"


def _holds_nothing(journal_url: str, run_id: str) -> NoJournal:
    holds = f"the journal {shown(journal_url)} holds nothing of run {run_id}"
    return NoJournal(f"{holds}: it was never opened there, or its workers use another; {JOURNAL_REMEDY}")
