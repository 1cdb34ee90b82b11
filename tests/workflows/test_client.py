"""The typed client against a real server, the real workflow and real activities; only the model is scripted."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from client.errors import AlreadyStarted, NoJournal, NoSuchRun, NoWorker, Refused
from client.shifts import Shifts, Snapshot
from longshift import contracts
from longshift.agent import Agent
from longshift.contracts import RunInput
from longshift.messages import UserMessage
from longshift.status import Status
from longshift.tools import tool
from longshift.turns import ModelFailure
from store.journal import Journal
from tests.workflows.running import Script, call, shop_open, working

pytestmark = pytest.mark.asyncio(loop_scope="session")

ESCAPES = "\x1b[2J\rended: COMPLETED\u202e"
"""What a hostile text does: clears the screen, overwrites the line, turns its direction."""
UNKNOWN_RUN = "no-such-run"


@tool(kind="read")
def echo(text: str) -> str:
    """Give the text back."""
    return text


AGENT = Agent(name="parrot", system="Repeat.", endpoint="scripted", tools=(echo,))
GIVEN = RunInput(agent="parrot", task="Say something.")


@workflow.defn(name=contracts.WORKFLOW, sandboxed=False)
class Faulty:
    """The workflow of a version with a fault."""

    @workflow.run
    async def run(self, *_: Any) -> None:
        """Fail as a fault of ours would."""
        raise ValueError(f"a fault of ours{ESCAPES}")


@pytest.fixture
def shifts(client: Client, queue: str, journal_url: str) -> Shifts:
    """The client under test."""
    return Shifts(client, queue, journal_url)


@pytest.fixture
def rolling_shifts(rolling_server: WorkflowEnvironment, queue: str, journal_url: str) -> Shifts:
    """The same on a server where runs continue as new every few steps."""
    return Shifts(rolling_server.client, queue, journal_url)


async def decisions(journal_url: str, run_id: str) -> list[str]:
    """The kinds of the decisions that the journal holds of a run."""
    journal = await Journal.open(journal_url)
    kinds = [decision.kind for decision in await journal.decisions(run_id)]
    await journal.close()
    return kinds


async def story(shifts: Shifts, run_id: str) -> list[str]:
    """A run's story up to its end."""
    return [line.text async for line in shifts.follow(run_id)]


# Starting


async def test_a_started_run_has_an_id_of_its_agent_and_the_time_and_its_task_in_the_list(shifts: Shifts) -> None:
    run_id = await shifts.start(GIVEN)
    assert run_id.startswith("parrot-20")
    listed = {run.run_id: run for run in await shifts.list(limit=1000)}
    assert listed[run_id].goal == "Say something."
    assert listed[run_id].agent == "parrot"
    assert listed[run_id].status == "RUNNING"


async def test_an_id_starts_one_run_and_a_second_start_says_so(shifts: Shifts, queue: str) -> None:
    await shifts.start(GIVEN, run_id=queue)
    with pytest.raises(AlreadyStarted, match=queue):
        await shifts.start(GIVEN, run_id=queue)


async def test_a_start_with_a_stop_does_not_stop_the_run_that_has_the_id(
    shifts: Shifts, client: Client, queue: str
) -> None:
    await shifts.start(GIVEN, run_id=queue)
    with pytest.raises(AlreadyStarted):
        await shifts.start(GIVEN, run_id=queue, stop={"reason": "not for you"})
    handle = client.get_workflow_handle(queue)
    assert [event.event_type async for event in handle.fetch_history_events()][2:] == []


async def test_an_ended_id_is_not_run_again(shifts: Shifts, client: Client, queue: str, journal_url: str) -> None:
    async with shop_open(client, queue, journal_url, AGENT, Script("Hello.")):
        run_id = await shifts.start(GIVEN)
        await shifts.result(run_id)
    with pytest.raises(AlreadyStarted):
        await shifts.start(GIVEN, run_id=run_id)


