"""Runs that wait for a person: what holds meanwhile, where people see it, and what the wait outlives."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from longshift import contracts
from longshift.questions import Question
from longshift.run_input import RunInput
from longshift.status import Status
from longshift.view import StateView
from tests.workflows.raw_runs import Handle, ended, started, until, until_waiting
from tests.workflows.running import Script, call, decisions, shop_open
from tests.workflows.suppliers import (
    ONE_EFFECT,
    Diary,
    Supplier,
    answer,
    asked,
    asking,
    begun,
    concluded,
    next_question,
    refusal,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def memo(handle: Handle) -> Mapping[str, Any]:
    """The run's memo, for which no worker is needed."""
    return await (await handle.describe()).memo()


async def memo_with(handle: Handle, fits: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
    """The memo of a run, once it fits."""

    async def look() -> Mapping[str, Any] | None:
        seen = await memo(handle)
        return seen if fits(seen) else None

    found = await until(look)
    assert found is not None
    return found


async def test_an_approval_given_while_the_run_is_paused_counts_once_it_is_resumed(
    client: Client, queue: str, journal_url: str
) -> None:
    supplier = Supplier()
    async with shop_open(client, queue, journal_url, asking(supplier), Script(*ONE_EFFECT)):
        handle = await begun(client, queue)
        question = await asked(handle)
        await handle.signal(contracts.PAUSE)
        await until_waiting(handle, "paused")
        assert (await memo(handle))["question"]["call_id"] == "c1"
        await handle.execute_update(contracts.APPROVE, answer(question))
        seen = await memo_with(handle, lambda memo: "question" not in memo)
        assert (seen["status"], seen["detail"].startswith("paused"), supplier.orders) == ("WAITING", True, [])
        assert "answered before" in await refusal(handle, contracts.DENY, answer(question, reason="no"))
        await handle.signal(contracts.RESUME)
        end = await ended(handle)
    assert (end.status, len(supplier.orders)) == (Status.COMPLETED, 1)


async def test_a_run_resumed_before_an_effect_says_that_it_waits_for_approval(
    client: Client, queue: str, journal_url: str
) -> None:
    """What it waits for has changed meanwhile: the memo, which a list shows, and the journal say so."""
    supplier, model = Supplier(), Script(*ONE_EFFECT, held=[1])
    async with shop_open(client, queue, journal_url, asking(supplier), model):
        handle = await begun(client, queue)
        await model.asked(1)
        await handle.signal(contracts.PAUSE)
        model.let_go(1)
        await until_waiting(handle, "paused")
        await handle.signal(contracts.RESUME)
        seen = await memo_with(handle, lambda memo: "approval of place" in memo["detail"])
        assert seen["question"]["call_id"] == "c1"
        await handle.signal(contracts.STOP)
        end = await ended(handle)
    assert (end.status, supplier.orders) == (Status.STOP_REQUESTED, [])
    assert (await decisions(journal_url, handle.id)).count("held") == 2


ENDS: Mapping[str, tuple[Callable[[Handle], Any], dict[str, Any], Status]] = {
    "a stop": (lambda handle: handle.signal(contracts.STOP), {}, Status.STOP_REQUESTED),
    "a stop now": (lambda handle: handle.signal(contracts.STOP, {"mode": "now"}), {}, Status.STOP_REQUESTED),
    "a lower limit": (
        lambda handle: handle.execute_update(contracts.SET_LIMITS, {"tool_calls": 1}),
        {},
        Status.TOOL_LIMIT,
    ),
    "the deadline": (lambda handle: asyncio.sleep(0), {"seconds": 3}, Status.TIME_LIMIT),
    "a cancellation": (lambda handle: handle.cancel(), {}, Status.STOP_REQUESTED),
}


@pytest.mark.parametrize("name", ENDS)
async def test_a_call_that_was_never_approved_never_runs_and_never_counts(
    client: Client, queue: str, journal_url: str, name: str
) -> None:
    do, limits, status = ENDS[name]
    diary = Diary()
    calls = [call("r1", "look", at="1"), call("c1", "place", sku="a"), call("r2", "look", at="2")]
    async with shop_open(client, queue, journal_url, diary.agent(), Script(calls, "Done.")):
        handle = await begun(client, queue, **limits)
        await asked(handle)
        await do(handle)
        end = await ended(handle) if name != "a cancellation" else await concluded(handle)
    assert (end.status, end.tool_calls, diary.done) == (status, 1, ["look 1"])
    assert (end.unrun_calls, end.unknown_calls) == (("c1", "r2"), ())


async def test_what_a_run_asks_stands_where_people_look_while_it_asks_and_not_after(
    client: Client, queue: str, journal_url: str
) -> None:
    supplier, model = Supplier(), Script(*ONE_EFFECT, held=[2])
    async with shop_open(client, queue, journal_url, asking(supplier), model):
        handle = await begun(client, queue)
        question = await asked(handle)
        waits = (await handle.query(contracts.STATE, result_type=StateView)).waiting_for or ""
        reason = 'approval of place {"sku":"a"} (place always needs approval)'
        assert waits.startswith(reason)
        assert waits.endswith(f"longshift approve or deny {handle.id} c1")
        metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        assert reason in metadata.current_details
        assert f"longshift approve {handle.id} c1\nlongshift deny {handle.id} c1 " in metadata.current_details
        assert f'"arguments_sha256":"{question.arguments_sha256[:16]}"' in metadata.current_details
    asked_of = await memo(handle)  # no worker is up
    assert (asked_of["status"], asked_of["detail"]) == ("WAITING", waits)
    assert Question.model_validate(asked_of["question"]) == question
    async with shop_open(client, queue, journal_url, asking(supplier), model):
        await handle.execute_update(contracts.APPROVE, answer(question))
        await model.asked(2)
        goes_on = await memo(handle)
        assert (goes_on["status"], goes_on["detail"], "question" in goes_on) == ("RUNNING", "", False)
        metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        assert "approve" not in metadata.current_details
        model.let_go(2)
        end = await ended(handle)
    assert (end.status, len(supplier.orders)) == (Status.COMPLETED, 1)
    assert "question" not in await memo(handle)


@pytest.mark.parametrize("name", [contracts.APPROVE, contracts.DENY])
async def test_an_answer_sent_while_no_worker_is_up_counts_with_the_next(
    client: Client, queue: str, journal_url: str, name: str
) -> None:
    supplier, model = Supplier(), Script(*ONE_EFFECT)
    async with shop_open(client, queue, journal_url, asking(supplier), model):
        handle = await begun(client, queue)
        question = await asked(handle)
    await handle.signal(name, answer(question, reason="I looked"))
    await handle.signal(contracts.DENY, answer(question, reason="too late"))
    async with shop_open(client, queue, journal_url, asking(supplier), model):
        end = await ended(handle)
    approved = name == contracts.APPROVE
    assert (end.status, end.tool_calls, len(supplier.orders)) == (Status.COMPLETED, 1, int(approved))
    kinds = await decisions(journal_url, handle.id)
    answers = [kind for kind in kinds if kind in ("approved", "denied", "answer_refused")]
    assert answers == ["approved" if approved else "denied", "answer_refused"]


async def test_approvals_are_asked_for_and_answers_remembered_across_the_parts_of_a_run(
    rolling_server: WorkflowEnvironment, queue: str, journal_url: str
) -> None:
    client, supplier = rolling_server.client, Supplier()
    turns = [[call(f"c{number}", "place", sku=str(number))] for number in range(1, 7)]
    limits = {"model_calls": 20, "seconds": 600.0}
    async with shop_open(client, queue, journal_url, asking(supplier), Script(*turns, "Done.")):
        handle = await started(client, queue, RunInput(agent="buyer", task="Order.", limits=limits))
        chain = client.get_workflow_handle(queue, result_type=type(None))
        question = await asked(chain)
        first = question
        for number in range(1, 7):
            assert question.call_id == f"c{number}"
            if number > 1:
                assert "answered before (approved)" in await refusal(chain, contracts.APPROVE, answer(first))
            await chain.execute_update(contracts.APPROVE, answer(question))
            if number < 6:
                question = await next_question(chain, question)
        end = await ended(handle)
    assert (end.status, end.tool_calls) == (Status.COMPLETED, 6)
    assert supplier.orders == [f"{queue}/{number}/0/c{number}" for number in range(1, 7)]
    parts = [part.run_id async for part in client.list_workflows(f"WorkflowId = '{queue}'")]
    assert len(parts) > 1
