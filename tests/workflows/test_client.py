"""The typed client on a real server: how runs start, and how they stand. Only the model is scripted."""

import asyncio
import re
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client

from client.errors import AlreadyStarted, NoSuchRun, Refused
from client.shifts import Listed, Shifts
from longshift import contracts
from longshift.messages import UserMessage
from longshift.run_input import RunInput
from longshift.status import Status
from tests.workflows import raw_runs
from tests.workflows.running import ESCAPES, GIVEN, PARROT, Script, call, shop_open, until, working

pytestmark = pytest.mark.asyncio(loop_scope="session")


@workflow.defn(name=contracts.WORKFLOW, sandboxed=False)
class Faulty:
    """The workflow of a version with a fault."""

    @workflow.run
    async def run(self, *_: Any) -> None:
        """Fail as a fault of ours would."""
        raise ValueError(f"a fault of ours{ESCAPES}")


async def test_a_started_run_has_an_id_of_its_agent_and_the_time_and_its_task_in_the_list(shifts: Shifts) -> None:
    run_id = await shifts.start(GIVEN)
    # Eight digits: of a thousand runs that start in one second, no two are to have the same id.
    assert re.fullmatch("parrot-20[0-9]{6}-[0-9]{6}-[0-9a-f]{8}", run_id)

    async def look() -> dict[str, Listed] | None:  # the server's list is a moment behind
        listed = {run.run_id: run for run in await shifts.list(limit=1000)}
        return listed if run_id in listed else None

    listed = await raw_runs.until(look)
    assert listed is not None
    assert listed[run_id].goal == "Say something."
    assert listed[run_id].agent == "parrot"
    assert listed[run_id].status == "RUNNING"


async def test_an_id_starts_one_run_and_a_second_start_says_so(shifts: Shifts, queue: str) -> None:
    await shifts.start(GIVEN, run_id=queue)
    with pytest.raises(AlreadyStarted, match=queue):
        await shifts.start(GIVEN, run_id=queue)


async def test_an_ended_id_is_not_run_again(shifts: Shifts, client: Client, queue: str, journal_url: str) -> None:
    async with shop_open(client, queue, journal_url, PARROT, Script("Hello.")):
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


async def test_the_state_of_a_run_at_work_has_the_workers_view(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Hello.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
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
    async with shop_open(client, queue, journal_url, PARROT, model):
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
    async with shop_open(client, queue, journal_url, PARROT, Script("Hello.")):
        assert (await shifts.result(run_id)).status is Status.COMPLETED


async def test_what_an_activity_says_that_it_waits_for_is_shown_in_the_state_and_in_the_list(
    shifts: Shifts, client: Client, queue: str
) -> None:
    seen_enough = asyncio.Event()

    @activity.defn(name=contracts.OPEN_RUN)
    async def waiting(_: Any) -> None:
        activity.heartbeat(f"the journal is away{ESCAPES}")
        await seen_enough.wait()

    run_id = await shifts.start(GIVEN)
    async with working(client, queue, [waiting]), asyncio.timeout(30):
        while (seen := await shifts.state(run_id)).status != "WAITING":
            pass
        listed = next(run for run in await shifts.list(limit=1000) if run.run_id == run_id)
        seen_enough.set()
    for found in (seen, listed):
        assert (found.status, found.stuck) == ("WAITING", None)
        assert "the journal is away" in found.detail
        assert "\x1b" not in found.detail
    assert seen.view is not None


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