@pytest.mark.parametrize("run_id", ["", "../up", "a/b", "-flag", ".hidden", "a b", "é", "x" * 201, "a\n", "a\x1b"])
async def test_an_id_that_could_be_a_path_or_a_flag_is_refused(shifts: Shifts, run_id: str) -> None:
    with pytest.raises(Refused, match="run_id"):
        await shifts.start(GIVEN, run_id=run_id)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (RunInput(agent="parrot"), "task"),
        (RunInput(agent="parrot", task=" \n"), "task"),
        (RunInput(agent="parrot", task="both", messages=(UserMessage(content="both"),)), "task"),
        (RunInput(agent="Bad Name", task="x"), "agent"),
        (RunInput(agent="parrot", task="x", limits={"seconds": -1}), "limits.seconds"),
        (RunInput(agent="parrot", task="x", limits={"model_calls": True, "budget": 1}), "limits.budget"),
        (RunInput(agent="parrot", task="x" * 300_000), "input"),
        (RunInput(agent="parrot", task="\ud800"), "input"),
    ],
)
async def test_a_bad_input_is_refused_by_field_before_anything_starts(
    shifts: Shifts, queue: str, given: RunInput, field: str
) -> None:
    with pytest.raises(Refused, match=field):
        await shifts.start(given, run_id=queue)
    with pytest.raises(NoSuchRun):
        await shifts.state(queue)


# Ends


async def test_the_result_of_a_run_that_answers(shifts: Shifts, client: Client, queue: str, journal_url: str) -> None:
    model = Script([call("one", "echo", text="hello")], "Hello.")
    async with shop_open(client, queue, journal_url, AGENT, model):
        run_id = await shifts.start(GIVEN)
        result = await shifts.result(run_id)
    assert (result.status, result.answer) == (Status.COMPLETED, "Hello.")
    assert (result.model_calls, result.tool_calls, result.output_tokens, result.messages) == (2, 1, 14, 5)
    assert [message.role for message in await shifts.transcript(run_id)] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_the_result_of_a_run_that_a_limit_ends(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    async with shop_open(client, queue, journal_url, AGENT, Script([call("one", "echo", text="x")])):
        run_id = await shifts.start(RunInput(agent="parrot", task="x", limits={"model_calls": 1}))
        result = await shifts.result(run_id)
    assert (result.status, result.answer, result.model_calls) == (Status.MODEL_CALL_LIMIT, None, 1)
    seen = await shifts.state(run_id)
    assert (seen.status, seen.result, seen.detail) == ("MODEL_CALL_LIMIT", result, result.detail)


async def test_the_result_of_a_run_that_was_stopped(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Never.", held=[1])
    async with shop_open(client, queue, journal_url, AGENT, model):
        run_id = await shifts.start(GIVEN)
        await model.asked(1)
        await shifts.stop(run_id, mode="now", reason="closing time")
        result = await shifts.result(run_id)
    assert result.status is Status.STOP_REQUESTED
    assert "closing time" in result.detail
    assert result.model_calls == 1


async def test_a_stop_that_comes_with_the_start_lets_no_model_call_happen(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Never.")
    run_id = await shifts.start(GIVEN, stop={"reason": "on second thoughts"})
    async with shop_open(client, queue, journal_url, AGENT, model):
        result = await shifts.result(run_id)
    assert result.status is Status.STOP_REQUESTED
    assert model.requests == []


async def test_the_result_of_a_cancelled_run_has_all_counters(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="x")], "Never.", held=[2])
    async with shop_open(client, queue, journal_url, AGENT, model):
        run_id = await shifts.start(GIVEN)
        await model.asked(2)
        await client.get_workflow_handle(run_id).cancel(reason="from the UI")
        result = await shifts.result(run_id)
    assert (result.status, result.model_calls, result.tool_calls) == (Status.STOP_REQUESTED, 2, 1)
    assert "from the UI" in result.detail
    assert (await shifts.state(run_id)).status == "STOP_REQUESTED"
    assert (await story(shifts, run_id))[-1] == f"ended: STOP_REQUESTED: {result.detail}"


async def test_the_result_of_a_run_cancelled_before_a_worker_came(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Never.")
    run_id = await shifts.start(GIVEN)
    await client.get_workflow_handle(run_id).cancel()
    async with shop_open(client, queue, journal_url, AGENT, model):
        result = await shifts.result(run_id)
    assert result.status is Status.STOP_REQUESTED
    assert model.requests == []


async def test_the_result_of_a_terminated_run_names_who_and_why_and_counts_by_the_journal(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="x")], "Never.", held=[2])
    async with shop_open(client, queue, journal_url, AGENT, model):
        run_id = await shifts.start(GIVEN)
        await model.asked(2)
        await client.get_workflow_handle(run_id).terminate(reason=f"enough{ESCAPES}")
        result = await shifts.result(run_id)
        model.let_go(2)
    assert result.status is Status.TERMINATED
    assert client.identity in result.detail
    assert "enough\\x1b" in result.detail
    assert (result.model_calls, result.tool_calls, result.output_tokens) == (2, 1, 7)
    assert (await shifts.state(run_id)).status == "TERMINATED"


