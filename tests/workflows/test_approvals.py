"""Effects that wait for a person: what an answer does, and which answers are refused."""

import asyncio

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.client import WorkflowUpdateFailedError as UpdateFailed
from temporalio.service import RPCError

from longshift import Agent, ToolOutcomeUnknown, contracts, tool
from longshift.questions import ApprovalRule
from longshift.status import Status
from longshift.view import StateView
from store.journal import Journal
from tests.workflows.raw_runs import details, ended
from tests.workflows.running import Script, activities_of, call, decisions, shop_open, working
from tests.workflows.suppliers import (
    ONE_EFFECT,
    Diary,
    Supplier,
    answer,
    asked,
    asking,
    begun,
    next_question,
    observations,
    refusal,
)
from tests.workflows.test_messages import ANSWERS, WILD

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("way", ["update", "signal"])
async def test_an_approved_effect_runs_once(client: Client, queue: str, journal_url: str, way: str) -> None:
    supplier = Supplier()
    async with shop_open(client, queue, journal_url, asking(supplier), Script(*ONE_EFFECT)):
        handle = await begun(client, queue)
        question = await asked(handle)
        assert (question.kind, question.name, question.why) == ("approval", "place", "place always needs approval")
        view = await handle.query(contracts.STATE, result_type=StateView)
        assert (supplier.orders, view.tool_calls) == ([], 0)
        given = answer(question, reason="agreed")
        if way == "update":
            assert await handle.execute_update(contracts.APPROVE, given) == "approved"
        else:
            await handle.signal(contracts.APPROVE, given)
        end = await ended(handle)
    assert (end.status, end.tool_calls, end.unrun_calls) == (Status.COMPLETED, 1, ())
    assert supplier.orders == [f"{handle.id}/1/0/c1"]
    assert await observations(journal_url, handle.id) == [{"ok": True, "value": "order 1 of a"}]
    assert "agreed" in (await details(journal_url, handle.id))["approved"]


@pytest.mark.parametrize("way", ["update", "signal"])
async def test_a_denied_effect_counts_and_does_not_run_and_the_model_reads_why(
    client: Client, queue: str, journal_url: str, way: str
) -> None:
    supplier = Supplier()
    async with shop_open(client, queue, journal_url, asking(supplier), Script(*ONE_EFFECT)):
        handle = await begun(client, queue)
        given = answer(await asked(handle), reason="too dear")
        if way == "update":
            assert await handle.execute_update(contracts.DENY, given) == "denied"
        else:
            await handle.signal(contracts.DENY, given)
        end = await ended(handle)
    assert (end.status, end.tool_calls, end.unrun_calls, supplier.orders) == (Status.COMPLETED, 1, (), [])
    (body,) = await observations(journal_url, handle.id)
    assert body["error"] == {"kind": "denied", "message": "a person did not approve this call: too dear"}


async def test_a_rule_asks_for_an_amount_above_its_own_and_lets_the_others_run_at_once(
    client: Client, queue: str, journal_url: str
) -> None:
    paid: list[float] = []

    @tool(needs_approval=ApprovalRule(argument="total", above=50))
    def pay(total: float) -> str:
        """Pay."""
        paid.append(total)
        return "paid"

    agent = Agent(name="buyer", system="Buy.", endpoint="scripted", tools=(pay,))
    calls = [call("at", "pay", total=50), call("above", "pay", total=50.5), call("below", "pay", total=9)]
    async with shop_open(client, queue, journal_url, agent, Script(calls, "Done.")):
        handle = await begun(client, queue)
        question = await asked(handle)
        assert (question.call_id, question.why, paid) == ("above", "total is 50.5, above 50", [50])
        await handle.execute_update(contracts.APPROVE, answer(question))
        end = await ended(handle)
    assert (end.status, end.tool_calls, paid) == (Status.COMPLETED, 3, [50, 50.5, 9])
    assert (await decisions(journal_url, handle.id)).count("held") == 1


