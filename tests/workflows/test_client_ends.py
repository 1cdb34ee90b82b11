"""The typed client on a real server: one result for every way in which a run can end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from client.errors import NoJournal, Refused
from client.shifts import Shifts
from longshift import contracts
from longshift.run_input import RunInput
from longshift.status import Status
from store.journal import Journal
from tests.workflows.running import ESCAPES, GIVEN, PARROT, Script, call, shop_open, story

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_result_of_a_run_that_answers(shifts: Shifts, client: Client, queue: str, journal_url: str) -> None:
    model = Script([call("one", "echo", text="hello")], "Hello.")
    async with shop_open(client, queue, journal_url, PARROT, model):
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
    async with shop_open(client, queue, journal_url, PARROT, Script([call("one", "echo", text="x")])):
        run_id = await shifts.start(RunInput(agent="parrot", task="x", limits={"model_calls": 1}))
        result = await shifts.result(run_id)
    assert (result.status, result.answer, result.model_calls) == (Status.MODEL_CALL_LIMIT, None, 1)
    seen = await shifts.state(run_id)
    assert (seen.status, seen.result, seen.detail) == ("MODEL_CALL_LIMIT", result, result.detail)


@pytest.mark.parametrize(
    ("reason", "told"),
    [("closing time", "closing time"), ("f\udcfcr heute", "f?r heute")],  # so a command line gives what is not UTF-8
)
async def test_the_result_of_a_run_that_was_stopped(
    shifts: Shifts, client: Client, queue: str, journal_url: str, reason: str, told: str
) -> None:
    model = Script("Never.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        run_id = await shifts.start(GIVEN)
        await model.asked(1)
        await shifts.stop(run_id, mode="now", reason=reason)
        result = await shifts.result(run_id)
    assert result.status is Status.STOP_REQUESTED
    assert told in result.detail
    assert result.model_calls == 1


async def test_the_result_of_a_cancelled_run_has_all_counters(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="x")], "Never.", held=[2])
    async with shop_open(client, queue, journal_url, PARROT, model):
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
    async with shop_open(client, queue, journal_url, PARROT, model):
        result = await shifts.result(run_id)
    assert result.status is Status.STOP_REQUESTED
    assert model.requests == []


async def test_the_result_of_a_terminated_run_names_who_and_why_and_counts_by_the_journal(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="x")], "Never.", held=[2])
    async with shop_open(client, queue, journal_url, PARROT, model):
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


async def test_a_transcript_from_another_journal_is_an_error_that_names_it_and_makes_no_file(
    shifts: Shifts, client: Client, queue: str, journal_url: str, tmp_path: Path
) -> None:
    async with shop_open(client, queue, journal_url, PARROT, Script("Hello.")):
        run_id = await shifts.start(GIVEN)
        await shifts.result(run_id)
    other = tmp_path / "other.db"
    elsewhere = Shifts(client, queue, f"sqlite:///{other}")
    with pytest.raises(NoJournal, match=r"there is no journal .*other\.db.*LONGSHIFT_JOURNAL__URL"):
        await elsewhere.transcript(run_id)
    assert not other.exists()
    await (await Journal.open(f"sqlite:///{other}")).close()
    with pytest.raises(NoJournal, match=f"other.db holds nothing of run {run_id}.*LONGSHIFT_JOURNAL__URL"):
        await elsewhere.transcript(run_id)


async def test_a_large_answer_comes_whole_from_the_journal_and_cut_without_it(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    answer = "many words " * 2000
    async with shop_open(client, queue, journal_url, PARROT, Script(answer)):
        run_id = await shifts.start(GIVEN)
        result = await shifts.result(run_id)
    assert (result.answer, result.answer_whole) == (answer, None)
    cut = await Shifts(client, queue, "sqlite:////proc/none/journal.db").result(run_id)
    assert cut.answer_whole is not None
    assert cut.notes


async def test_a_large_partial_text_comes_whole_from_the_journal_and_cut_without_it(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    answer = "many words " * 2000
    model = Script(answer, held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        run_id = await shifts.start(GIVEN.model_copy(update={"limits": {"model_calls": 1}}))
        await model.asked(1)
        await shifts.tell(run_id, "And you?")
        model.let_go(1)
        result = await shifts.result(run_id)
    assert (result.status, result.answer) == (Status.MODEL_CALL_LIMIT, None)
    assert (result.partial, result.partial_whole) == (answer, None)
    cut = await Shifts(client, queue, "sqlite:////proc/none/journal.db").result(run_id)
    assert cut.partial_whole is not None
    assert cut.notes


@pytest.mark.parametrize("raw", [[], [{"agnet": "parrot"}], ["parrot"], [{"agent": "parrot", "task": "x"}, 2]])
async def test_a_run_started_by_hand_with_a_bad_input_is_refused_and_shown_so(
    shifts: Shifts, client: Client, queue: str, journal_url: str, raw: list[Any]
) -> None:
    async with shop_open(client, queue, journal_url, PARROT, Script("Never.")):
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
    async with shop_open(client, queue, journal_url, PARROT, Script("Never.")):
        run_id = await shifts.start(RunInput(agent="stranger", task="x"))
        with pytest.raises(Refused, match=r"stranger.*parrot"):
            await shifts.result(run_id)


async def test_a_run_that_continues_as_new_has_one_result_and_one_story(
    rolling_shifts: Shifts, rolling_server: WorkflowEnvironment, queue: str, journal_url: str
) -> None:
    turns = [[call(f"call-{number}", "echo", text=str(number))] for number in range(7)]
    async with shop_open(rolling_server.client, queue, journal_url, PARROT, Script(*turns, "Hello.")):
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
    async with shop_open(client, queue, journal_url, PARROT, model):
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
