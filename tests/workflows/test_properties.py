"""Random runs with effects through the real workflow, activities and ledger, held against a model of the rules.

Some thirty runs, always the same; `--hypothesis-profile long` tries more than a thousand new ones.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from typing import Any, get_args

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st
from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer

from activities import failures
from activities.run_activities import Activities
from endpoints.base import Reply, Request
from endpoints.config import ReplayConfig
from longshift import Agent, ToolContext, ToolFatal, ToolOutcomeUnknown, ToolRefused, contracts, tool, validate_episode
from longshift.agent import UnknownOutcome
from longshift.contracts import RanTool, RunResult, RunTool
from longshift.effects import MAX_AGAIN
from longshift.messages import AssistantMessage, ToolCall, ToolMessage
from longshift.observations import kind_of
from longshift.questions import Question
from longshift.run_input import RunInput
from longshift.tools import ToolTransient
from longshift.turns import Usage
from store.journal import Journal
from tests.audits import differences
from tests.workflows.effect_scripts import APPROVED, EDGES, IDEMPOTENT, LIMIT, Action, Script, Step, expected, scripts
from tests.workflows.raw_runs import Handle, ended, started
from tests.workflows.running import HEARTBEAT_SECONDS, working
from tests.workflows.suppliers import answer, lost
from worker.plugin import longshift_plugin
from workflows import effect_runs, waiting
from workflows.agent_run import AgentRun

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUEUE = "properties"
LONG = settings.get_current_profile_name() == "long"
DOES: dict[str, Exception] = {
    "refuse": ToolRefused("no"),
    "raise": ValueError("no"),
    "fatal": ToolFatal("no"),
    "transient": ToolTransient("not now"),
    "unknown": ToolOutcomeUnknown("no reply"),
    "dropped": ConnectionResetError("dropped"),
}


class Live:
    """A script on its way."""

    def __init__(self, script: Script, run_id: str) -> None:
        self.script, self.run_id = script, run_id
        self.steps = {step.id: step for turn in script.turns for step in turn}
        self.operations: defaultdict[str, list[str]] = defaultdict(list)
        """The operation ids under which each handler ran, by call id."""
        self.stopped = False
        self._paused = False
        self._fired: set[tuple[str, str]] = set()
        self._handle: Handle

    async def play(self, client: Client) -> None:
        """Start it, and be the person that it waits for, until it has ended."""
        limits = {"seconds": 600.0, "model_calls": 50, "repeats": 0, "tool_calls": self.script.tool_calls}
        given = RunInput(agent=self.script.unknown_outcome, task="Go.", limits=limits)
        self._handle = await started(client, QUEUE, given, run_id=self.run_id)
        async with asyncio.timeout(60):
            while (seen := await self._handle.describe()).status is WorkflowExecutionStatus.RUNNING:
                memo = await seen.memo()
                if memo.get("status") == "WAITING" and "question" in memo and not self.stopped:
                    await self._asked(Question.model_validate(memo["question"]))
                elif self._paused and memo.get("status") == "WAITING" and memo["detail"].startswith("paused"):
                    self._paused = False  # once for each pause: a second one could undo the next
                    await self._send(contracts.RESUME)
                await asyncio.sleep(0.03)  # what a server holds can only be asked for

    async def happens(self, *moment: str) -> Action | None:
        """Do what is to be done at a moment, the first time it comes."""
        when = (moment[0], moment[1])
        action = None if when in self._fired else self.script.events.get(when)
        self._fired.add(when)
        if action in ("stop", "stop now"):
            self.stopped = True
            await self._send(contracts.STOP, {"mode": "now" if action == "stop now" else "graceful"})
        elif action == "pause":
            self._paused = True
            await self._send(contracts.PAUSE)
        elif action:
            await self._send(contracts.SET_LIMITS, {"tool_calls": LIMIT[action]})
        return action

    async def handler(self, context: ToolContext) -> str:
        """What the handler of a call does."""
        step, runs = self.steps[context.call_id], self.operations[context.call_id]
        runs.append(context.operation_id)
        if await self.happens("tool", step.id) == "stop now" and not step.effect:
            await asyncio.Event().wait()  # until it is broken off
        does = step.done(len(runs) - 1)
        if does != "ok":
            raise DOES[does]
        return f"{step.id} done"

    async def _asked(self, question: Question) -> None:
        step = self.steps[question.call_id]
        await self.happens(question.kind, step.id)
        if self.stopped:
            return  # an answer would race with it
        name, fields = _answer(question, step)
        try:
            if self.script.by_signal:
                await self._send(name, answer(question, **fields))
            else:
                await self._handle.execute_update(name, answer(question, **fields))
        except (WorkflowUpdateFailedError, RPCError):
            return  # a limit ended the run meanwhile, or it was answered already

    async def _send(self, name: str, *args: Any) -> None:
        await self._handle.signal(name, args=args)


def _answer(question: Question, step: Step) -> tuple[str, dict[str, Any]]:
    if question.kind == "approval":
        return (contracts.APPROVE, {}) if step.approved else (contracts.DENY, {"reason": "no"})
    result = {"result": 1} if step.resolved == "happened" else {}
    return contracts.RESOLVE, {"outcome": step.resolved, **result}


LIVE: dict[str, Live] = {}
"""The runs under way, by their id."""


def agents() -> dict[str, Agent]:
    """An agent for each policy, under its name."""

    async def work(note: str, context: ToolContext) -> str:
        """Do what the script says."""
        return await LIVE[context.run_id].handler(context)

    tools = (
        tool(name="look", kind="read")(work),
        *(
            tool(name=name, idempotent=name in IDEMPOTENT, needs_approval=name in APPROVED)(work)
            for name in ("place", "post", "buy", "mend")
        ),
    )
    return {
        policy: Agent(name=policy, system="Go.", endpoint="scripted", tools=tools, unknown_outcome=policy)
        for policy in get_args(UnknownOutcome)
    }


class Model:
    """The endpoint of all these runs: it plays the turns of the run that asks."""

    async def send(self, request: Request) -> Reply:
        """Answer one model call."""
        live = LIVE[str(activity.info().workflow_id)]
        if await live.happens("model", str(request.reply)) == "stop now":
            await asyncio.Event().wait()  # until it is broken off
        turns = live.script.turns
        steps = turns[request.reply - 1] if request.reply <= len(turns) else ()
        calls = tuple(ToolCall(id=step.id, name=step.tool, arguments={"note": step.id}) for step in steps)
        message = AssistantMessage(content="" if calls else "Done.", calls=calls)
        return Reply(message=message, stop_reason="stop", usage=Usage(output_tokens=7))

    async def close(self) -> None:
        """Nothing to close."""


@dataclass
class Place:
    """Where runs are played: a server, a worker on QUEUE, a journal."""

    client: Client
    journal: Journal


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(server: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """The place, for all examples. (The time-skipping server hangs where a stop meets the end of an effect.)"""
    journal = await Journal.open(f"sqlite:///{tmp_path_factory.mktemp('properties')}/journal.db")
    config = ReplayConfig(turns=(), timeout_seconds=30)
    activities = Activities(journal, agents(), {"scripted": Model()}, {"scripted": config}, HEARTBEAT_SECONDS).all()
    real = next(one for one in activities if one.__name__ == contracts.RUN_TOOL)

    @activity.defn(name=contracts.RUN_TOOL)
    async def run_tool(request: RunTool) -> RanTool:
        live = LIVE[request.run_id]
        point = live.steps[request.call.id].point(request.dispatch)
        if point not in (None, "after"):
            await live.happens("lost", request.call.id)
        if point == "before":
            raise lost()
        if point == "no tool":
            raise failures.tool_missing("there is no such tool here")
        if point == "no journal":
            raise failures.journal_away("the journal is away")
        ran: RanTool = await real(request)
        if point == "after":
            raise lost()
        return ran

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(waiting, "JOURNAL_WAIT_SECONDS", 0.01)
        patched.setattr(effect_runs, "AGAIN_SECONDS", 0.01)
        target = server.client.service_client.config.target_host
        client = await Client.connect(target, plugins=[longshift_plugin()])  # the core as it is here, with its patch
        async with working(client, QUEUE, [*(one for one in activities if one is not real), run_tool]):
            yield Place(client, journal)
    await journal.close()


RUNS = count()
SIDE_BY_SIDE = 4
"""Runs of one example, played at the same time, since each is mostly waited for."""


@settings(
    max_examples=300 if LONG else 5,
    derandomize=not LONG,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(together=EDGES)
@given(together=st.lists(scripts(), min_size=SIDE_BY_SIDE, max_size=SIDE_BY_SIDE))
@pytest.mark.timeout(7200 if LONG else 300)
async def test_every_run_ends_as_the_rules_say_and_makes_no_effect_more_often_than_it_may(
    place: Place, together: list[Script]
) -> None:
    lives = [Live(script, f"property-{next(RUNS)}") for script in together]
    LIVE.update((live.run_id, live) for live in lives)
    await asyncio.gather(*(live.play(place.client) for live in lives))
    for live in lives:
        note(f"{live.run_id}: {live.script}")
        await check(place, live)
        del LIVE[live.run_id]


async def check(place: Place, live: Live) -> None:
    """Hold a run that has ended against the model."""
    must, handle = expected(live.script), place.client.get_workflow_handle(live.run_id, result_type=RunResult)
    end = await ended(handle)
    note(f"{end.status}: {end.detail}")
    assert (end.status, end.model_calls, end.tool_calls) == (must.status, must.model_calls, must.tool_calls)
    assert (end.unrun_calls, end.unknown_calls) == (must.unrun, must.unknown)

    messages = [stored.message for stored in await place.journal.messages(live.run_id)]
    assert await place.journal.verify_chain(live.run_id) is None
    report = validate_episode(messages)
    assert (report.problem, report.unanswered, len(messages)) == (None, end.unrun_calls, end.messages)
    told = [(message.call_id, kind_of(message.content)) for message in messages if isinstance(message, ToolMessage)]
    assert told == must.observed
    assert await differences(place.client, place.journal, live.run_id) == []

    assert {call_id: len(operations) for call_id, operations in live.operations.items()} == must.runs
    for call_id, operations in live.operations.items():
        turn, position = call_id.removeprefix("c").split(".")
        assert set(operations) == {f"{live.run_id}/{turn}/{position}/{call_id}"}
        assert len(operations) <= (1 + MAX_AGAIN if live.steps[call_id].tool in IDEMPOTENT else 1)

    replayer = Replayer(workflows=[AgentRun], plugins=[longshift_plugin()])
    await replayer.replay_workflow(await handle.fetch_history())
