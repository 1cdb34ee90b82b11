"""A run that continues as new every few steps is the same run: nothing is forgotten or lost at the seams."""

import asyncio
from collections.abc import Sequence

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from client.shifts import Shifts
from longshift import contracts, validate_episode
from longshift.messages import ToolCall
from longshift.status import Status
from longshift.view import StateView
from store.journal import Journal
from tests.workflows.raw_runs import ended, given, started
from tests.workflows.running import PARROT, Script, call, decisions, shop_open

pytestmark = pytest.mark.asyncio(loop_scope="session")

STEPS = 8
"""Model calls of a run here; with SHORT_HISTORY it continues as new after every second or third."""
ROOM = {"seconds": 600.0, "model_calls": 100, "tool_calls": 100}
"""Limits that no test reaches by itself."""


@pytest.fixture
def rolling(rolling_server: WorkflowEnvironment) -> Client:
    """A client of the server on which runs continue as new every few steps."""
    return rolling_server.client


def echoes(count: int = STEPS) -> list[Sequence[ToolCall]]:
    """So many turns with a call each, all of them different."""
    return [[call(f"call-{number}", "echo", text=str(number))] for number in range(1, count + 1)]


async def chain(client: Client, run_id: str) -> list[str]:
    """Temporal's ids of the runs of a chain, from the first."""
    found = [execution.run_id async for execution in client.list_workflows(f"WorkflowId = '{run_id}'")]
    return found[::-1]


@pytest.mark.slow
async def test_a_run_of_many_parts_ends_exactly_as_one_of_a_single_part(
    client: Client, rolling: Client, queue: str, journal_url: str
) -> None:
    results = []
    for where, run_id in ((client, f"{queue}-whole"), (rolling, f"{queue}-parts")):
        async with shop_open(where, queue, journal_url, PARROT, Script(*echoes(), "Done.")):
            results.append(await ended(await started(where, queue, given(**ROOM), run_id=run_id)))
    whole, parts = (result.model_dump(exclude={"run_id", "working_seconds"}) for result in results)
    assert parts == whole
    assert (parts["status"], parts["model_calls"], parts["tool_calls"]) == (Status.COMPLETED, STEPS + 1, STEPS)
    assert len(await chain(rolling, f"{queue}-parts")) >= STEPS // 3
    journal = await Journal.open(journal_url)
    assert await journal.verify_chain(f"{queue}-parts") is None
    messages = [stored.message for stored in await journal.messages(f"{queue}-parts")]
    await journal.close()
    assert validate_episode(messages).complete


