"""Runs that a fund pays for, through the real workflow: refused, ended, held and paid."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from activities.run_activities import Activities
from client.errors import Refused
from client.funds import Funds
from client.shifts import Shifts
from endpoints.base import Reply, Request
from endpoints.config import Price, ReplayConfig, ReplayTurn
from endpoints.replay import ReplayEndpoint
from longshift import contracts
from longshift.agent import Agent
from longshift.funds import Fund
from longshift.inbox import MAX_TEXT_BYTES, MAX_WAITING_TEXT_BYTES
from longshift.run_input import RunInput
from longshift.status import Status
from longshift.view import StateView
from store.errors import JournalUnavailable
from store.journal import Journal
from tests.workflows.raw_runs import until as looked_until
from tests.workflows.running import GIVEN, HEARTBEAT_SECONDS, PARROT, Script, decisions, shop_open, until, working
from tests.workflows.test_audit import audited
from worker.plugin import longshift_plugin
from workflows import waiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

CENT = 10_000
"""Micro-USD."""
FUNDED = PARROT.model_copy(update={"fund": "research", "limits": PARROT.limits.changed({"estimated_call_cents": 1})})
"""An agent whose runs a fund pays for; its endpoint has no price, so every call keeps its estimate."""
PRICED = ReplayConfig(
    turns=(ReplayTurn(content="Done.", output_tokens=9, input_tokens=40),),
    price=Price(input_cents_per_million=300, output_cents_per_million=1500),
)
COST = (9 * 1500 + 40 * 300) // 100
"""Micro-USD of its turn."""


@asynccontextmanager
async def priced(client: Client, queue: str, journal_url: str, agent: Agent) -> AsyncIterator[None]:
    """A worker for an agent whose model is authored and has a price."""
    journal = await Journal.open(journal_url)
    endpoint = {agent.endpoint: ReplayEndpoint(agent.endpoint, PRICED)}
    activities = Activities(journal, {agent.name: agent}, endpoint, {agent.endpoint: PRICED}, HEARTBEAT_SECONDS)
    try:
        async with working(client, queue, activities.all()):
            yield
    finally:
        await journal.close()


@pytest.mark.parametrize(
    ("agent", "given", "words"),
    [
        (FUNDED, GIVEN, "fund: there is no fund 'research', the funds are: other; make it with: longshift funds set"),
        (
            PARROT,
            GIVEN.model_copy(update={"fund": "other"}),
            "fund: what a call may cost is not known: the endpoint has",
        ),
    ],
    ids=["a fund that does not exist", "an endpoint without a price, and no estimate"],
)
async def test_a_run_that_its_fund_cannot_pay_for_is_refused(
    client: Client, queue: str, journal_url: str, shifts: Shifts, agent: Agent, given: RunInput, words: str
) -> None:
    await Funds(journal_url).set("other", CENT)
    async with shop_open(client, queue, journal_url, agent, Script("Hello.")):
        run_id = await shifts.start(given)
        with pytest.raises(Refused) as refused:
            await shifts.result(run_id)
    assert str(refused.value).startswith(words)


async def test_what_a_run_used_is_spent_and_the_rest_of_what_was_reserved_comes_back(
    client: Client, queue: str, journal_url: str, shifts: Shifts
) -> None:
    funds = Funds(journal_url)
    await funds.set("research", 5 * CENT)
    async with priced(client, queue, journal_url, PARROT):
        ended = await shifts.result(await shifts.start(GIVEN.model_copy(update={"fund": "research"})))
    assert (ended.status, ended.exposure) == (Status.COMPLETED, COST)
    assert await funds.list() == [Fund(name="research", budget=5 * CENT, spent=COST)]


class Unread(Script):
    """A model for whose first call the transcript cannot be read."""

    async def send(self, request: Request) -> Reply:
        """Answer a model call, but the first."""
        if not self.requests:
            self.requests.append(request)
            raise JournalUnavailable("the server is stopping")
        return await super().send(request)


async def test_a_call_whose_transcript_could_not_be_read_costs_nothing_and_its_run_passes_an_audit(
    client: Client, queue: str, journal_url: str, shifts: Shifts
) -> None:
    funds = Funds(journal_url)
    await funds.set("research", 5 * CENT)
    async with shop_open(client, queue, journal_url, FUNDED, Unread("Hello.")):
        run_id = await shifts.start(GIVEN)
        ended = await shifts.result(run_id)
    assert (ended.status, ended.model_calls) == (Status.COMPLETED, 2)
    assert await funds.list() == [Fund(name="research", budget=5 * CENT, reserved=CENT)]
    assert await audited(client, journal_url, run_id) == {}


async def test_a_run_ends_by_its_cost_where_the_fund_has_too_little_left_and_nothing_is_sent(
    client: Client, queue: str, journal_url: str, shifts: Shifts
) -> None:
    await Funds(journal_url).set("research", CENT - 1)
    model = Script("Hello.")
    async with shop_open(client, queue, journal_url, FUNDED, model):
        ended = await shifts.result(await shifts.start(GIVEN))
    assert (ended.status, ended.model_calls, ended.exposure) == (Status.MODEL_COST_LIMIT, 0, 0)
    assert "this call may cost 1 cents and 0.9999 of 0.9999 are left" in ended.detail
    assert "longshift funds raise research AMOUNT" in ended.detail
    assert model.requests == []
    assert await Funds(journal_url).list() == [Fund(name="research", budget=CENT - 1)]


async def test_a_users_message_of_a_call_that_the_fund_did_not_pay_for_is_named_and_a_notice_is_none(
    client: Client, queue: str, journal_url: str, shifts: Shifts
) -> None:
    await Funds(journal_url).set("research", CENT - 1)
    run_id = await shifts.start(GIVEN.model_copy(update={"limits": {"wrap_up": True, "model_calls": 1}}))
    await client.get_workflow_handle(run_id).signal(contracts.TELL, "Order only six.")
    async with shop_open(client, queue, journal_url, FUNDED, Script("Hello.")):
        ended = await shifts.result(run_id)
    assert (ended.status, ended.messages) == (Status.MODEL_COST_LIMIT, 4)  # prompt, task, message and notice
    assert ended.notes == ("1 of a user's messages went unanswered: Order only six.",)


async def test_a_run_that_may_wait_goes_on_when_its_fund_was_raised(
    client: Client, queue: str, journal_url: str, shifts: Shifts
) -> None:
    funds = Funds(journal_url)
    await funds.set("research", CENT - 1)
    async with shop_open(client, queue, journal_url, FUNDED, Script("Hello.")):
        run_id = await shifts.start(GIVEN.model_copy(update={"limits": {"on_limit": "wait"}}))
        waiting = await until(shifts, run_id, "waiting: MODEL_COST_LIMIT")
        assert "longshift funds raise research AMOUNT" in waiting
        await funds.raise_by("research", 1, "request-1")
        await shifts.tell(run_id, "There is money again.")  # has the fund asked at once, not after the back-off
        ended = await shifts.result(run_id)
    assert (ended.status, ended.model_calls) == (Status.COMPLETED, 1)
    assert "unfunded" in await decisions(journal_url, run_id)
    assert await funds.list() == [Fund(name="research", budget=CENT, reserved=CENT)]


async def test_a_wait_for_a_fund_stands_in_the_journal_once_however_often_the_fund_is_asked(
    client: Client, queue: str, journal_url: str, shifts: Shifts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "FUND_WAIT_SECONDS", 0.01)
    target = client.service_client.config.target_host
    hasty = await Client.connect(target, plugins=[longshift_plugin()])  # no sandbox: the wait as it is here
    await Funds(journal_url).set("research", CENT - 1)
    async with shop_open(hasty, queue, journal_url, FUNDED, Script("Hello.")):
        run_id = await shifts.start(GIVEN.model_copy(update={"limits": {"on_limit": "wait"}}))
        handle, asked = client.get_workflow_handle(run_id), 0
        async for event in handle.fetch_history_events(wait_new_event=True):
            asked += event.HasField("activity_task_failed_event_attributes")
            if asked == 4:
                break
        await handle.signal(contracts.STOP, "enough")
        ended = await shifts.result(run_id)
    assert (ended.status, ended.model_calls) == (Status.STOP_REQUESTED, 0)
    kinds = await decisions(journal_url, run_id)
    assert [kind for kind in kinds if kind in ("unfunded", "stop", "ended")] == ["unfunded", "stop", "ended"]


async def test_users_messages_to_a_run_that_waits_for_its_fund_are_bounded_also_once_they_stand_in_its_transcript(
    client: Client, queue: str, journal_url: str, shifts: Shifts
) -> None:
    funds = Funds(journal_url)
    await funds.set("research", CENT - 1)
    async with shop_open(client, queue, journal_url, FUNDED, Script("Hello.")):
        given = GIVEN.model_copy(update={"limits": {"on_limit": "wait", "context_bytes": 4 * MAX_WAITING_TEXT_BYTES}})
        run_id = await shifts.start(given)
        await until(shifts, run_id, "waiting: MODEL_COST_LIMIT")
        handle = client.get_workflow_handle(run_id)
        for number in range(MAX_WAITING_TEXT_BYTES // MAX_TEXT_BYTES):
            await shifts.tell(run_id, str(number) * MAX_TEXT_BYTES)
        await looked_until(lambda: taken_in(handle, 6))  # system prompt and task stand before them
        with pytest.raises(Refused, match="too many messages wait"):
            await shifts.tell(run_id, "One more.")
        await handle.signal(contracts.TELL, "One more.")
        await funds.raise_by("research", 1, "request-1")
        await handle.signal(contracts.RESUME)  # any message has the fund asked
        ended = await shifts.result(run_id)
    assert (ended.status, ended.model_calls, ended.messages) == (Status.COMPLETED, 1, 7)
    assert "tell_refused" in await decisions(journal_url, run_id)


async def taken_in(handle: WorkflowHandle[Any, Any], messages: int) -> bool:
    """Whether so many messages stand in a run's transcript."""
    seen: StateView = await handle.query(contracts.STATE, result_type=StateView)
    return seen.messages == messages


async def test_many_runs_at_once_end_with_an_answer_or_by_their_fund_which_pays_to_its_last_cent(
    client: Client, queue: str, journal_url: str, shifts: Shifts
) -> None:
    funds = Funds(journal_url)
    await funds.set("research", 20 * CENT)
    async with shop_open(client, queue, journal_url, FUNDED, Script("Hello.")):
        started = await asyncio.gather(*(shifts.start(GIVEN) for _ in range(50)))
        ended = await asyncio.gather(*(shifts.result(run_id) for run_id in started))
    statuses = [result.status for result in ended]
    assert statuses.count(Status.COMPLETED) == 20
    assert statuses.count(Status.MODEL_COST_LIMIT) == 30
    assert await funds.list() == [Fund(name="research", budget=20 * CENT, reserved=20 * CENT)]