async def test_a_terminated_run_whose_journal_is_away_says_that_it_has_no_figures(client: Client, queue: str) -> None:
    shifts = Shifts(client, queue, "sqlite:////proc/none/journal.db")
    run_id = await shifts.start(GIVEN)
    await client.get_workflow_handle(run_id).terminate()
    result = await shifts.result(run_id)
    assert result.status is Status.TERMINATED
    assert "journal" in result.notes[-1]
    with pytest.raises(NoJournal):
        await shifts.transcript(run_id)


async def test_a_large_answer_comes_whole_from_the_journal_and_cut_without_it(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    answer = "many words " * 2000
    async with shop_open(client, queue, journal_url, AGENT, Script(answer)):
        run_id = await shifts.start(GIVEN)
        result = await shifts.result(run_id)
    assert (result.answer, result.answer_whole) == (answer, None)
    cut = await Shifts(client, queue, "sqlite:////proc/none/journal.db").result(run_id)
    assert cut.answer_whole is not None
    assert cut.notes


@pytest.mark.parametrize("raw", [[], [{"agnet": "parrot"}], ["parrot"], [{"agent": "parrot", "task": "x"}, 2]])
async def test_a_run_started_by_hand_with_a_bad_input_is_refused_and_shown_so(
    shifts: Shifts, client: Client, queue: str, journal_url: str, raw: list[Any]
) -> None:
    async with shop_open(client, queue, journal_url, AGENT, Script("Never.")):
        await client.start_workflow(contracts.WORKFLOW, args=raw, id=queue, task_queue=queue)
        with pytest.raises(Refused):
            await shifts.result(queue)
    seen = await shifts.state(queue)
    assert seen.status == "InputRefused"
    assert "input" in seen.detail or "agnet" in seen.detail
    assert (await story(shifts, queue))[-1].startswith("ended: InputRefused")


async def test_a_run_of_an_agent_that_no_worker_knows_is_refused(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    async with shop_open(client, queue, journal_url, AGENT, Script("Never.")):
        run_id = await shifts.start(RunInput(agent="stranger", task="x"))
        with pytest.raises(Refused, match=r"stranger.*parrot"):
            await shifts.result(run_id)


async def test_a_run_that_continues_as_new_has_one_result_and_one_story(
    rolling_shifts: Shifts, rolling_server: WorkflowEnvironment, queue: str, journal_url: str
) -> None:
    turns = [[call(f"call-{number}", "echo", text=str(number))] for number in range(7)]
    async with shop_open(rolling_server.client, queue, journal_url, AGENT, Script(*turns, "Hello.")):
        run_id = await rolling_shifts.start(GIVEN)
        told = asyncio.create_task(story(rolling_shifts, run_id))
        result = await rolling_shifts.result(run_id)
        lines = await told
    assert (result.status, result.model_calls, result.tool_calls, result.messages) == (Status.COMPLETED, 8, 7, 17)
    began = [line for line in lines if line.endswith(" began")]
    assert began == [f"model call {number} began" for number in range(1, 9)]
    assert sum("new run of its chain" in line for line in lines) >= 2
    assert lines[-1].startswith("ended: COMPLETED")
    assert lines == await story(rolling_shifts, run_id)
    assert [run.run_id for run in await rolling_shifts.list(limit=1000)].count(run_id) == 1


async def test_a_reset_run_is_followed_into_its_new_end_and_tells_nothing_twice(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="x")], "Hello.")
    async with shop_open(client, queue, journal_url, AGENT, model):
        run_id = await shifts.start(GIVEN)
        await shifts.result(run_id)
        handle = client.get_workflow_handle(run_id)
        tasks = [
            event.event_id
            async for event in handle.fetch_history_events()
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
        ]
        await client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=run_id),
                workflow_task_finish_event_id=tasks[1],
                reason="try again",
                request_id=queue,
            )
        )
        result = await shifts.result(run_id)
        lines = await story(shifts, run_id)
    assert (result.status, result.answer) == (Status.COMPLETED, "Hello.")
    assert sum(line.startswith("opened") for line in lines) == 1
    assert sum(line.startswith("ended: COMPLETED") for line in lines) == 2
    assert any("reset" in line for line in lines)


