"""The typed client on a real server: what runs ask people, and what people answer."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from temporalio.client import Client

from client import sending
from client.answers import Answered
from client.errors import NoJournal, NoSuchRun, Refused
from client.shifts import Shifts
from longshift import observations
from longshift.agent import Agent
from longshift.messages import ToolMessage
from longshift.questions import MAX_SHOWN, Question
from longshift.run_input import RunInput
from longshift.status import Status
from longshift.tools import ToolOutcomeUnknown, tool
from tests.workflows.running import ESCAPES, PARROT, Script, call, decisions, shop_open, story, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

GIVEN = RunInput(agent="buyer", task="Order vanilla.", limits={"seconds": 300})
ORDER = call("order-1", "order", sku="SKU-VANILLA", quantity=6)
PAY = call("pay-1", "pay", cents=900)


@dataclass
class Outside:
    """The world that the effects change."""

    orders: list[tuple[str, int]] = field(default_factory=list)
    payments: list[int] = field(default_factory=list)

    def agent(self) -> Agent:
        """An agent whose order needs approval, and whose payment never says what came of it."""

        @tool(needs_approval=True)
        def order(sku: str, quantity: int) -> str:
            """Order."""
            self.orders.append((sku, quantity))
            return f"ordered {quantity}"

        @tool
        def pay(cents: int) -> str:
            """Pay."""
            self.payments.append(cents)
            raise ToolOutcomeUnknown("the bank did not answer")

        return Agent(name="buyer", system="Buy.", endpoint="scripted", tools=(order, pay))


async def asked(shifts: Shifts, run_id: str) -> Question:
    """The question of a run, once it is asked."""
    await until(shifts, run_id, "waiting:")
    question = (await shifts.state(run_id)).question
    assert question is not None
    return question


@asynccontextmanager
async def asking(
    shifts: Shifts, client: Client, queue: str, journal_url: str, outside: Outside, model: Script
) -> AsyncIterator[tuple[str, Question]]:
    """A run that asks, and its question, while its worker is up."""
    async with shop_open(client, queue, journal_url, outside.agent(), model):
        run_id = await shifts.start(GIVEN)
        yield run_id, await asked(shifts, run_id)


async def observed(shifts: Shifts, run_id: str) -> dict[str, Any]:
    """The one observation in a run's transcript."""
    found = [message for message in await shifts.transcript(run_id) if isinstance(message, ToolMessage)]
    assert len(found) == 1
    return observations.read(found[0].content)