@pytest.fixture(params=[None, 2], ids=["remembered in the state", "remembered in the journal"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the earlier calls of a run are remembered."""
    if request.param is not None:
        monkeypatch.setattr("longshift.state.KEPT", request.param)


@pytest.mark.usefixtures("memory")
async def test_a_call_id_that_was_used_in_an_earlier_part_is_refused(
    rolling: Client, queue: str, journal_url: str
) -> None:
    again = [call("call-1", "echo", text="new")]
    async with shop_open(rolling, queue, journal_url, PARROT, Script(*echoes(), again)):
        end = await ended(await started(rolling, queue, given(**ROOM)))
    assert (end.status, end.tool_calls) == (Status.REPEATED_CALL_ID, STEPS)
    assert "call-1" in end.detail


@pytest.mark.usefixtures("memory")
async def test_identical_calls_are_counted_across_the_parts(rolling: Client, queue: str, journal_url: str) -> None:
    turns = echoes()
    for number in (1, 3, 6, 8):
        turns[number - 1] = [call(f"same-{number}", "echo", text="same")]
    async with shop_open(rolling, queue, journal_url, PARROT, Script(*turns, "Done.")):
        end = await ended(await started(rolling, queue, given(**ROOM)))
    assert (end.status, end.model_calls, end.tool_calls) == (Status.LOOP_DETECTED, 8, 7)


async def test_start_deadline_and_limits_stay_those_of_the_first_part(
    rolling: Client, queue: str, journal_url: str
) -> None:
    model = Script(*echoes(), "Done.", held=[1, 5, STEPS + 1])
    async with shop_open(rolling, queue, journal_url, PARROT, model):
        handle = await started(rolling, queue, given(seconds=600.0))
        seen: list[StateView] = []
        for number in (1, 5, STEPS + 1):
            await model.asked(number)
            seen.append(await handle.query(contracts.STATE, result_type=StateView))
            if number == 1:
                await handle.execute_update(contracts.SET_LIMITS, {"model_calls": STEPS + 1, "seconds": 700.0})
            model.let_go(number)
        end = await ended(handle)
    first, middle, last = seen
    assert len(await chain(rolling, queue)) > 1
    assert first.started_at == middle.started_at == last.started_at
    assert middle.deadline == last.deadline == first.started_at + 700
    assert (last.model_calls, last.tool_calls, last.output_tokens) == (STEPS + 1, STEPS, 7 * STEPS)
    assert (end.status, end.model_calls) == (Status.COMPLETED, STEPS + 1)


async def test_a_deadline_that_passes_in_a_later_part_is_that_of_the_whole(
    rolling: Client, queue: str, journal_url: str
) -> None:
    async with shop_open(rolling, queue, journal_url, PARROT, Script(*echoes(500))):
        end = await ended(await started(rolling, queue, given(**ROOM | {"seconds": 3.0, "model_calls": 1000})))
    assert (end.status, end.model_calls > 1) == (Status.TIME_LIMIT, True)
    assert "of 3 seconds passed" in end.detail
    assert len(await chain(rolling, queue)) > 1


@pytest.mark.slow
async def test_messages_told_at_every_step_stand_in_the_transcript_once_each_and_in_order(
    rolling: Client, queue: str, journal_url: str
) -> None:
    numbers = range(1, STEPS + 1)
    model = Script(*echoes(), "Done.", held=numbers)
    async with shop_open(rolling, queue, journal_url, PARROT, model):
        handle = await started(rolling, queue, given(**ROOM))
        for number in numbers:
            await model.asked(number)
            message = {"text": f"message {number}", "request_id": f"t-{number}"}
            for _ in range(2):  # a resend changes nothing
                assert await handle.execute_update(contracts.TELL, message) == 1
            if number > 1:
                await handle.execute_update(contracts.TELL, {"text": "old", "request_id": f"t-{number - 1}"})
            model.let_go(number)
        end = await ended(handle)
    assert end.status is Status.COMPLETED
    assert len(await chain(rolling, queue)) > 1
    journal = await Journal.open(journal_url)
    told = [stored.message.content for stored in await journal.messages(queue) if stored.role == "user"]
    await journal.close()
    assert told[1:] == [f"message {number}" for number in numbers]


@pytest.mark.slow
async def test_of_hundreds_of_signals_across_the_seams_none_is_lost(
    rolling: Client, queue: str, journal_url: str
) -> None:
    numbers = range(1, STEPS + 2)
    model = Script(*echoes(), "Done.", held=numbers)
    async with shop_open(rolling, queue, journal_url, PARROT, model):
        handle = await started(rolling, queue, given(**ROOM))
        for number in numbers:
            await model.asked(number)
            noise = [asyncio.create_task(handle.signal(f"noise-{number}-{one}")) for one in range(25)]
            await noise[0]
            if number <= STEPS:
                model.let_go(number)  # the others race with the steps that follow, and with the seam
            await asyncio.gather(*noise)
        model.let_go(STEPS + 1)
        end = await ended(handle)
    assert (end.status, end.notes) == (Status.COMPLETED, ())
    assert len(await chain(rolling, queue)) > 1
    assert (await decisions(journal_url, queue)).count("unknown_signal") == 25 * len(numbers)


@pytest.mark.slow
async def test_of_hundreds_of_updates_across_the_seams_none_is_lost_and_none_counts_twice(
    rolling_shifts: Shifts, rolling: Client, queue: str, journal_url: str
) -> None:
    numbers = range(1, STEPS + 2)
    texts = [[f"{number}.{one}" for one in range(12)] for number in numbers]
    model = Script(*echoes(), "Done.", held=numbers)
    room = asyncio.Semaphore(10)  # a server takes ten updates of a run at once, and has the others wait long

    async def tell(text: str) -> None:
        async with room:
            await rolling_shifts.tell(queue, text, request_id=text)

    async with shop_open(rolling, queue, journal_url, PARROT, model):
        handle = await started(rolling, queue, given(**ROOM))
        for number, group in zip(numbers, texts, strict=True):
            await model.asked(number)
            told = [asyncio.create_task(tell(text)) for text in group for _ in range(2)]
            await told[0]
            if number <= STEPS:
                model.let_go(number)  # the others race with the steps that follow, and with the seam
            await asyncio.gather(*told)
        model.let_go(STEPS + 1)
        end = await ended(handle)
    assert (end.status, end.notes) == (Status.COMPLETED, ())
    assert len(await chain(rolling, queue)) > 2
    journal = await Journal.open(journal_url)
    users = [stored.message.content for stored in await journal.messages(queue) if stored.role == "user"]
    await journal.close()
    assert sorted(users[1:]) == sorted(text for group in texts for text in group)


async def test_a_stop_that_comes_between_the_parts_stops_the_next(
    rolling: Client, queue: str, journal_url: str
) -> None:
    model = Script(*echoes(), "Done.", held=range(1, STEPS))
    async with shop_open(rolling, queue, journal_url, PARROT, model):
        handle = await started(rolling, queue, given(**ROOM))
        parts = 1
        for number in range(1, STEPS):
            await model.asked(number)
            if parts > 1:
                await handle.signal(contracts.STOP, "enough")
                model.let_go(number)
                break
            model.let_go(number)
            parts = len(await chain(rolling, queue))
        end = await ended(handle)
    assert end.status is Status.STOP_REQUESTED
    assert end.detail.endswith("enough")


async def test_a_paused_run_that_gets_many_messages_continues_as_new_and_stays_paused(
    rolling: Client, queue: str, journal_url: str
) -> None:
    model = Script("Done.")
    async with shop_open(rolling, queue, journal_url, PARROT, model):
        handle = await started(rolling, queue, given(**ROOM), start_signal=contracts.PAUSE)
        for number in range(30):
            await rolling.get_workflow_handle(queue).signal("no_such_signal", number)
        while len(await chain(rolling, queue)) < 2:
            await rolling.get_workflow_handle(queue).signal("no_such_signal", "more")
        assert model.requests == []
        await rolling.get_workflow_handle(queue).signal(contracts.RESUME)
        end = await ended(handle)
    assert (end.status, end.model_calls) == (Status.COMPLETED, 1)
