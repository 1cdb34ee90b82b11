"""The search attributes of runs, on a server that has them."""

from collections.abc import Mapping
from typing import Any

import pytest
import pytest_asyncio
from temporalio.api.operatorservice.v1 import RemoveSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities import run_activities
from activities.attributes import lacking
from longshift import contracts
from longshift.attributes import AGENT, MODEL, SPENT_CENTS, STATUS, TYPES, WAITS_FOR
from longshift.status import Status
from tests.workflows.raw_runs import Handle, ended, given, started, until, until_waiting
from tests.workflows.running import PARROT, Script, call, shop_open
from worker.attributes import register
from worker.plugin import longshift_plugin
from workflows import agent_run

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAID = PARROT.model_copy(update={"limits": PARROT.limits.changed({"estimated_call_cents": 10})})
"""An agent each of whose model calls takes a tenth of its budget."""
TURNS = [[call(f"call-{number}", "echo", text=str(number))] for number in range(1, 7)]
"""A call each; with a short history a run of them is a chain."""


@pytest_asyncio.fixture(loop_scope="session")
async def chained(knowing: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client whose runs continue as new every few steps."""
    monkeypatch.setattr(agent_run, "HISTORY_EVENTS", 20)
    target = knowing.service_client.config.target_host
    return await Client.connect(target, plugins=[longshift_plugin()])  # no sandbox: workflows as they are here


async def shown(handle: Handle) -> dict[str, Any]:
    """What stands in our attributes of a run."""
    found = (await handle.describe()).typed_search_attributes
    return {pair.key.name: pair.value for pair in found.search_attributes if pair.key.name in TYPES}


async def until_shown(handle: Handle, **wanted: object) -> Mapping[str, Any]:
    """Wait until these stand there, and return all."""

    async def look() -> Mapping[str, Any]:
        now = await shown(handle)
        return now if wanted.items() <= now.items() else {}

    return await until(look)


async def test_they_tell_what_a_run_waits_for_what_it_spent_and_how_its_chain_ended(
    chained: Client, queue: str, journal_url: str
) -> None:
    model = Script(*TURNS, "Done.", held=[1])
    async with shop_open(chained, queue, journal_url, PAID, model):
        handle = await started(chained, queue, given(seconds=600.0, model_calls=20, tool_calls=20))
        await model.asked(1)
        about = {AGENT: "parrot", MODEL: (await (await handle.describe()).memo())["model"]}
        assert await shown(handle) == about | {STATUS: "RUNNING", SPENT_CENTS: 10}
        await handle.signal(contracts.PAUSE)
        model.let_go(1)
        assert await until_shown(handle, LongshiftStatus="WAITING") == about | {
            STATUS: "WAITING",
            WAITS_FOR: "resume",
            SPENT_CENTS: 10,
        }
        await handle.signal(contracts.RESUME)
        assert (await ended(handle)).status is Status.COMPLETED
        assert await shown(handle) == about | {STATUS: "COMPLETED", SPENT_CENTS: 70}
    chain = [one async for one in chained.list_workflows(f"WorkflowId = '{queue}'")]
    assert len(chain) > 1


@pytest.mark.parametrize(
    ("status", "last"),
    [(RPCStatusCode.DEADLINE_EXCEEDED, "COMPLETED"), (RPCStatusCode.PERMISSION_DENIED, "RUNNING")],
    ids=["no answer", "a refusal"],
)
async def test_what_a_server_did_not_answer_for_is_made_up_by_the_next_change_and_one_that_refuses_is_left_alone(
    knowing: Client,
    queue: str,
    journal_url: str,
    monkeypatch: pytest.MonkeyPatch,
    status: RPCStatusCode,
    last: str,
) -> None:
    asked = 0

    async def seldom(client: Client) -> object:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise RPCError("not now", status, b"")
        return await lacking(client)

    monkeypatch.setattr(run_activities, "lacking", seldom)
    model = Script("Done.", held=[1])
    async with shop_open(knowing, queue, journal_url, PARROT, model):
        handle = await started(knowing, queue)
        await model.asked(1)
        await handle.signal(contracts.PAUSE)
        await handle.execute_update(contracts.TELL, "Wait.")  # so that the answer is not the end
        model.let_go(1)
        await until_waiting(handle, "paused")
        assert (await shown(handle))[STATUS] == "RUNNING"
        await handle.signal(contracts.RESUME)
        assert (await ended(handle)).status is Status.COMPLETED
        assert (await shown(handle))[STATUS] == last
    assert asked == (2 if last == "RUNNING" else 4)


async def test_a_run_goes_on_where_one_is_taken_away_and_they_can_be_registered_anew(
    chained: Client, queue: str, journal_url: str
) -> None:
    model = Script(*TURNS, "Done.", held=[1])
    async with shop_open(chained, queue, journal_url, PAID, model):
        handle = await started(chained, queue, given(seconds=600.0, model_calls=20, tool_calls=20))
        await model.asked(1)
        request = RemoveSearchAttributesRequest(namespace=chained.namespace, search_attributes=[STATUS])
        await chained.operator_service.remove_search_attributes(request)
        try:
            model.let_go(1)
            assert (await ended(handle)).status is Status.COMPLETED
        finally:
            assert await register(chained) == [STATUS]
    assert await register(chained) == []
