"""The typed client on a real server: what people send to runs, and the story they follow."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from client.errors import NoSuchRun, Refused
from client.shifts import Shifts, Snapshot
from longshift.run_input import RunInput
from longshift.status import Status
from longshift.turns import ModelFailure
from tests.workflows.running import ESCAPES, GIVEN, PARROT, Script, call, decisions, shop_open, story, until, working

pytestmark = pytest.mark.asyncio(loop_scope="session")

UNKNOWN_RUN = "no-such-run"


SENDERS: list[Callable[[Shifts, str], Awaitable[object]]] = [
    lambda shifts, run_id: shifts.stop(run_id),
    lambda shifts, run_id: shifts.pause(run_id),
    lambda shifts, run_id: shifts.resume(run_id),
    lambda shifts, run_id: shifts.set_limits(run_id, {"model_calls": 9}),
    lambda shifts, run_id: shifts.tell(run_id, "hello"),
]
NAMES = ["stop", "pause", "resume", "set_limits", "tell"]


@pytest.mark.parametrize("send", SENDERS, ids=NAMES)
async def test_a_message_to_an_unknown_run_says_that_there_is_none(
    shifts: Shifts, send: Callable[[Shifts, str], Awaitable[object]]
) -> None:
    with pytest.raises(NoSuchRun, match=UNKNOWN_RUN):
        await send(shifts, UNKNOWN_RUN)


async def test_whatever_is_asked_about_an_unknown_run_or_a_foreign_workflow_says_that_there_is_none(
    shifts: Shifts, client: Client, queue: str
) -> None:
    await client.start_workflow("of_someone_else", id=queue, task_queue=queue)
    for run_id in (UNKNOWN_RUN, queue):
        for ask in (shifts.result, shifts.state, shifts.stop, shifts.transcript):
            with pytest.raises(NoSuchRun):
                await ask(run_id)
    with pytest.raises(NoSuchRun):
        await story(shifts, UNKNOWN_RUN)


async def test_a_message_to_an_ended_run_is_refused_with_its_end(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    async with shop_open(client, queue, journal_url, PARROT, Script("Hello.")):
        run_id = await shifts.start(GIVEN)
        await shifts.result(run_id)
    for send in SENDERS:
        with pytest.raises(Refused, match="has ended with COMPLETED"):
            await send(shifts, run_id)


async def test_a_paused_run_begins_nothing_until_it_is_resumed(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="x")], "Hello.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        run_id = await shifts.start(GIVEN)
        await model.asked(1)
        await shifts.pause(run_id)
        model.let_go(1)
        await until(shifts, run_id, "waiting:")
        assert (await shifts.state(run_id)).status == "WAITING"
        await shifts.resume(run_id)
        result = await shifts.result(run_id)
    assert result.status is Status.COMPLETED
    lines = await story(shifts, run_id)
    assert [line for line in lines if line in ("pause", "resume", "goes on")] == ["pause", "resume", "goes on"]


async def test_a_change_of_limits_applies_at_once_and_once(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Hello.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        run_id = await shifts.start(GIVEN)
        await model.asked(1)
        first = await shifts.set_limits(run_id, {"model_calls": 12}, request_id="r-1")
        again = await shifts.set_limits(run_id, {"model_calls": 12}, request_id="r-1")
        model.let_go(1)
        await shifts.result(run_id)
    assert first.limits is not None
    assert (first.limits.model_calls, first.waits_for_worker) == (12, False)
    assert again == first
    assert (await decisions(journal_url, run_id)).count("set_limits") == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({}, "limits"),
        ({"model_calls": 1.5}, "model_calls"),
        ({"model_calls": True}, "model_calls"),
        ({"seconds": "600"}, "seconds"),
        ({"calls": 3}, "calls"),
        ({"request_id": "x", "model_calls": 3}, "request_id"),
    ],
)
async def test_a_bad_change_of_limits_is_refused_by_field_and_never_sent(
    shifts: Shifts, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(Refused, match=field):
        await shifts.set_limits(UNKNOWN_RUN, changes)


async def test_a_change_of_limits_without_a_worker_waits_for_one_and_then_counts_once(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    run_id = await shifts.start(GIVEN)
    applied = await shifts.set_limits(run_id, {"model_calls": 12})
    assert (applied.limits, applied.waits_for_worker) == (None, True)
    model = Script("Hello.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        await model.asked(1)
        seen = await shifts.state(run_id)
        model.let_go(1)
        await shifts.result(run_id)
    assert seen.view is not None
    assert seen.view.limits is not None
    assert seen.view.limits.model_calls == 12
    assert (await decisions(journal_url, run_id)).count("set_limits") == 1


async def test_a_change_of_limits_while_the_run_is_being_opened_is_taken_and_guesses_no_other_limit(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Hello.", held=[1])
    run_id = await shifts.start(GIVEN)
    async with working(client, queue, []):  # takes the run, and knows no activity that would open it
        applied = await shifts.set_limits(run_id, {"model_calls": 12})
    async with shop_open(client, queue, journal_url, PARROT, model):
        await model.asked(1)
        seen = await shifts.state(run_id)
        model.let_go(1)
        await shifts.result(run_id)
    assert (applied.limits, applied.waits_for_worker) == (None, False)
    assert seen.view is not None
    assert seen.view.limits is not None
    assert seen.view.limits.model_calls == 12


async def test_a_change_of_limits_sent_again_after_continue_as_new_counts_once(
    rolling_shifts: Shifts, rolling_server: WorkflowEnvironment, queue: str, journal_url: str
) -> None:
    turns = [[call(f"call-{number}", "echo", text=str(number))] for number in range(5)]
    model = Script(*turns, "Hello.", held=[1, 6])
    async with shop_open(rolling_server.client, queue, journal_url, PARROT, model):
        run_id = await rolling_shifts.start(GIVEN)
        await model.asked(1)
        await rolling_shifts.set_limits(run_id, {"model_calls": 12}, request_id="r-1")
        model.let_go(1)
        await model.asked(6)
        applied = await rolling_shifts.set_limits(run_id, {"model_calls": 12}, request_id="r-1")
        model.let_go(6)
        await rolling_shifts.result(run_id)
    assert applied.limits is not None
    assert applied.limits.model_calls == 12
    assert (await decisions(journal_url, run_id)).count("set_limits") == 1


async def test_a_message_told_twice_with_one_request_id_is_in_the_transcript_once(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Hello.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        run_id = await shifts.start(GIVEN)
        await model.asked(1)
        assert (await shifts.tell(run_id, "And you?", request_id="t-1")).waiting == 1
        assert (await shifts.tell(run_id, "And you?", request_id="t-1")).waiting == 1
        model.let_go(1)
        result = await shifts.result(run_id)
    assert result.model_calls == 2
    said = [message.content for message in await shifts.transcript(run_id) if message.role == "user"]
    assert said == ["Say something.", "And you?"]


async def test_a_message_told_without_a_worker_waits_for_one_and_is_then_in_the_transcript_once(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    run_id = await shifts.start(GIVEN)
    told = await shifts.tell(run_id, "And you?", request_id="t-2")
    assert (told.waiting, told.waits_for_worker) == (None, True)
    async with shop_open(client, queue, journal_url, PARROT, Script("Hello.")):
        await shifts.result(run_id)
    said = [message.content for message in await shifts.transcript(run_id) if message.role == "user"]
    assert said == ["Say something.", "And you?"]


@pytest.mark.parametrize("text", ["", " ", "x" * 70_000, "\ud800"])
async def test_a_message_that_is_blank_too_long_or_no_text_is_refused(shifts: Shifts, text: str) -> None:
    with pytest.raises(Refused, match="text"):
        await shifts.tell(UNKNOWN_RUN, text)


async def test_a_callers_cancellation_of_an_update_stays_a_cancellation(shifts: Shifts) -> None:
    run_id = await shifts.start(GIVEN)
    telling = asyncio.create_task(shifts.tell(run_id, "hello"))
    await until(shifts, run_id, "started")
    telling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await telling


async def test_a_story_is_told_while_it_happens_and_ends_with_the_run(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    failure = ModelFailure(kind="status", message="scripted: 503", transient=True, retry_after=0.1)
    model = Script([call("one", "echo", text="hi"), call("two", "ecco")], failure, "Hello.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        run_id = await shifts.start(GIVEN)
        lines = shifts.follow(run_id)
        heard = [(await anext(lines)).text for _ in range(3)]
        assert heard[0] == "started: agent parrot: Say something."
        assert heard[2] == "model call 1 began"
        model.let_go(1)
        heard += [line.text async for line in lines]
    assert [line.split(" s:")[0].split(", 0.")[0].split(": there is no")[0] for line in heard[3:]] == [
        "model call 1: 2 calls, 7 tokens",
        'echo {"text":"hi"}: ok',
        "ecco, not run: error unknown_tool",
        "model call 2 began",
        "model call 2: failed: scripted: 503",
        "waiting 0.1",
        "model call 3 began",
        "model call 3: answer, 7 tokens",
        "ended: COMPLETED: answered with model call 3",
    ]


async def test_escapes_of_a_model_a_tool_and_a_person_are_inert_in_story_and_state_and_exact_in_the_transcript(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text=ESCAPES)], f"Hello{ESCAPES}", held=[2])
    async with shop_open(client, queue, journal_url, PARROT, model):
        run_id = await shifts.start(RunInput(agent="parrot", task=f"Say{ESCAPES}"))
        await model.asked(2)
        await shifts.stop(run_id, reason=f"why{ESCAPES}")
        await shifts.pause(run_id)
        model.let_go(2)
        await shifts.result(run_id)
    lines = await story(shifts, run_id)
    seen = await shifts.state(run_id)
    assert isinstance(seen, Snapshot)
    for text in (*lines, seen.goal):
        assert not any(mark in text for mark in "\x1b\r\u202e\n")
    assert any("\\x1b[2J" in line for line in lines)
    contents = [message.content for message in await shifts.transcript(run_id)]
    assert f"Say{ESCAPES}" in contents
    assert f"Hello{ESCAPES}" in contents
