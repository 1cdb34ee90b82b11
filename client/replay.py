"""Playing cases: each is a run of the real workflow, on a server and a worker that begin and end with the playing."""

import asyncio
import logging
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from pydantic_core import to_json
from temporalio.client import (
    Client,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.service import RPCError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Worker

from activities.run_activities import Activities
from client.cases import Case, Sending, mismatches, read_cases
from client.errors import ClientError
from client.inert import inert
from client.local import connect_to
from client.shifts import Shifts
from endpoints.base import Endpoint
from endpoints.config import EndpointConfig, ReplayConfig
from endpoints.replay import ReplayEndpoint
from longshift import contracts
from longshift.agent import Agent
from longshift.contracts import CallModel, OpenRun, RunResult
from longshift.messages import Message
from store.errors import JournalError
from store.journal import Journal
from worker.agents import load_agents
from worker.connection import NoServer
from worker.dev_server import DevServer
from worker.settings import Settings
from workflows.agent_run import AgentRun

AT_ONCE = 4
"""Cases at play at once: enough to keep two cores busy. With more, nothing is done sooner, and each case is slower:
with 16 on a busy machine a second's deadline passed before the first call."""
HASTY_SECONDS = 5.0
"""A deadline below it may pass while other cases keep the machine busy."""
QUEUE = "cases"
"""Task queue of the playing."""
SEND_SECONDS = timedelta(seconds=10)
"""For a message to a run to be answered; it takes milliseconds."""
PATIENCE_SECONDS = 30.0
"""Seconds that a run may take beyond its own deadline before the playing gives it up."""
HEARTBEAT_SECONDS = 10.0
"""Seconds without a sign of life after which a step counts as lost. The worker ends with the playing, so none is."""
SAME, DIFFERENT = 0, 1
"""Exit codes: all came out as expected, or some did not."""


@dataclass(frozen=True)
class Outcome:
    """What came of playing a case."""

    case: Case
    result: RunResult | None
    """None where the run brought none; the mismatches say why."""
    transcript: tuple[Message, ...]
    """Its messages, whole and proved by the chain."""
    mismatches: tuple[str, ...]
    """What came out otherwise than expected, a sentence each."""

    def document(self) -> dict[str, Any]:
        """The outcome as `--json` prints it: the case's name, the mismatches, and the result's keys."""
        result = self.result.document() if self.result else {}
        return {"name": self.case.name, "mismatches": list(self.mismatches), **result}


def play_command(paths: Sequence[Path], *, json: bool, settings: Settings) -> int:
    """Play the cases in files and folders and report each mismatch on stdout, as soon as those before it are done.

    Args:
        paths: case files, and folders of them.
        json: one JSON document a line for each case, and nothing else.
        settings: says which agents there are; server, worker and journal are the playing's own.

    Returns:
        The exit code: 0 all came out as expected, 1 some did not.

    Raises:
        CasesRefused: a case cannot be used, or there is none; nothing was played.
        SettingsRefused: an agent cannot be loaded.
        ServerFailed: the server does not start.
    """
    logging.getLogger("temporalio.activity").setLevel(logging.ERROR)  # a case may well be about a step that fails
    outcomes: list[Outcome] = []
    stdout = sys.stdout

    def told(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if json:
            click.echo(to_json(outcome.document()), file=stdout)
            return
        click.echo(f"{'differs' if outcome.mismatches else 'ok':7}  {inert(outcome.case.name)}", file=stdout)
        for sentence in outcome.mismatches:
            click.echo(f"         {inert(sentence)}", file=stdout)

    with redirect_stdout(sys.stderr):  # a user's tool may print, and its module while it is imported
        agents = load_agents(settings)
        asyncio.run(play(read_cases(paths, agents), agents, told))
    different = sum(bool(outcome.mismatches) for outcome in outcomes)
    if not json:
        click.echo(f"{len(outcomes)} played, {different or 'none'} with mismatches")
    return DIFFERENT if different else SAME


async def play(cases: Sequence[Case], agents: Mapping[str, Agent], told: Callable[[Outcome], None]) -> None:
    """Play `cases`, several at a time, and hand each outcome to `told`, in the order of the cases.

    Raises ServerFailed where the server does not start.
    """
    plays = {f"case-{number}": Play(f"case-{number}", case) for number, case in enumerate(cases, start=1)}
    places = asyncio.Semaphore(AT_ONCE)
    async with open_stage(plays, agents) as stage:

        async def one(play: Play) -> Outcome:
            async with places:
                return await play.run(stage)

        alone = {run_id: await play.run(stage) for run_id, play in plays.items() if _hasty(play.case)}
        try:
            async with asyncio.TaskGroup() as group:
                others = {run_id: group.create_task(one(play)) for run_id, play in plays.items() if run_id not in alone}
                for run_id in plays:
                    told(alone[run_id] if run_id in alone else await others[run_id])
        except ExceptionGroup as failed:  # such as a reader of our output that has gone
            raise failed.exceptions[0] from None


def _hasty(case: Case) -> bool:
    """Whether a case's deadline is so near that it is played alone: the others' load must not decide it."""
    seconds = case.given.limits.get("seconds", HASTY_SECONDS)
    return isinstance(seconds, int | float) and seconds < HASTY_SECONDS


@dataclass(frozen=True)
class Stage:
    """What all plays share."""

    client: Client
    shifts: Shifts
    journal: Journal
    agents: Mapping[str, Agent]


class Play:
    """One case at play."""

    def __init__(self, run_id: str, case: Case) -> None:
        self.run_id = run_id
        self.case = case
        self.config = ReplayConfig(turns=case.turns)
        self._unsent = list(case.send)
        self._problems: list[str] = []
        self._handle: WorkflowHandle[Any, Any] | None = None
        self._may_open = asyncio.Event()

    def endpoint(self) -> Endpoint:
        """The model of its run."""
        return ReplayEndpoint(self.case.name, self.config)

    async def run(self, stage: Stage) -> Outcome:
        """Start the run, send what is to be sent, wait for its end, and compare."""
        result, transcript = None, tuple[Message, ...]()
        try:
            async with asyncio.timeout(self._patience(stage.agents)):
                await self._start(stage.client)
                result = await stage.shifts.result(self.run_id)
                if result.messages:
                    transcript = tuple(await stage.journal.transcript(self.run_id, result.head))
        except TimeoutError:
            self._problems.append("the run did not end though its deadline has passed: workflow or worker is stuck")
        except (ClientError, JournalError, NoServer, RPCError) as error:
            self._problems.append(f"the run could not be played to its end: {error}")
        self._problems += [f"{message}: was not sent, the run did not come so far" for message in self._unsent]
        if result is not None:
            self._problems += mismatches(self.case, result, transcript)
        return Outcome(self.case, result, transcript, tuple(self._problems))

    async def opening(self) -> None:
        """Wait until the run may take its first step: everything that belongs to the start has arrived."""
        await self._may_open.wait()

    async def calling(self, number: int | None) -> None:
        """Send what is due while model call `number` is out; None: what is due at the start."""
        for message in [one for one in self._unsent if one.during_model_call == number]:
            self._unsent.remove(message)
            problem = await self._send(message)
            if problem:
                self._problems.append(f"{message}: {problem}")

    async def _start(self, client: Client) -> None:
        first = self._unsent[0] if self._unsent and self._unsent[0].at_start else None
        with_start = self._unsent.pop(0) if first and first.signal else None
        self._handle = await client.start_workflow(
            contracts.WORKFLOW,
            self.case.given.model_copy(update={"endpoint": self.run_id}),
            id=self.run_id,
            task_queue=QUEUE,
            start_signal=with_start.signal if with_start else None,
            start_signal_args=with_start.arguments if with_start else [],
        )
        await self.calling(None)
        self._may_open.set()

    async def _send(self, message: Sending) -> str | None:
        """Send a message; what is wrong with the answer."""
        assert self._handle is not None, "nothing is due before the start"
        try:
            if message.signal:
                await self._handle.signal(message.signal, args=message.arguments, rpc_timeout=SEND_SECONDS)
                return None
            assert message.update is not None, "a message is one of both"
            await self._handle.execute_update(message.update, args=message.arguments, rpc_timeout=SEND_SECONDS)
        except WorkflowUpdateFailedError as error:
            return None if message.refused else f"was refused: {error.cause}"
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            return "was not answered"
        except RPCError as error:  # also where the run has ended
            return None if message.refused else f"was not taken: {error.message}"
        return "was taken, and should have been refused" if message.refused else None

    def _patience(self, agents: Mapping[str, Agent]) -> float:
        """Seconds after which a run is given up: its deadline, as far as messages move it, and more."""
        deadlines = [agents[self.case.given.agent].limits.changed(self.case.given.limits).seconds]
        sent = (message.arguments[0] for message in self.case.send if message.arguments)
        moved = (changes.get("seconds") for changes in sent if isinstance(changes, dict))
        deadlines += [seconds for seconds in moved if isinstance(seconds, int | float)]
        return max(deadlines) + PATIENCE_SECONDS


@asynccontextmanager
async def open_stage(plays: Mapping[str, Play], agents: Mapping[str, Agent]) -> AsyncIterator[Stage]:
    """A server, a journal and a worker, all in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="longshift-cases-") as folder:
        url = f"sqlite:///{folder}/journal.db"
        async with DevServer(Path(folder), ui=False) as server:
            client = await connect_to(server)
            journal = await Journal.open(url)
            configs: dict[str, EndpointConfig] = {run_id: play.config for run_id, play in plays.items()}
            endpoints = {run_id: play.endpoint() for run_id, play in plays.items()}
            activities = Activities(journal, agents, endpoints, configs, HEARTBEAT_SECONDS)
            worker = Worker(
                client,
                task_queue=QUEUE,
                workflows=[AgentRun],
                activities=activities.all(),
                interceptors=[_Cues(plays)],
                max_heartbeat_throttle_interval=timedelta(seconds=1),
            )
            try:
                async with worker:
                    yield Stage(client, Shifts(client, QUEUE, url), journal, agents)
            finally:
                await journal.close()


class _Cues(Interceptor):
    """Tells a play where its run is, from inside the worker, so that nothing has to guess at moments."""

    def __init__(self, plays: Mapping[str, Play]) -> None:
        self._plays = plays

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Stand in front of every activity."""
        return _Cued(next, self._plays)


class _Cued(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, plays: Mapping[str, Play]) -> None:
        super().__init__(next)
        self._plays = plays

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        match input.args[0]:
            case OpenRun(run_id=run_id):
                await self._plays[run_id].opening()
            case CallModel(run_id=run_id, number=number):
                return await self._while_out(self._plays[run_id], number, input)
        return await super().execute_activity(input)

    async def _while_out(self, play: Play, number: int, input: ExecuteActivityInput) -> Any:
        """Make the call and send what is due meanwhile; the answer goes back once that has arrived."""
        sending = asyncio.create_task(play.calling(number))
        try:
            return await super().execute_activity(input)
        finally:
            await sending
