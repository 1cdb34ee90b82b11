"""The core's purity judged by Temporal's own sandbox; and shifts of many hours on a server that skips time."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from longshift import contracts
from longshift.status import Status
from longshift.turns import ModelFailure
from store.journal import Journal
from tests.workflows.raw_runs import ended, given, started, until_waiting
from tests.workflows.running import PARROT, Script, activities_of, call, decisions, shop_open
from worker.plugin import PayloadConverter, longshift_plugin
from workflows.agent_run import AgentRun

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOUR = 3600.0


@asynccontextmanager
async def judged_by_the_sandbox(client: Client, queue: str, journal_url: str, model: Script) -> AsyncIterator[Client]:
    """A worker that imports the core anew inside the sandbox, for every run; and a client of it."""
    config = client.config() | {
        "plugins": [],
        "data_converter": DataConverter(payload_converter_class=PayloadConverter),
    }
    bare = Client(**config)
    runner = SandboxedWorkflowRunner(SandboxRestrictions.default)
    async with (
        activities_of(journal_url, PARROT, model) as activities,
        Worker(bare, task_queue=queue, workflows=[AgentRun], activities=activities, workflow_runner=runner) as worker,
    ):
        used = worker.config(active_config=True)["workflow_runner"]
        assert used is runner
        assert "longshift" not in runner.restrictions.passthrough_modules
        yield bare


async def test_a_shift_runs_where_the_core_is_not_passed_through_the_sandbox(
    client: Client, queue: str, journal_url: str
) -> None:
    failure = ModelFailure(kind="status", message="scripted: 503", transient=True, retry_after=0.1)
    turns = ([call("1", "echo", text="a"), call("2", "ecco")], failure, [call("3", "echo", text="a")], "Done.")
    model = Script(*turns, held=[1])
    async with judged_by_the_sandbox(client, queue, journal_url, model) as bare:
        handle = await started(bare, queue, given(on_limit="wait", model_calls=3, seconds=60.0))
        await model.asked(1)
        await handle.execute_update(contracts.TELL, "And then?")
        await handle.signal("unknown", {"a": 1})
        await handle.signal(contracts.SET_LIMITS, {"model_calls": -1})
        model.let_go(1)
        await until_waiting(handle, "MODEL_CALL_LIMIT")
        await handle.execute_update(contracts.SET_LIMITS, {"model_calls": 4})
        end = await ended(handle)
    assert (end.status, end.model_calls, end.tool_calls) == (Status.COMPLETED, 4, 3)


async def test_a_stop_is_heard_where_the_core_is_not_passed_through_the_sandbox(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("1", "echo", text="a")], held=[1])
    async with judged_by_the_sandbox(client, queue, journal_url, model) as bare:
        handle = await started(bare, queue)
        await model.asked(1)
        await handle.signal(contracts.STOP, {"mode": "now", "reason": "enough"})
        end = await ended(handle)
    assert end.status is Status.STOP_REQUESTED


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def skipping() -> AsyncIterator[Client]:
    """A server whose clock jumps to the next timer while nothing runs."""
    binary = str(Path(sys.executable).parent / "temporal-test-server")
    environment = await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=binary, plugins=[longshift_plugin()]
    )
    async with environment:
        yield environment.client


async def test_back_offs_of_hours_are_waited_out(skipping: Client, queue: str, journal_url: str) -> None:
    failure = ModelFailure(kind="status", message="scripted: 503", transient=True, retry_after=5 * HOUR)
    model = Script(failure, failure, "Done.")
    async with shop_open(skipping, queue, journal_url, PARROT, model):
        end = await ended(await started(skipping, queue, given(seconds=24 * HOUR)))
    assert (end.status, end.model_calls) == (Status.COMPLETED, 3)
    journal = await Journal.open(journal_url)
    failed = [decision.at for decision in await journal.decisions(queue) if decision.kind == "model_failed"]
    await journal.close()
    assert failed[1] - failed[0] >= 5 * HOUR


async def test_a_back_off_never_waits_past_the_deadline(client: Client, queue: str, journal_url: str) -> None:
    """On the real server: the one that skips time at times hangs where two timers fire at one moment, as here."""
    failure = ModelFailure(kind="status", message="scripted: 429", transient=True, retry_after=1000 * HOUR)
    async with shop_open(client, queue, journal_url, PARROT, Script(failure)):
        end = await ended(await started(client, queue, given(seconds=1)))
    assert (end.status, end.model_calls) == (Status.TIME_LIMIT, 1)


@pytest.mark.parametrize(("begin", "calls"), [(contracts.PAUSE, 0), (None, 1)], ids=["paused", "at a limit"])
async def test_a_wait_for_a_person_lasts_until_a_deadline_of_days(
    skipping: Client, queue: str, journal_url: str, begin: str | None, calls: int
) -> None:
    waiting = given(on_limit="wait", model_calls=1, seconds=72 * HOUR)
    async with shop_open(skipping, queue, journal_url, PARROT, Script([call("1", "echo", text="a")], "Done.")):
        end = await ended(await started(skipping, queue, waiting, start_signal=begin))
    assert (end.status, end.model_calls) == (Status.TIME_LIMIT, calls)
    assert "held" in await decisions(journal_url, queue)