async def test_effects_of_a_batch_are_asked_for_one_after_the_other_and_reads_keep_their_place(
    client: Client, queue: str, journal_url: str
) -> None:
    diary = Diary()
    calls = [
        call("r1", "look", at="1"),
        call("c1", "place", sku="a"),
        call("r2", "look", at="2"),
        call("c2", "place", sku="b"),
        call("r3", "look", at="3"),
    ]
    async with shop_open(client, queue, journal_url, diary.agent(), Script(calls, "Done.")):
        handle = await begun(client, queue)
        first = await asked(handle)
        assert (first.call_id, diary.done) == ("c1", ["look 1"])
        early = {"call_id": "c2", "arguments_sha256": first.arguments_sha256}
        assert "c1 waits for approval" in await refusal(handle, contracts.APPROVE, early)
        await handle.execute_update(contracts.DENY, answer(first, reason="not this one"))
        second = await next_question(handle, first)
        assert (second.call_id, diary.done) == ("c2", ["look 1", "look 2"])
        await handle.execute_update(contracts.APPROVE, answer(second))
        end = await ended(handle)
    assert (end.status, end.tool_calls) == (Status.COMPLETED, 5)
    assert diary.done == ["look 1", "look 2", "place b", "look 3"]
    told = [body["ok"] or body["error"]["kind"] for body in await observations(journal_url, handle.id)]
    assert told == [True, "denied", True, True, True]


async def test_an_answer_that_does_not_fit_is_refused_and_the_call_goes_on_waiting(
    client: Client, queue: str, journal_url: str
) -> None:
    supplier, model = Supplier(), Script(*ONE_EFFECT, held=[1, 2])
    async with shop_open(client, queue, journal_url, asking(supplier), model):
        handle = await begun(client, queue)
        await model.asked(1)
        assert "no call of this run waits" in await refusal(handle, contracts.APPROVE, {"call_id": "c1"})
        model.let_go(1)
        question = await asked(handle)
        fits = answer(question)
        for name, given, says in (
            (contracts.APPROVE, fits | {"call_id": "c2"}, "call_id: this call does not wait; c1 waits for approval"),
            (contracts.APPROVE, fits | {"arguments_sha256": "0" * 64}, "arguments_sha256: the call that waits has"),
            (contracts.APPROVE, {"call_id": "c1"}, "arguments_sha256: give at least 8 digits"),
            (contracts.DENY, fits, "reason: say why"),
            (contracts.RESOLVE, fits | {"outcome": "did_not_happen"}, "approve or deny it"),
        ):
            assert says in await refusal(handle, name, given)
            await handle.signal(name, given)
        assert await asked(handle) == question
        assert supplier.orders == []
        await handle.execute_update(contracts.APPROVE, fits)
        await model.asked(2)
        stands = "call_id: this call was answered before (approved); the first answer stands"
        assert await refusal(handle, contracts.APPROVE, fits) == stands
        assert await refusal(handle, contracts.DENY, fits | {"reason": "on second thought"}) == stands
        await handle.signal(contracts.DENY, fits | {"reason": "on second thought"})
        model.let_go(2)
        end = await ended(handle)
        with pytest.raises(RPCError, match="already completed"):
            await handle.execute_update(contracts.APPROVE, fits)
    assert (end.status, len(supplier.orders)) == (Status.COMPLETED, 1)
    kinds = await decisions(journal_url, handle.id)
    assert (kinds.count("answer_refused"), kinds.count("approved"), kinds.count("denied")) == (6, 1, 0)


async def test_an_answer_that_comes_while_the_end_is_recorded_is_told_so(
    client: Client, queue: str, journal_url: str
) -> None:
    supplier, closing, let_go = Supplier(), asyncio.Event(), asyncio.Event()
    async with activities_of(journal_url, asking(supplier), Script(*ONE_EFFECT)) as activities:
        close_run = next(one for one in activities if one.__name__ == contracts.CLOSE_RUN)
        activities.remove(close_run)

        @activity.defn(name=contracts.CLOSE_RUN)
        async def held_close_run(request: contracts.CloseRun) -> None:
            closing.set()
            await let_go.wait()
            await close_run(request)

        async with working(client, queue, [*activities, held_close_run]):
            handle = await begun(client, queue)
            question = await asked(handle)
            await handle.signal(contracts.STOP)
            await closing.wait()
            says = await refusal(handle, contracts.APPROVE, answer(question))
            assert says == "the run has ended with STOP_REQUESTED; nothing can be changed any more"
            await handle.signal(contracts.APPROVE, answer(question))
            let_go.set()
            end = await ended(handle)
    assert (end.status, end.unrun_calls, supplier.orders) == (Status.STOP_REQUESTED, ("c1",), [])


