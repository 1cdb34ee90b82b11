"""The typed client: start runs, see how they stand, tell them things, and wait for their ends."""

import asyncio
import builtins
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Literal, TypeVar
from uuid import uuid4

from pydantic import JsonValue
from temporalio.client import Client, WorkflowExecution
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from client import answers, following, recorded, sending
from client.answers import Answered
from client.ending import ending, is_cut, with_journal
from client.errors import AlreadyStarted, NoJournal, Refused, rpc_border
from client.inert import inert, short
from client.recorded import RecordedCall, SentCall
from client.snapshots import Listed, Snapshot, describe, listed, snapshot
from client.story import StoryLine
from longshift import contracts, inbox, jsontext
from longshift.agent import AGENT_NAME
from longshift.chain import Head
from longshift.contracts import RunResult
from longshift.inbox import MessageRefused
from longshift.limits import Limits, LimitsRefused
from longshift.messages import Message
from longshift.questions import Question
from longshift.run_input import InputRefused, RunInput, read_input
from longshift.state import RunState
from longshift.status import Status

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
"""A run's id stands in commands, addresses and file names, and is never a path."""
SUMMARY_CHARACTERS = 120
"""Characters of the task in the UI's list and in the memo; the server takes 400 bytes of a summary."""
AT_ONCE = 50
"""Runs of a list that are looked at at once."""
DETAILS_CHARACTERS = 4000
"""Characters of the task in the UI's page of the run; the server takes 20,000 bytes."""

Recorded = TypeVar("Recorded")

__all__ = ["Answered", "Applied", "Listed", "RecordedCall", "SentCall", "Shifts", "Snapshot", "Told"]


@dataclass(frozen=True)
class Applied:
    """What came of a change of limits."""

    limits: Limits | None
    """The limits in force now; None while the change waits for a worker, or the run is not opened and nobody knows its
    agent's other limits yet."""
    waits_for_worker: bool
    """No worker answered: the change stands in the run's history as a signal, and applies when a worker comes."""


@dataclass(frozen=True)
class Told:
    """A user's message was taken."""

    waiting: int | None
    """Messages that wait for the next model call, this one among them; None while this one waits for a worker."""
    waits_for_worker: bool
    """No worker answered: the message stands in the run's history as a signal, and is taken when a worker comes."""


