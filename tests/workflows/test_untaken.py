"""Steps that no worker took before the run was stopped: their wait is no work."""

from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from longshift import contracts
from longshift.status import Status
from longshift.view import StateView
from tests.workflows.raw_runs import Handle, ended, given, started, until_waiting
from tests.workflows.running import PARROT, Script, activities_of
from tests.workflows.suppliers import ONE_EFFECT, Supplier, answer, asked, asking, begun
from workflows.agent_run import AgentRun

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_stop_now_ends_a_run_whose_model_call_waited_longer_than_the_run_may_work(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Done.")
    async with (
        activities_of(journal_url, PARROT, model) as activities,
        Worker(client, task_queue=queue, workflows=[AgentRun]),
    ):
        async with Worker(client, task_queue=queue, activities=activities):
            handle = await started(client, queue, given(working_seconds=0.001), start_signal=contracts.PAUSE)
            await until_waiting(handle, "paused")
        await handle.signal(contracts.RESUME)
        await scheduled(handle, "model-1")
        await handle.signal(contracts.STOP, {"mode": "now", "reason": "enough"})
        await given_up(handle)
        async with Worker(client, task_queue=queue, activities=activities):
            end = await ended(handle)
    assert (end.status, end.detail) == (Status.STOP_REQUESTED, "a stop (now) was requested: enough")
    assert model.requests == []


async def test_an_effect_that_was_withdrawn_before_a_worker_took_it_did_no_work(
    client: Client, queue: str, journal_url: str
) -> None:
    supplier = Supplier()
    async with (
        activities_of(journal_url, asking(supplier), Script(*ONE_EFFECT)) as activities,
        Worker(client, task_queue=queue, workflows=[AgentRun]),
    ):
        async with Worker(client, task_queue=queue, activities=activities):
            handle = await begun(client, queue)
            question = await asked(handle)
        before = await handle.query(contracts.STATE, result_type=StateView)
        await handle.execute_update(contracts.APPROVE, answer(question))
        await scheduled(handle, "tool-1.0")
        await handle.signal(contracts.STOP, "enough")
        await given_up(handle)
        async with Worker(client, task_queue=queue, activities=activities):
            end = await ended(handle)
    assert (end.status, end.unrun_calls, supplier.orders) == (Status.STOP_REQUESTED, ("c1",), [])
    assert end.working_seconds == before.working_seconds


async def scheduled(handle: Handle, activity_id: str) -> None:
    """Wait until an activity waits for a worker."""
    await happened(handle, lambda event: event.activity_task_scheduled_event_attributes.activity_id == activity_id)


async def given_up(handle: Handle) -> None:
    """Wait until an activity is cancelled."""
    await happened(handle, lambda event: event.HasField("activity_task_canceled_event_attributes"))


async def happened(handle: Handle, what: Callable[[Any], bool]) -> None:
    """Wait for an event of a run's history."""
    async for event in handle.fetch_history_events(wait_new_event=True):
        if what(event):
            return
    raise AssertionError("the run ended before")