@pytest.mark.parametrize("kind", ["approval", "outcome"])
async def test_a_run_that_asks_goes_on_asking_whatever_is_thrown_at_it(
    client: Client, queue: str, journal_url: str, kind: str
) -> None:
    supplier = Supplier() if kind == "approval" else Supplier(ToolOutcomeUnknown("no reply"))
    agent = asking(supplier) if kind == "approval" else supplier.agent()
    async with shop_open(client, queue, journal_url, agent, Script(*ONE_EFFECT)):
        handle = await begun(client, queue)
        question = await asked(handle)
        for name in ANSWERS:
            for args in WILD.values():
                await handle.signal(name, args=args)
                with pytest.raises(UpdateFailed):
                    await handle.execute_update(name, args=args)
        assert await asked(handle) == question
        if kind == "approval":
            await handle.execute_update(contracts.APPROVE, answer(question))
        else:
            await handle.execute_update(contracts.RESOLVE, answer(question, outcome="did_not_happen"))
        end = await ended(handle)
    assert (end.status, end.tool_calls, len(supplier.orders)) == (Status.COMPLETED, 1, 1)


async def test_a_call_is_approved_by_its_whole_arguments_however_long(
    client: Client, queue: str, journal_url: str
) -> None:
    """The history holds them by their digest only; a rule cannot judge them and has a person asked."""
    supplier = Supplier()
    agent = asking(supplier, needs_approval=ApprovalRule(argument="sku", not_in=("x" * 20_000,)))
    model = Script([call("c1", "place", sku="x" * 20_000)], "Done.")
    async with shop_open(client, queue, journal_url, agent, model):
        handle = await begun(client, queue, context_bytes=100_000)
        question = await asked(handle)
        assert "too long to be judged" in question.why
        await handle.execute_update(contracts.APPROVE, answer(question))
        end = await ended(handle)
    assert (end.status, len(supplier.orders)) == (Status.COMPLETED, 1)
    journal = await Journal.open(journal_url)
    row = await journal.tool_call(handle.id, 1, 0)
    await journal.close()
    assert row.arguments == {"sku": "x" * 20_000}


async def test_an_effect_that_was_approved_and_lost_is_asked_about_once_more(
    client: Client, queue: str, journal_url: str
) -> None:
    supplier = Supplier(ToolOutcomeUnknown("no reply"))
    async with shop_open(client, queue, journal_url, asking(supplier), Script(*ONE_EFFECT)):
        handle = await begun(client, queue)
        first = await asked(handle)
        await handle.execute_update(contracts.APPROVE, answer(first))
        second = await next_question(handle, first)
        assert (second.kind, second.call_id) == ("outcome", "c1")
        assert "resolve it" in await refusal(handle, contracts.APPROVE, answer(second))
        await handle.execute_update(contracts.RESOLVE, answer(second, outcome="happened", result=7))
        end = await ended(handle)
    assert (end.status, end.tool_calls, len(supplier.orders)) == (Status.COMPLETED, 1, 1)


async def test_nobody_is_asked_to_approve_a_call_whose_arguments_do_not_fit(
    client: Client, queue: str, journal_url: str
) -> None:
    supplier = Supplier()
    turns = ([call("c1", "place", sku=7), call("c2", "place", sku="a")], "Done.")
    async with shop_open(client, queue, journal_url, asking(supplier), Script(*turns)):
        handle = await begun(client, queue)
        question = await asked(handle)
        assert question.call_id == "c2"
        await handle.execute_update(contracts.APPROVE, answer(question))
        end = await ended(handle)
    refused, ran = await observations(journal_url, handle.id)
    assert (refused["error"]["kind"], ran["ok"]) == ("invalid_arguments", True)
    assert (end.tool_calls, len(supplier.orders)) == (2, 1)