class Shifts:
    """The runs on one server.

    Every method raises worker.connection.NoServer where the server does not answer; those that take a run's id raise
    NoSuchRun for an unknown one.
    """

    def __init__(self, client: Client, task_queue: str, journal_url: str) -> None:
        """Use a connected client.

        Args:
            client: has Longshift's plugin, so that payloads are read as workers write them.
            task_queue: where workers wait for new runs.
            journal_url: the workers' journal; opened when something of it is asked for.
        """
        self._client = client
        self._task_queue = task_queue
        self._journal_url = journal_url

    async def start(self, given: RunInput, *, run_id: str | None = None) -> str:
        """Start a run, whether or not a worker is up.

        Args:
            run_id: its id; made of the agent's name and the time in UTC when None.

        Returns: the run's id.

        Raises:
            Refused: the input or the id is bad, naming each field; nothing was started.
            AlreadyStarted: the id is taken by a run at work or an ended one.
        """
        document = _checked(given)
        run_id = _new_id(given.agent) if run_id is None else run_id
        if not RUN_ID.fullmatch(run_id):
            rule = "use 1 to 200 letters, digits, dots, _ or -, and begin with a letter or digit"
            raise Refused(f"run_id: {short(run_id, 60)} cannot be a run's id; {rule}")
        task = given.task if given.task is not None else _last_text(given.messages)
        with rpc_border():
            try:
                await self._client.start_workflow(
                    contracts.WORKFLOW,
                    document,
                    id=run_id,
                    task_queue=self._task_queue,
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    memo={"goal": short(task, SUMMARY_CHARACTERS), "agent": given.agent},
                    static_summary=short(task, SUMMARY_CHARACTERS),
                    static_details=_details(given, task),
                )
            except WorkflowAlreadyStartedError:
                raise AlreadyStarted(run_id) from None
        return run_id

    async def result(self, run_id: str) -> RunResult:
        """Wait for the end of a run, across continue-as-new; the same object for every status.

        Raises:
            Refused: the run's input was bad, and no shift began.
            Unreadable: it ended in no way of ours.
        """
        await describe(self._client, run_id)
        result = await ending(self._client, run_id)
        if result.status is Status.TERMINATED or is_cut(result):
            return await with_journal(result, self._journal_url)
        return result

    async def state(self, run_id: str) -> Snapshot:
        """How a run stands; within seconds, with or without a worker."""
        return await snapshot(self._client, run_id)

    async def stop(self, run_id: str, *, mode: Literal["graceful", "now"] = "graceful", reason: str = "") -> None:
        """Ask a run to stop: at its next admission point, or `now`, which also cancels a model call or read in flight.

        Holds whether or not a worker is up.

        Raises Refused when the run has ended.
        """
        await sending.signal(self._client, run_id, contracts.STOP, {"mode": mode, "reason": inbox.safe(reason)})

    async def pause(self, run_id: str) -> None:
        """Let a run begin no further step; its deadline still runs. Raises Refused when the run has ended."""
        await sending.signal(self._client, run_id, contracts.PAUSE)

    async def resume(self, run_id: str) -> None:
        """Let a paused run go on. Raises Refused when the run has ended."""
        await sending.signal(self._client, run_id, contracts.RESUME)

    async def set_limits(
        self, run_id: str, changes: Mapping[str, JsonValue], *, request_id: str | None = None
    ) -> Applied:
        """Change limits of a run from now on.

        Args:
            changes: limits and their new, absolute values.
            request_id: the same id twice counts once; made when None.

        Raises Refused for a bad change, naming each field, and when the run has ended.
        """
        request_id = request_id or uuid4().hex
        message = {**changes, "request_id": request_id}
        try:
            Limits().changed(dict(changes))  # refuses a request_id among them
            inbox.read_limits((message,))
        except (LimitsRefused, MessageRefused) as refused:
            raise Refused(str(refused)) from None
        limits, waits = await sending.change(self._client, run_id, contracts.SET_LIMITS, message, request_id, Limits)
        return Applied(limits, waits_for_worker=waits)

    async def tell(self, run_id: str, text: str, *, request_id: str | None = None) -> Told:
        """Send a user's message, for the next model call.

        Args:
            request_id: the same id twice counts once; made when None.

        Raises Refused when the text is blank or too long, or the run has ended.
        """
        request_id = request_id or uuid4().hex
        message: dict[str, JsonValue] = {"text": text, "request_id": request_id}
        try:
            inbox.read_tell(RunState(run_id=run_id, started_at=0), (message,))
        except MessageRefused as refused:
            raise Refused(str(refused)) from None
        waiting, waits = await sending.change(self._client, run_id, contracts.TELL, message, request_id, int)
        return Told(waiting, waits_for_worker=waits)

    async def approvals(self) -> builtins.list[Listed]:
        """The runs that ask a person something, those that ask longest first; each has its `question`. No worker is
        asked."""
        asking = [(one.question.asked_at, one) for one in await self._listed("CloseTime IS NULL") if one.question]
        return [one for _, one in sorted(asking, key=itemgetter(0))]

    async def question(self, run_id: str, call_id: str) -> Question:
        """What a run asks about one of its calls.

        Raises Refused when it asks nothing about that call now, and says why: it was answered already, or another
        call waits.
        """
        return await answers.open_question(self._client, run_id, call_id)

    async def arguments(self, run_id: str, question: Question) -> str:
        """The whole arguments that a question is about, as canonical JSON; from the journal where it has them cut.

        Raises:
            Refused: the journal holds others, or none.
            NoJournal: as `transcript`.
        """
        if answers.is_whole(question):
            return question.arguments
        call = await self.tool_call(run_id, question.call_id)
        whole = None if call.arguments is None else jsontext.canonical(call.arguments)
        if whole is None or jsontext.sha256(whole) != question.arguments_sha256:
            raise Refused("the journal holds others")
        return whole

    async def approve(self, run_id: str, question: Question, *, reason: str = "") -> Answered:
        """Let the effect that waits be made, with the very arguments that the question is about.

        Raises Refused where that question is not open any more, saying why, and when the run has ended.
        """
        return await answers.answer(self._client, run_id, question, contracts.APPROVE, {"reason": inbox.safe(reason)})

    async def deny(self, run_id: str, question: Question, *, reason: str) -> Answered:
        """Do not let the effect that waits be made; the model reads the reason. Raises as `approve`, and Refused for a
        blank reason."""
        return await answers.answer(self._client, run_id, question, contracts.DENY, {"reason": inbox.safe(reason)})

    async def resolve(
        self,
        run_id: str,
        question: Question,
        outcome: Literal["happened", "did_not_happen", "stop"],
        *,
        result: JsonValue = None,
        reason: str = "",
    ) -> Answered:
        """Say what came of an effect whose outcome is unknown.

        Args:
            outcome: `did_not_happen` lets the model ask for it again, `stop` ends the run.
            result: what the call returned, where it happened.

        Raises as `approve`, and Refused for a result that is too large.
        """
        fields: dict[str, JsonValue] = {"outcome": outcome, "reason": inbox.safe(reason)}
        if outcome == "happened":
            fields["result"] = result
        return await answers.answer(self._client, run_id, question, contracts.RESOLVE, fields)

    async def transcript(self, run_id: str, head: Head | None = None) -> list[Message]:
        """The messages that the journal holds of a run: those its workflow confirmed.

        Args:
            head: where the run's chain ends; it proves every message. None: the messages as they stand.

        Raises NoJournal when the journal cannot be read or holds nothing of the run, and where its messages do not end
        at the head.
        """
        return await self._recorded(run_id, recorded.messages(self._journal_url, run_id, head))

    async def sent(self, run_id: str, model_call: int) -> SentCall:
        """What one model call of a run was sent, exactly.

        Raises:
            Refused: the run made no such model call.
            NoJournal: as `transcript`.
        """
        return await self._recorded(run_id, recorded.sent(self._journal_url, run_id, model_call))

    async def tool_call(self, run_id: str, call_id: str) -> RecordedCall:
        """One tool call of a run as the journal holds it, its observation uncut.

        Raises:
            Refused: the run made no such call; the text names some that it made.
            NoJournal: as `transcript`.
        """
        return await self._recorded(run_id, recorded.tool_call(self._journal_url, run_id, call_id))

    def follow(self, run_id: str) -> AsyncIterator[StoryLine]:
        """The story of a run: what has happened, then what happens, until it has ended."""
        return following.follow(self._client, run_id)

    async def list(self, limit: int = 50, *, open_only: bool = False) -> list[Listed]:
        """The latest runs, those that began last first. No worker is asked.

        Args:
            open_only: only those that have not ended; one that ended this very moment can be among them.
        """
        seen = await self._listed("CloseTime IS NULL" if open_only else "ExecutionStatus != 'ContinuedAsNew'", limit)
        return sorted(seen, key=lambda one: one.started_at, reverse=True)

    async def _listed(self, which: str, limit: int | None = None) -> builtins.list[Listed]:
        """Runs of a query's condition, the latest first until the limit is reached."""
        found: dict[str, WorkflowExecution] = {}
        with rpc_border():
            async for execution in self._client.list_workflows(f"WorkflowType = '{contracts.WORKFLOW}' AND {which}"):
                found.setdefault(execution.id, execution)  # a reset leaves the ended run beside the new one
                if len(found) == limit:
                    break
        room = asyncio.Semaphore(AT_ONCE)

        async def look(execution: WorkflowExecution) -> Listed | None:
            async with room:
                return await listed(self._client, execution)

        seen = await asyncio.gather(*map(look, found.values()))
        return [one for one in seen if one is not None]

    async def _recorded(self, run_id: str, reading: Awaitable[Recorded]) -> Recorded:
        try:
            return await reading
        except NoJournal:
            await describe(self._client, run_id)  # an unknown run is said to be unknown
            raise


