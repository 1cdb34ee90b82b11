"""The typed client: start runs, see how they stand, tell them things, and wait for their ends."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar
from uuid import uuid4

from pydantic import JsonValue
from temporalio.client import Client, RPCTimeoutOrCancelledError, WorkflowExecution, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

from client import following
from client.ending import JOURNAL_REMEDY, ending, is_cut, open_journal, shown, with_journal
from client.errors import AlreadyStarted, NoJournal, NoSuchRun, Refused, rpc_border
from client.inert import inert, short
from client.snapshots import Listed, Snapshot, describe, ended, listed, snapshot
from client.story import StoryLine
from longshift import contracts, inbox
from longshift.agent import AGENT_NAME
from longshift.contracts import InputRefused, RunInput, RunResult, read_input
from longshift.inbox import MessageRefused
from longshift.limits import Limits, LimitsRefused
from longshift.messages import Message
from longshift.state import RunState
from longshift.status import Status

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
"""A run's id stands in commands, addresses and file names, and is never a path."""
UPDATE_SECONDS = 3.0
"""Seconds a worker has to answer a change; then it is sent as a signal, and the person told that none is up."""
SUMMARY_CHARACTERS = 120
"""Characters of the task in the UI's list and in the memo; the server takes 400 bytes of a summary."""
DETAILS_CHARACTERS = 4000
"""Characters of the task in the UI's page of the run; the server takes 20,000 bytes."""

Answer = TypeVar("Answer")

__all__ = ["Applied", "Listed", "Shifts", "Snapshot", "Told"]


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
        await self._signal(run_id, contracts.STOP, {"mode": mode, "reason": reason})

    async def pause(self, run_id: str) -> None:
        """Let a run begin no further step; its deadline still runs. Raises Refused when the run has ended."""
        await self._signal(run_id, contracts.PAUSE)

    async def resume(self, run_id: str) -> None:
        """Let a paused run go on. Raises Refused when the run has ended."""
        await self._signal(run_id, contracts.RESUME)

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
        limits, waits = await self._change(run_id, contracts.SET_LIMITS, message, request_id, Limits)
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
        waiting, waits = await self._change(run_id, contracts.TELL, message, request_id, int)
        return Told(waiting, waits_for_worker=waits)

    async def transcript(self, run_id: str) -> list[Message]:
        """The messages that the journal holds of a run: those its workflow confirmed.

        Raises NoJournal when the journal cannot be read or holds nothing of the run.
        """
        try:
            async with open_journal(self._journal_url) as journal:
                stored = await journal.messages(run_id)
            if not stored:
                holds = f"the journal {shown(self._journal_url)} holds nothing of run {run_id}"
                raise NoJournal(f"{holds}: it was never opened there, or its workers use another; {JOURNAL_REMEDY}")
        except NoJournal:
            await describe(self._client, run_id)  # an unknown run is said to be unknown
            raise
        return [one.message for one in stored]

    def follow(self, run_id: str) -> AsyncIterator[StoryLine]:
        """The story of a run: what has happened, then what happens, until it has ended."""
        return following.follow(self._client, run_id)

    async def list(self, limit: int = 50) -> list[Listed]:
        """The latest runs, those that began last first. No worker is asked."""
        query = f"WorkflowType = '{contracts.WORKFLOW}' AND ExecutionStatus != 'ContinuedAsNew'"
        found: dict[str, WorkflowExecution] = {}
        with rpc_border():
            async for execution in self._client.list_workflows(query):
                found.setdefault(execution.id, execution)  # a reset leaves the ended run beside the new one
                if len(found) == limit:
                    break
        seen = await asyncio.gather(*(listed(self._client, execution) for execution in found.values()))
        return sorted((one for one in seen if one is not None), key=lambda one: one.started_at, reverse=True)

    async def _refuse_ended(self, run_id: str) -> None:
        """Raise Refused when the run has ended, NoSuchRun when there is none."""
        description = await describe(self._client, run_id)
        if description.close_time is not None:
            end = await ended(self._client, description)
            raise Refused(f"run {run_id} has ended with {end.status}; nothing was sent. See: longshift result {run_id}")

    async def _signal(self, run_id: str, name: str, *values: Any) -> None:
        await self._refuse_ended(run_id)
        try:
            with rpc_border(run_id):
                await self._client.get_workflow_handle(run_id).signal(name, args=values)
        except NoSuchRun:
            await self._refuse_ended(run_id)  # it ended meanwhile
            raise

    async def _change(
        self, run_id: str, name: str, message: Mapping[str, JsonValue], request_id: str, answer: type[Answer]
    ) -> tuple[Answer | None, bool]:
        """Send an update, or the signal of the same name where no worker answers in time.

        An update that no worker took is lost when the server restarts; a signal is not. Whichever comes first counts,
        since both carry the request id.

        Returns: the worker's answer, and whether the change waits for a worker instead.
        """
        await self._refuse_ended(run_id)
        handle = self._client.get_workflow_handle(run_id)
        deadline = asyncio.timeout(UPDATE_SECONDS)
        try:
            with rpc_border(run_id):
                async with deadline:
                    done: Answer | None = await handle.execute_update(name, message, id=request_id, result_type=answer)
                    return done, False
        except WorkflowUpdateFailedError as error:
            await self._refuse_ended(run_id)
            cause = error.cause
            raise Refused(cause.message if isinstance(cause, ApplicationError) else str(cause)) from None
        except (RPCTimeoutOrCancelledError, TimeoutError):
            if not deadline.expired():
                raise asyncio.CancelledError from None  # Temporal's client wraps our caller's cancellation
        except NoSuchRun:
            await self._refuse_ended(run_id)  # it ended meanwhile
            raise
        await self._signal(run_id, name, message)
        return None, True


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
    return f"{agent}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _last_text(messages: tuple[Message, ...]) -> str:
    return messages[-1].content if messages else ""


def _details(given: RunInput, task: str) -> str:
    """What the UI's page of the run opens with, as Markdown."""
    changed = ", ".join(f"{name} = {value}" for name, value in given.limits.items())
    lines = [f"Agent `{given.agent}`" + (f", endpoint `{short(given.endpoint)}`" if given.endpoint else "") + "."]
    if changed:
        lines.append(f"Limits that differ: {short(changed, 400)}.")
    lines.append(inert(task[:DETAILS_CHARACTERS], multiline=True))
    return "\n\n".join(lines)