# State


async def test_the_state_of_a_run_at_work_has_the_workers_view(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Hello.", held=[1])
    async with shop_open(client, queue, journal_url, AGENT, model):
        run_id = await shifts.start(GIVEN)
        await model.asked(1)
        seen = await shifts.state(run_id)
        model.let_go(1)
        await shifts.result(run_id)
    assert (seen.status, seen.stuck, seen.result, seen.closed_at) == ("RUNNING", None, None, None)
    assert seen.view is not None
    assert (seen.view.phase, seen.view.model_calls) == ("model call 1", 1)


async def test_the_state_of_a_run_without_a_worker_says_so(shifts: Shifts) -> None:
    seen = await shifts.state(await shifts.start(GIVEN))
    assert (seen.status, seen.view, seen.goal) == ("NO_WORKER", None, "Say something.")


async def test_a_run_that_waits_shows_for_what_with_a_worker_and_in_the_list(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    limits = {"model_calls": 1, "on_limit": "wait"}
    model = Script([call("one", "echo", text="x")], "Hello.")
    async with shop_open(client, queue, journal_url, AGENT, model):
        run_id = await shifts.start(RunInput(agent="parrot", task="x", limits=limits))
        told = asyncio.create_task(until(shifts, run_id, "waiting:"))
        assert "model" in await told
        seen = await shifts.state(run_id)
        listed = next(run for run in await shifts.list(limit=1000) if run.run_id == run_id)
        await shifts.set_limits(run_id, {"model_calls": 2})
        result = await shifts.result(run_id)
    assert seen.status == "WAITING"
    assert "model" in seen.detail
    assert listed.status == "WAITING"
    assert result.status is Status.COMPLETED


async def until(shifts: Shifts, run_id: str, start: str) -> str:
    """The first line of a run's story that begins like this."""
    async for line in shifts.follow(run_id):
        if line.text.startswith(start):
            return line.text
    raise AssertionError(f"the run ended without a line that begins with {start}")


async def test_a_run_whose_workflow_code_fails_is_shown_as_stuck_with_the_remedy_and_goes_on_with_mended_workers(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    run_id = await shifts.start(GIVEN)
    async with working(client, queue, [], workflow=Faulty):
        line = await until(shifts, run_id, "workflow code failed")
        seen = await shifts.state(run_id)
        listed = next(run for run in await shifts.list(limit=1000) if run.run_id == run_id)
    for text in (line, seen.stuck or "", listed.stuck or ""):
        assert "a fault of ours\\x1b[2J" in text
        assert "\x1b" not in text
    assert (seen.status, listed.status) == ("STUCK", "STUCK")
    async with shop_open(client, queue, journal_url, AGENT, Script("Hello.")):
        assert (await shifts.result(run_id)).status is Status.COMPLETED


async def test_an_activity_that_is_tried_again_and_again_is_named_in_the_state(
    shifts: Shifts, client: Client, queue: str
) -> None:
    tried = asyncio.Event()

    @activity.defn(name=contracts.OPEN_RUN)
    async def failing(_: Any) -> None:
        if activity.info().attempt > 1:
            tried.set()
        raise OSError("the disk is full")

    run_id = await shifts.start(GIVEN)
    async with working(client, queue, [failing]):
        await tried.wait()
        seen = await shifts.state(run_id)
    assert seen.status == "RUNNING"
    assert seen.stuck is not None
    assert "the disk is full" in seen.stuck


# Messages

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
    async with shop_open(client, queue, journal_url, AGENT, Script("Hello.")):
        run_id = await shifts.start(GIVEN)
        await shifts.result(run_id)
    for send in SENDERS:
        with pytest.raises(Refused, match="has ended with COMPLETED"):
            await send(shifts, run_id)


async def test_a_paused_run_begins_nothing_until_it_is_resumed(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="x")], "Hello.", held=[1])
    async with shop_open(client, queue, journal_url, AGENT, model):
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
    async with shop_open(client, queue, journal_url, AGENT, model):
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
    async with shop_open(client, queue, journal_url, AGENT, model):
        await model.asked(1)
        seen = await shifts.state(run_id)
        model.let_go(1)
        await shifts.result(run_id)
    assert seen.view is not None
    assert seen.view.limits is not None
    assert seen.view.limits.model_calls == 12
    assert (await decisions(journal_url, run_id)).count("set_limits") == 1


async def test_a_change_of_limits_sent_again_after_continue_as_new_counts_once(
    rolling_shifts: Shifts, rolling_server: WorkflowEnvironment, queue: str, journal_url: str
) -> None:
    turns = [[call(f"call-{number}", "echo", text=str(number))] for number in range(5)]
    model = Script(*turns, "Hello.", held=[1, 6])
    async with shop_open(rolling_server.client, queue, journal_url, AGENT, model):
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
    async with shop_open(client, queue, journal_url, AGENT, model):
        run_id = await shifts.start(GIVEN)
        await model.asked(1)
        assert (await shifts.tell(run_id, "And you?", request_id="t-1")).waiting == 1
        assert (await shifts.tell(run_id, "And you?", request_id="t-1")).waiting == 1
        model.let_go(1)
        result = await shifts.result(run_id)
    assert result.model_calls == 2
    said = [message.content for message in await shifts.transcript(run_id) if message.role == "user"]
    assert said == ["Say something.", "And you?"]


async def test_a_message_told_while_no_worker_is_up_is_not_taken_and_says_what_to_do(shifts: Shifts) -> None:
    run_id = await shifts.start(GIVEN)
    with pytest.raises(NoWorker, match="t-2"):
        await shifts.tell(run_id, "hello", request_id="t-2")


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


# The story


async def test_a_story_is_told_while_it_happens_and_ends_with_the_run(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    failure = ModelFailure(kind="status", message="scripted: 503", transient=True, retry_after=0.1)
    model = Script([call("one", "echo", text="hi"), call("two", "ecco")], failure, "Hello.", held=[1])
    async with shop_open(client, queue, journal_url, AGENT, model):
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
    async with shop_open(client, queue, journal_url, AGENT, model):
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