def _checked(given: RunInput) -> dict[str, JsonValue]:
    """The input as JSON, held against the rules a workflow holds it against. Raises Refused."""
    if not AGENT_NAME.fullmatch(given.agent):
        raise Refused(f"agent: {short(given.agent, 60)} cannot be an agent's name; see the workers' configuration")
    try:
        document: dict[str, JsonValue] = given.model_dump(mode="json")
        read_input((document,))
    except InputRefused as refused:
        raise Refused(str(refused)) from None
    except ValueError:
        raise Refused("input: holds text that is not Unicode, or a number that is not finite") from None
    return document


def _new_id(agent: str) -> str:
    return f"{agent}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


def _last_text(messages: tuple[Message, ...]) -> str:
    return messages[-1].content if messages else ""


def _details(given: RunInput, task: str) -> str:
    """What the UI's page of the run opens with, as Markdown."""
    changed = ", ".join(f"{name} = {value}" for name, value in given.limits.items())
    lines = [f"Agent `{given.agent}`" + (f", endpoint `{short(given.endpoint)}`" if given.endpoint else "") + "."]
    if changed:
        lines.append(f"Limits that differ: {short(changed, 400)}.")
    if task != short(task, SUMMARY_CHARACTERS):  # which stands above it
        lines.append(inert(task[:DETAILS_CHARACTERS], multiline=True))
    return "\n\n".join(lines)
