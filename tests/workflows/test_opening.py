"""Runs that cannot be opened for now: a stop and the deadline hold all the same. And what an opening leaves behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities import failures
from longshift import contracts
from longshift.contracts import OpenedRun, OpenRun
from longshift.memory import KEPT
from longshift.messages import AssistantMessage, Message, ToolMessage, UserMessage
from longshift.observations import ok
from longshift.run_input import RunInput
from longshift.status import Status
from tests.workflows.raw_runs import ended, given, started
from tests.workflows.running import PARROT, Script, activities_of, call, shop_open, working

pytestmark = pytest.mark.asyncio(loop_scope="session")


@asynccontextmanager
async def failing_to_open(
    client: Client, queue: str, journal_url: str, failure: ApplicationError
) -> AsyncIterator[None]:
    """A worker that cannot open a run."""

    @activity.defn(name=contracts.OPEN_RUN)
    async def open_run(request: OpenRun) -> OpenedRun:
        raise failure

    async with activities_of(journal_url, PARROT, Script("Done.")) as activities:
        others = [one for one in activities if one.__name__ != contracts.OPEN_RUN]
        async with working(client, queue, [*others, open_run]):
            yield


@pytest.mark.slow
async def test_a_graceful_stop_ends_a_run_whose_tools_are_away(client: Client, queue: str, journal_url: str) -> None:
    async with failing_to_open(client, queue, journal_url, failures.tools_away("the server of its tools is away")):
        handle = await started(client, queue, given(seconds=3600))
        await handle.signal(contracts.STOP, {"reason": "enough"})
        end = await ended(handle)
    assert (end.status, end.model_calls) == (Status.STOP_REQUESTED, 0)


async def test_a_deadline_that_only_the_agent_knows_ends_a_run_that_is_not_opened(
    client: Client, queue: str, journal_url: str
) -> None:
    async with failing_to_open(client, queue, journal_url, failures.too_late("its deadline passed")):
        end = await ended(await started(client, queue))
    assert (end.status, end.model_calls) == (Status.TIME_LIMIT, 0)


async def test_an_opening_that_gives_up_at_a_deadline_that_has_moved_is_tried_anew_more_and_more_slowly(
    client: Client, queue: str, journal_url: str
) -> None:
    async with failing_to_open(client, queue, journal_url, failures.too_late("its deadline passed")):
        handle = await started(client, queue)
        await handle.signal(contracts.SET_LIMITS, {"seconds": 86400})
        waits: list[int] = []
        async with asyncio.timeout(30):
            async for event in handle.fetch_history_events(wait_new_event=True):
                if event.HasField("timer_started_event_attributes"):
                    seconds = event.timer_started_event_attributes.start_to_fire_timeout.seconds
                    waits += [seconds] if seconds < 3600 else []
                if len(waits) == 2:
                    break
        await handle.signal(contracts.STOP)
        end = await ended(handle)
    assert waits == [1, 2]
    assert (end.status, end.model_calls) == (Status.STOP_REQUESTED, 0)


async def test_no_call_id_of_a_long_opening_is_used_again(client: Client, queue: str, journal_url: str) -> None:
    messages: list[Message] = [UserMessage(content="Say it.")]
    for number in range(KEPT + 44):
        asked = call(f"c{number}", "echo", text=str(number))
        messages.append(AssistantMessage(content="", calls=(asked,)))
        messages.append(ToolMessage(call_id=asked.id, name=asked.name, content=ok(str(number))))
    model = Script([call("new", "echo", text="a")], [call("c0", "echo", text="b")])
    async with shop_open(client, queue, journal_url, PARROT, model):
        opening = RunInput(agent="parrot", messages=tuple(messages), limits={"context_bytes": 1_000_000})
        end = await ended(await started(client, queue, opening))
    assert (end.status, end.model_calls) == (Status.REPEATED_CALL_ID, 2)
    assert "the call id c0 was used before in this run" in end.detail
