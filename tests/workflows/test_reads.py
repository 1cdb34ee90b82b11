"""Reads whose journal stays away for longer than the platform tries them, and reads that hang."""

import asyncio
from datetime import timedelta

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.common import RetryPolicy

from longshift import Agent, contracts, tool
from longshift.status import Status
from tests.workflows.raw_runs import Handle, ended, until_waiting
from tests.workflows.running import Script, call, shop_open
from tests.workflows.suppliers import Diary, begun, losing, observations
from worker.plugin import longshift_plugin
from workflows import calls, waiting

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def hasty(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client whose runs, and the platform for them, try again at once."""
    monkeypatch.setattr(calls, "READING", RetryPolicy(initial_interval=timedelta(milliseconds=10), maximum_attempts=2))
    monkeypatch.setattr(waiting, "JOURNAL_WAIT_SECONDS", 0.5)
    target = client.service_client.config.target_host
    return await Client.connect(target, plugins=[longshift_plugin()])  # no sandbox: workflows as they are here


TWO_READS = Script([call("c1", "look", at="a"), call("c2", "look", at="b")], "Done.")


async def test_a_read_waits_for_its_journal_and_is_dispatched_again(
    hasty: Client, queue: str, journal_url: str
) -> None:
    diary = Diary()
    away = {("c1", 0): "no journal", ("c1", 1): "no journal"}
    async with losing(hasty, queue, journal_url, diary.agent(), TWO_READS, away):
        handle = await begun(hasty, queue)
        await until_waiting(handle, "the journal is locked")
        end = await ended(handle)
    assert (end.status, end.model_calls, end.tool_calls) == (Status.COMPLETED, 2, 2)
    assert await observations(journal_url, handle.id) == [{"ok": True, "value": "a"}, {"ok": True, "value": "b"}]
    assert sorted(diary.done) == ["look a", "look b"]
    assert await dispatches(handle) == ["tool-1.0", "tool-1.1", "tool-1.0-again-1", "tool-1.0-again-2"]


async def test_a_stop_ends_the_wait_of_a_read_for_its_journal(hasty: Client, queue: str, journal_url: str) -> None:
    away = {("c1", 0): "no journal"}
    async with losing(hasty, queue, journal_url, Diary().agent(), TWO_READS, away):
        handle = await begun(hasty, queue)
        await until_waiting(handle, "the journal is locked")
        await handle.signal(contracts.STOP)
        end = await ended(handle)
    assert (end.status, end.unrun_calls) == (Status.STOP_REQUESTED, ("c1", "c2"))


async def test_a_read_that_hangs_uses_up_the_runs_working_time_once(
    client: Client, queue: str, journal_url: str
) -> None:
    began = []

    @tool(kind="read", timeout_seconds=300)
    async def look(at: str) -> str:
        """Look; it never ends."""
        began.append(at)
        await asyncio.Event().wait()
        return at

    agent = Agent(name="buyer", system="Buy.", endpoint="scripted", tools=(look,))
    async with shop_open(client, queue, journal_url, agent, Script([call("c1", "look", at="a")])):
        end = await ended(await begun(client, queue, working_seconds=1.0))
    assert (end.status, end.model_calls, began) == (Status.TIME_LIMIT, 1, ["a"])
    assert end.detail.endswith("of 1 working seconds used")


async def dispatches(handle: Handle) -> list[str]:
    """The ids of a run's activities that run a tool, in the order in which they were scheduled."""
    scheduled = [event.activity_task_scheduled_event_attributes async for event in handle.fetch_history_events()]
    return [one.activity_id for one in scheduled if one.activity_type.name == contracts.RUN_TOOL]
