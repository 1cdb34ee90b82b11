"""A worker in the test's own process: real workflow, real activities, a real journal, and a scripted model."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from activities.run_activities import Activities
from client.shifts import Shifts
from endpoints.base import Endpoint, Reply, Request
from endpoints.config import ReplayConfig
from longshift.agent import Agent
from longshift.messages import AssistantMessage, ToolCall
from longshift.run_input import RunInput
from longshift.tools import tool
from longshift.turns import CallFailed, ModelFailure, Usage
from store.journal import Journal
from worker.ending import StepsAtWork, end
from workflows.agent_run import AgentRun


@tool(kind="read")
def echo(text: str) -> str:
    """Give the text back."""
    return text


PARROT = Agent(name="parrot", system="Repeat.", endpoint="scripted", tools=(echo,))
"""An agent with one tool, a read."""
GIVEN = RunInput(agent="parrot", task="Say something.")
"""A run of it."""
ESCAPES = "\x1b[2J\rended: COMPLETED\u202e"
"""What a hostile text does: clears the screen, overwrites the line, turns its direction."""
HEARTBEAT_SECONDS = 3.0
"""Seconds after which a worker that is gone is noticed."""


def call(call_id: str, name: str, **arguments: Any) -> ToolCall:
    """A tool call of a scripted turn."""
    return ToolCall(id=call_id, name=name, arguments=arguments)


class Script:
    """A model that plays turns: a text is an answer, calls are calls, a failure is a failure. It plays the last one
    again when more are asked for. A held call waits until the test lets it go."""

    def __init__(self, *turns: str | Sequence[ToolCall] | ModelFailure, held: Sequence[int] = ()) -> None:
        self._turns = turns
        self._held = {number: asyncio.Event() for number in held}
        self._asked: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self.requests: list[Request] = []

    async def asked(self, number: int) -> None:
        """Wait until a model call is out."""
        await self._asked[number].wait()

    def let_go(self, number: int) -> None:
        """Let a held call be answered."""
        self._held[number].set()

    async def send(self, request: Request) -> Reply:
        """Answer one model call."""
        self.requests.append(request)
        self._asked[request.reply].set()
        if request.reply in self._held:
            await self._held[request.reply].wait()
        turn = self._turns[min(request.reply, len(self._turns)) - 1]
        if isinstance(turn, ModelFailure):
            raise CallFailed(turn)
        calls, text = ((), turn) if isinstance(turn, str) else (tuple(turn), "")
        message = AssistantMessage(content=text, calls=calls)
        return Reply(message=message, stop_reason="stop", usage=Usage(output_tokens=7))

    async def close(self) -> None:
        """Nothing to close."""


@asynccontextmanager
async def activities_of(journal_url: str, agent: Agent, model: Endpoint) -> AsyncIterator[list[Callable[..., Any]]]:
    """The real activities, for one agent and one endpoint under the agent's own name for it."""
    journal = await Journal.open(journal_url)
    config = ReplayConfig(turns=(), timeout_seconds=30)
    try:
        yield Activities(
            journal, {agent.name: agent}, {agent.endpoint: model}, {agent.endpoint: config}, HEARTBEAT_SECONDS
        ).all()
    finally:
        await journal.close()


@asynccontextmanager
async def working(
    client: Client, queue: str, activities: Sequence[Callable[..., Any]], workflow: type = AgentRun
) -> AsyncIterator[None]:
    """A worker, up while the body runs. A worker that fails cancels the body; one that the server holds is left."""
    steps, body = StepsAtWork(), asyncio.current_task()
    assert body is not None
    worker = Worker(
        client,
        task_queue=queue,
        workflows=[workflow],
        activities=activities,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        graceful_shutdown_timeout=timedelta(seconds=0),
        interceptors=[steps],
    )
    running = asyncio.create_task(worker.run())

    def failed(_: "asyncio.Task[None]") -> None:
        body.cancel()

    running.add_done_callback(failed)
    try:
        yield
    finally:
        running.remove_done_callback(failed)
        if running.done():
            await running
        await end(worker, steps, 0)
        running.cancel()


@asynccontextmanager
async def shop_open(client: Client, queue: str, journal_url: str, agent: Agent, model: Endpoint) -> AsyncIterator[None]:
    """A worker for one agent whose model is `model`."""
    async with activities_of(journal_url, agent, model) as activities, working(client, queue, activities):
        yield


async def decisions(journal_url: str, run_id: str) -> list[str]:
    """The kinds of the decisions that the journal holds of a run."""
    journal = await Journal.open(journal_url)
    kinds = [decision.kind for decision in await journal.decisions(run_id)]
    await journal.close()
    return kinds


async def story(shifts: Shifts, run_id: str) -> list[str]:
    """A run's story up to its end."""
    return [line.text async for line in shifts.follow(run_id)]


async def until(shifts: Shifts, run_id: str, start: str) -> str:
    """The first line of a run's story that begins like this."""
    async for line in shifts.follow(run_id):
        if line.text.startswith(start):
            return line.text
    raise AssertionError(f"the run ended without a line that begins with {start}")