async def test_runs_that_ask_are_listed_with_their_question_and_without_a_worker_the_longest_waiting_first(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    ids = [f"{queue}-{number}" for number in (1, 2)]
    async with shop_open(client, queue, journal_url, Outside().agent(), Script([ORDER], "Done.")):
        for run_id in ids:
            await shifts.start(GIVEN, run_id=run_id)
            await asked(shifts, run_id)
    waiting = [one for one in await shifts.approvals() if one.run_id in ids]
    assert [one.run_id for one in waiting] == ids
    question = waiting[0].question
    assert question is not None
    assert (question.kind, question.call_id, question.name) == ("approval", "order-1", "order")
    assert json.loads(question.arguments) == ORDER.arguments
    assert [one.question for one in await shifts.list() if one.run_id == ids[0]] == [question]
    seen = await shifts.state(ids[0])
    assert (seen.status, seen.question) == ("NO_WORKER", question)
    for run_id in ids:
        await shifts.stop(run_id)


async def test_an_approved_effect_is_made_once_and_a_second_answer_is_told_what_stands(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    outside = Outside()
    model = Script([ORDER], "Done.", held=[2])
    async with asking(shifts, client, queue, journal_url, outside, model) as (run_id, question):
        assert outside.orders == []
        assert await shifts.question(run_id, "order-1") == question
        assert await shifts.approve(run_id, question, reason="agreed") == Answered("approved", waits_for_worker=False)
        await model.asked(2)
        again: list[Callable[[], Awaitable[object]]] = [
            lambda: shifts.question(run_id, "order-1"),
            lambda: shifts.approve(run_id, question),
            lambda: shifts.deny(run_id, question, reason="changed my mind"),
        ]
        for second in again:
            with pytest.raises(Refused, match="answered before \\(approved\\)"):
                await second()
        assert (await shifts.state(run_id)).question is None
        assert run_id not in [one.run_id for one in await shifts.approvals()]
        model.let_go(2)
        result = await shifts.result(run_id)
    assert result.status is Status.COMPLETED
    assert outside.orders == [("SKU-VANILLA", 6)]
    lines = await story(shifts, run_id)
    told = [line for line in lines if line.startswith(("waiting:", "approved", "goes on", "order "))]
    assert told[0].endswith(f"longshift approve or deny {run_id} order-1")
    assert told[1:] == [
        "approved order-1, since: agreed",
        "goes on",
        'order {"quantity":6,"sku":"SKU-VANILLA"}: ok',
    ]
    assert (await decisions(journal_url, run_id)).count("approved") == 1
    with pytest.raises(Refused, match="has ended with COMPLETED"):
        await shifts.approve(run_id, question)


async def test_a_denied_effect_is_not_made_and_the_model_reads_why(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    outside = Outside()
    async with asking(shifts, client, queue, journal_url, outside, Script([ORDER], "Done.")) as (run_id, question):
        with pytest.raises(Refused, match="reason"):
            await shifts.deny(run_id, question, reason=" ")
        assert (await shifts.deny(run_id, question, reason=f"zu viel f\udcfcr heute{ESCAPES}")).words == "denied"
        result = await shifts.result(run_id)
    assert (result.status, outside.orders) == (Status.COMPLETED, [])
    error = (await observed(shifts, run_id))["error"]
    assert isinstance(error, dict)
    assert error["kind"] == "denied"
    assert f"zu viel f?r heute{ESCAPES}" in error["message"]  # without what is no Unicode
    lines = await story(shifts, run_id)
    assert any(line.startswith("denied order-1, since: zu viel f?r heute\\x1b") for line in lines)
    recorded = await shifts.tool_call(run_id, "order-1")
    assert (recorded.state, recorded.arguments) == (None, ORDER.arguments)
    assert "denied" in (recorded.observation or "")


async def test_an_answer_counts_for_the_call_and_the_arguments_that_were_seen_only(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    outside = Outside()
    async with asking(shifts, client, queue, journal_url, outside, Script([ORDER], "Done.")) as (run_id, question):
        with pytest.raises(Refused, match="call order-1 does"):
            await shifts.question(run_id, "order-2")
        with pytest.raises(Refused, match="order-1 waits for approval"):
            await shifts.approve(run_id, question.model_copy(update={"call_id": "order-2"}))
        with pytest.raises(Refused, match="other arguments"):
            await shifts.approve(run_id, question.model_copy(update={"arguments_sha256": "0" * 64}))
        with pytest.raises(Refused, match="approve or deny it"):
            await shifts.resolve(run_id, question.model_copy(update={"kind": "outcome"}), "did_not_happen")
        with pytest.raises(Refused, match="approve or deny it"):
            await shifts.resolve(run_id, question, "did_not_happen")
        assert await asked(shifts, run_id) == question
        assert outside.orders == []
        await shifts.stop(run_id)
        assert (await shifts.result(run_id)).status is Status.STOP_REQUESTED
    with pytest.raises(Refused, match="has ended with STOP_REQUESTED"):
        await shifts.question(run_id, "order-1")
    assert outside.orders == []


async def test_an_answer_without_a_worker_waits_for_one_and_the_first_one_counts(
    shifts: Shifts, client: Client, queue: str, journal_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "UPDATE_SECONDS", 0.2)  # no worker is up, however long one waits
    outside = Outside()
    model = Script([ORDER], "Done.")
    async with shop_open(client, queue, journal_url, outside.agent(), model):
        run_id = await shifts.start(GIVEN)
        await asked(shifts, run_id)
    question = await shifts.question(run_id, "order-1")
    with pytest.raises(Refused, match="call order-1 does"):
        await shifts.question(run_id, "order-2")
    assert await shifts.approve(run_id, question) == Answered(None, waits_for_worker=True)
    assert (await shifts.deny(run_id, question, reason="late")).waits_for_worker
    async with shop_open(client, queue, journal_url, outside.agent(), model):
        result = await shifts.result(run_id)
    assert (result.status, outside.orders) == (Status.COMPLETED, [("SKU-VANILLA", 6)])
    kinds = await decisions(journal_url, run_id)
    assert (kinds.count("approved"), kinds.count("denied"), kinds.count("answer_refused")) == (1, 0, 1)
    assert "approved order-1, by a message that waits for a worker" in await story(shifts, run_id)


@pytest.mark.parametrize(
    ("outcome", "result", "words", "status", "seen"),
    [
        ("happened", {"payment": 4711}, "resolved: it happened", Status.COMPLETED, "4711"),
        ("did_not_happen", None, "resolved: it did not happen", Status.COMPLETED, "not_executed"),
        ("stop", None, "resolved: stop", Status.OUTCOME_UNKNOWN, None),
    ],
)
async def test_what_came_of_an_effect_is_what_a_person_says(
    shifts: Shifts,
    client: Client,
    queue: str,
    journal_url: str,
    outcome: Any,
    result: Any,
    words: str,
    status: Status,
    seen: str | None,
) -> None:
    outside = Outside()
    async with asking(shifts, client, queue, journal_url, outside, Script([PAY], "Done.")) as (run_id, question):
        assert (question.kind, "the bank did not answer" in question.why) == ("outcome", True)
        assert (await shifts.tool_call(run_id, "pay-1")).state == "unknown"
        with pytest.raises(Refused, match="resolve it"):
            await shifts.approve(run_id, question)
        with pytest.raises(Refused, match="result"):
            await shifts.resolve(run_id, question, "happened", result="x" * 70_000)
        answered = await shifts.resolve(run_id, question, outcome, result=result, reason="seen at the bank")
        assert answered == Answered(words, waits_for_worker=False)
        ended = await shifts.result(run_id)
    assert (ended.status, outside.payments) == (status, [900])
    assert ended.unknown_calls == (("pay-1",) if outcome == "stop" else ())
    lines = await story(shifts, run_id)
    assert any(line.startswith(f"resolved pay-1: {outcome}") and "seen at the bank" in line for line in lines)
    recorded = await shifts.tool_call(run_id, "pay-1")
    if seen is None:
        assert "may have happened: pay-1" in lines[-1]
        assert recorded.state == "unknown"
    else:
        assert seen in str(await observed(shifts, run_id))
        assert (recorded.state, seen in (recorded.observation or "")) == ("settled", True)


async def test_a_run_that_is_terminated_while_it_asks_what_came_of_an_effect_says_that_it_may_have_happened(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    async with asking(shifts, client, queue, journal_url, Outside(), Script([PAY], "Done.")) as (run_id, question):
        await client.get_workflow_handle(run_id).terminate("no more")
        result = await shifts.result(run_id)
    assert (result.status, result.unknown_calls, result.unrun_calls) == (Status.TERMINATED, ("pay-1",), ("pay-1",))
    with pytest.raises(Refused, match="has ended with TERMINATED"):
        await shifts.resolve(run_id, question, "did_not_happen")
    assert run_id not in [one.run_id for one in await shifts.approvals()]


async def test_long_arguments_are_cut_in_the_question_and_whole_in_the_journal(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    outside = Outside()
    long = call("order-1", "order", sku="V" * 20_000, quantity=6)
    async with asking(shifts, client, queue, journal_url, outside, Script([long], "Done.")) as (run_id, question):
        recorded = await shifts.tool_call(run_id, "order-1")
        await shifts.approve(run_id, question)
        await shifts.result(run_id)
    assert len(question.arguments) <= MAX_SHOWN
    assert recorded.arguments == long.arguments
    assert recorded.arguments_sha256 == question.arguments_sha256
    assert outside.orders == [("V" * 20_000, 6)]


async def test_a_call_is_shown_with_its_whole_observation_where_the_model_was_given_a_part(
    shifts: Shifts, client: Client, queue: str, journal_url: str
) -> None:
    text = "x" * 60_000
    calls = [call("big", "echo", text=text), call("none", "ecco")]
    async with shop_open(client, queue, journal_url, PARROT, Script(calls, "Hello.")):
        run_id = await shifts.start(RunInput(agent="parrot", task="Say.", limits={"context_bytes": 400_000}))
        await shifts.result(run_id)
    told = [message for message in await shifts.transcript(run_id) if isinstance(message, ToolMessage)]
    assert "[cut here: 60000 bytes in all" in told[0].content
    big = await shifts.tool_call(run_id, "big")
    assert observations.read(big.observation or "") == {"ok": True, "value": text}
    assert (big.state, big.cut, big.arguments, big.dispatch) == ("settled", True, {"text": text}, 0)
    assert big.milliseconds is not None
    assert big.attempt
    none = await shifts.tool_call(run_id, "none")
    assert (none.state, none.cut, none.observation) == (None, False, told[1].content)
    with pytest.raises(Refused, match=r"no call .other. in run .* it has big \(echo\), none \(ecco\)"):
        await shifts.tool_call(run_id, "other")


async def test_questions_and_calls_of_an_unknown_or_unopened_run_are_said_to_be_none(shifts: Shifts) -> None:
    with pytest.raises(NoSuchRun):
        await shifts.question("no-such-run", "c")
    with pytest.raises(NoSuchRun):
        await shifts.tool_call("no-such-run", "c")
    run_id = await shifts.start(GIVEN)
    with pytest.raises(Refused, match="no call does"):
        await shifts.question(run_id, "c")
    with pytest.raises(NoJournal):
        await shifts.tool_call(run_id, "c")
    assert run_id not in [one.run_id for one in await shifts.approvals()]
    await shifts.stop(run_id)
