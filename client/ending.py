"""How a run ended: the same result, whatever Temporal calls it."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError
from temporalio.client import Client

from client.errors import NoJournal, Refused, Unreadable, rpc_border
from client.following import end_of
from client.happenings import Happening
from client.history import converter_of, happening
from client.inert import short
from longshift import contracts, turns
from longshift.contracts import CloseRun, RunResult
from longshift.messages import weigh
from longshift.status import Status
from longshift.turns import Usage
from store.errors import JournalError

if TYPE_CHECKING:
    from store.journal import Journal
    from store.tables import ModelCallRow

JOURNAL_REMEDY = "name the one that the workers use: journal.url in the configuration, or LONGSHIFT_JOURNAL__URL"
"""What to do where the journal is not the run's."""


async def ending(client: Client, run_id: str) -> RunResult:
    """Wait for a run's end, and read it from the server alone.

    A terminated run has no counters here, and an answer that was too large for the history is cut; `with_journal`
    gives both.

    Raises:
        NoSuchRun: the server does not know the run.
        Refused: the run's input was bad and no shift began.
        Unreadable: the run's end is none of ours.
    """
    event, temporal_run = await end_of(client, run_id)
    end = await happening(event, converter_of(client, run_id))
    match end.event:
        case "WORKFLOW_EXECUTION_COMPLETED":
            return _result(run_id, end.values)
        case "WORKFLOW_EXECUTION_FAILED" if end.failure is not None:
            if end.failure.type == contracts.INPUT_REFUSED:
                raise Refused(end.failure.message)
            if end.failure.details:
                return _result(run_id, end.failure.details)
            raise Unreadable(f"run {run_id} failed outside of its loop: {short(end.failure.message)}")
        case "WORKFLOW_EXECUTION_CANCELED":
            closed = await _closed(client, run_id, temporal_run)
            detail = "the workflow was cancelled before the run was opened"
            return closed or RunResult(run_id=run_id, status=Status.STOP_REQUESTED, detail=detail)
        case _:
            return RunResult(run_id=run_id, status=Status.TERMINATED, detail=_from_outside(end))


async def with_journal(result: RunResult, journal_url: str) -> RunResult:
    """The result with what only the journal has: the whole of a cut answer or partial text; the counters of a
    terminated run, and its effects that may have happened.

    Where the journal cannot be read, the result says so and stays as it is.
    """
    try:
        async with open_journal(journal_url) as journal:
            if result.status is Status.TERMINATED:
                return await _with_counters(result, journal)
            return await _with_whole_texts(result, journal) if is_cut(result) else result
    except NoJournal as error:
        return _noting(result, str(error))


def is_cut(result: RunResult) -> bool:
    """Whether a text of the result is whole only in the journal."""
    return result.answer_whole is not None or result.partial_whole is not None


@asynccontextmanager
async def open_journal(url: str, *, make: bool = False) -> AsyncIterator["Journal"]:
    """The journal, for as long as the body runs.

    Args:
        make: make a SQLite file that does not exist, as workers do.

    Raises NoJournal for whatever the journal refuses, and for a SQLite file that does not exist unless it is made.
    """
    if not make and _is_missing(url):
        raise NoJournal(f"there is no journal {shown(url)} yet; {JOURNAL_REMEDY}")
    from store.journal import Journal  # SQL costs half of a command's start, and few commands read the journal

    try:
        journal = await Journal.open(url)
        try:
            yield journal
        finally:
            await journal.close()
    except JournalError as error:
        raise NoJournal(str(error)) from None


def charged(call: "ModelCallRow") -> int:
    """Output tokens that a model call is charged with, as its limit counts them; for a failure what was reported, and
    no more than it was allowed."""
    if call.state == "answered":
        return turns.charged(Usage(output_tokens=call.output_tokens), call.allowed)
    return min(call.output_tokens or 0, call.allowed)


def shown(url: str) -> str:
    """The URL of a journal, without its password and whatever follows a question mark."""
    return re.sub(r"(://[^:/@]*):.*@", r"\1:***@", url).partition("?")[0]


def _is_missing(url: str) -> bool:
    """Whether it is a SQLite file that does not exist."""
    kind, _, file = url.partition(":///")
    try:
        if kind.startswith("sqlite"):
            Path(file.partition("?")[0]).stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass  # the journal itself says best why it cannot be read
    return False


def _result(run_id: str, values: tuple[object, ...]) -> RunResult:
    try:
        return RunResult.model_validate(values[0] if values else None)
    except ValidationError:
        raise Unreadable(f"run {run_id} ended with something that is not a result of this version") from None


async def _closed(client: Client, run_id: str, temporal_run: str) -> RunResult | None:
    """The result that a cancelled run recorded; Temporal keeps none for it."""
    converter = converter_of(client, run_id)
    with rpc_border(run_id):
        async for event in client.get_workflow_handle(run_id, run_id=temporal_run).fetch_history_events():
            scheduled = event.activity_task_scheduled_event_attributes
            if scheduled.activity_type.name == contracts.CLOSE_RUN:
                request = (await happening(event, converter)).values
                return CloseRun.model_validate(request[0]).result if request else None
    return None


def _from_outside(end: Happening) -> str:
    if end.event == "WORKFLOW_EXECUTION_TERMINATED":
        why = f": {short(end.reason)}" if end.reason else ", who gave no reason"
        return f"terminated from outside by {short(end.who) or 'someone unknown'}{why}"
    return "the server's own time limit for the workflow passed; start runs without one"


async def _with_counters(result: RunResult, journal: "Journal") -> RunResult:
    run = await journal.run(result.run_id)
    if run is None:
        return _noting(result, "the journal does not hold this run, so its figures are not known")
    calls = await journal.model_calls(result.run_id)
    tools = await journal.tool_calls(result.run_id)
    maybe = tuple(call.call_id for call in tools if call.state in ("started", "unknown"))
    figures = {
        "unrun_calls": maybe,
        "unknown_calls": maybe,
        "model_calls": len(calls),
        "tool_calls": len(tools),
        "output_tokens": sum(map(charged, calls)),
        "exposure": sum(call.estimate if call.cost is None else call.cost for call in calls),
        "messages": run.length,
        "digest": run.digest,
    }
    counted = result.model_copy(update=figures)
    return _noting(counted, "the figures are those that the journal holds; a step under way is not in them")


async def _with_whole_texts(result: RunResult, journal: "Journal") -> RunResult:
    turns = [stored.message for stored in await journal.messages(result.run_id) if stored.role == "assistant"]
    texts = {weigh(message).sha256: message.content for message in turns}
    for field, weight in (("answer", result.answer_whole), ("partial", result.partial_whole)):
        if weight is None:
            continue
        if weight.sha256 in texts:
            result = result.model_copy(update={field: texts[weight.sha256], f"{field}_whole": None})
        else:
            result = _noting(result, f"the journal does not hold the whole {field}")
    return result


def _noting(result: RunResult, note: str) -> RunResult:
    return result.model_copy(update={"notes": (*result.notes, note)})
