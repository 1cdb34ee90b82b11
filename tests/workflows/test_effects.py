"""Effects whose outcome does not come back: settled with the ledger, asked for, told, or the end; never made twice."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client

from longshift import Agent, ToolOutcomeUnknown, contracts, tool
from longshift.contracts import RunTool
from longshift.messages import ToolMessage
from longshift.observations import ok, read
from longshift.run_input import RunInput
from longshift.status import Status
from store.journal import Journal
from store.tool_calls import Observed
from tests.workflows.raw_runs import Handle, ended, started, until, until_waiting
from tests.workflows.running import Script, call, decisions
from tests.workflows.suppliers import ONE_EFFECT, Supplier, answer, asked, begun, concluded, losing, observations

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_completion_that_was_lost_is_found_in_the_ledger(client: Client, queue: str, journal_url: str) -> None:
    supplier, model = Supplier(), Script(*ONE_EFFECT)
    async with losing(client, queue, journal_url, supplier.agent(), model, {("c1", 0): "after"}):
        handle = await begun(client, queue)
        end = await ended(handle)
    assert (end.status, end.tool_calls, end.unknown_calls) == (Status.COMPLETED, 1, ())
    assert await observations(journal_url, handle.id) == [{"ok": True, "value": "order 1 of a"}]
    assert supplier.orders == [f"{handle.id}/1/0/c1"]


async def test_the_work_of_an_effect_whose_completion_was_lost_counts_once(
    client: Client, queue: str, journal_url: str
) -> None:
    """What the journal says that the handler took is part of the time that the workflow saw go by."""

    at_work, let_go = asyncio.Event(), asyncio.Event()

    @tool(timeout_seconds=30)
    async def place(sku: str) -> str:
        """Order one, once it is let go."""
        at_work.set()
        await let_go.wait()
        return sku

    agent = Agent(name="buyer", system="Buy.", endpoint="scripted", tools=(place,))
    async with losing(client, queue, journal_url, agent, Script(*ONE_EFFECT), {("c1", 0): "after"}):
        handle = await begun(client, queue)
        await at_work.wait()
        await handle.describe()
        let_go.set()
        end = await ended(handle)
    task = began = over = 0.0  # when the latest workflow task began, the one that scheduled the effect, and the one
    failed = False  # that learned that it brought nothing
    async for event in handle.fetch_history_events():
        if event.HasField("workflow_task_started_event_attributes"):
            task = event.event_time.ToNanoseconds() / 1e9
            over = over or (task if failed else 0.0)
        elif event.activity_task_scheduled_event_attributes.activity_id == "tool-1.0":
            began, failed = task, False
        elif event.HasField("activity_task_failed_event_attributes"):
            failed = True
    journal = await Journal.open(journal_url)
    models = [row.milliseconds or 0 for row in await journal.model_calls(handle.id)]
    (effect,) = [row.milliseconds or 0 for row in await journal.tool_calls(handle.id)]
    await journal.close()
    saw = int((over - began) * 1000)
    assert effect > 0
    assert round(end.working_seconds * 1000) == sum(models) + max(saw, effect)


async def test_a_dispatch_that_never_began_is_fenced_and_made_afresh(
    client: Client, queue: str, journal_url: str
) -> None:
    supplier, model = Supplier(), Script(*ONE_EFFECT)
    async with losing(client, queue, journal_url, supplier.agent(), model, {("c1", 0): "before", ("c1", 1): "before"}):
        handle = await begun(client, queue)
        end = await ended(handle)
    assert (end.status, end.tool_calls) == (Status.COMPLETED, 1)
    assert await observations(journal_url, handle.id) == [{"ok": True, "value": "order 1 of a"}]
    assert len(supplier.orders) == 1


async def test_an_idempotent_effect_is_dispatched_again_under_the_same_operation_id(
    client: Client, queue: str, journal_url: str
) -> None:
    supplier = Supplier(ToolOutcomeUnknown("no reply"), ConnectionResetError("dropped"))
    async with losing(client, queue, journal_url, supplier.agent(idempotent=True), Script(*ONE_EFFECT), {}):
        handle = await begun(client, queue)
        end = await ended(handle)
    assert (end.status, end.tool_calls) == (Status.COMPLETED, 1)
    assert await observations(journal_url, handle.id) == [{"ok": True, "value": "order 3 of a"}]
    assert supplier.orders == [f"{handle.id}/1/0/c1"] * 3


async def test_an_effect_that_may_have_happened_is_never_said_to_be_unavailable(
    client: Client, queue: str, journal_url: str
) -> None:
    """It is dispatched again, to a worker that has no such tool, and once more to one that has it."""
    supplier = Supplier(ToolOutcomeUnknown("no reply"))
    lose = {("c1", 1): "no tool"}
    async with losing(client, queue, journal_url, supplier.agent(idempotent=True), Script(*ONE_EFFECT), lose):
        handle = await begun(client, queue)
        end = await ended(handle)
    assert (end.status, end.tool_calls, end.unknown_calls) == (Status.COMPLETED, 1, ())
    assert await observations(journal_url, handle.id) == [{"ok": True, "value": "order 2 of a"}]
    assert supplier.orders == [f"{handle.id}/1/0/c1"] * 2


async def test_a_read_that_became_an_effect_meanwhile_is_not_run(client: Client, queue: str, journal_url: str) -> None:
    """The run recorded a read, which needs no approval; the tool of the worker that goes on with it is an effect."""

    @tool(name="place", kind="read")
    def look(sku: str) -> str:
        """Look for one."""
        return sku

    supplier, before = Supplier(), Supplier().agent()
    model = Script(*ONE_EFFECT)
    async with losing(client, queue, journal_url, before.model_copy(update={"tools": (look,)}), model, {}):
        handle = await started(client, queue, RunInput(agent="buyer", task="Order."), start_signal=contracts.PAUSE)
        await until_waiting(handle, "paused")
    async with losing(client, queue, journal_url, supplier.agent(), model, {}):
        await handle.signal(contracts.RESUME)
        end = await ended(handle)
    assert (end.status, supplier.orders) == (Status.COMPLETED, [])
    (body,) = await observations(journal_url, handle.id)
    assert body["error"]["kind"] == "unavailable"
    assert "is an effect now" in body["error"]["message"]


async def test_an_effect_of_which_no_worker_has_the_tool_is_unavailable(
    client: Client, queue: str, journal_url: str
) -> None:
    supplier = Supplier()
    async with losing(client, queue, journal_url, supplier.agent(), Script(*ONE_EFFECT), {("c1", 0): "no tool"}):
        handle = await begun(client, queue)
        end = await ended(handle)
    assert (end.status, end.tool_calls, supplier.orders) == (Status.COMPLETED, 1, [])
    assert [body["error"]["kind"] for body in await observations(journal_url, handle.id)] == ["unavailable"]


RESOLUTIONS: Mapping[str, tuple[dict[str, Any], Status, list[Any]]] = {
    "it happened": ({"outcome": "happened", "result": {"order": 7}, "reason": "on the bill"}, Status.COMPLETED, [True]),
    "it happened, with no result": ({"outcome": "happened", "result": None}, Status.COMPLETED, [True]),
    "it did not happen": ({"outcome": "did_not_happen"}, Status.COMPLETED, ["not_executed"]),
    "stop": ({"outcome": "stop", "reason": "no one knows"}, Status.OUTCOME_UNKNOWN, []),
}


@pytest.mark.parametrize("name", RESOLUTIONS)
async def test_a_person_resolves_an_unknown_outcome(client: Client, queue: str, journal_url: str, name: str) -> None:
    fields, status, told = RESOLUTIONS[name]
    supplier = Supplier(ToolOutcomeUnknown("the supplier hung up"))
    async with losing(client, queue, journal_url, supplier.agent(), Script(*ONE_EFFECT), {}):
        handle = await begun(client, queue)
        question = await asked(handle)
        assert (question.kind, question.call_id, question.arguments) == ("outcome", "c1", '{"sku":"a"}')
        assert "the supplier hung up" in question.why
        await handle.execute_update(contracts.RESOLVE, answer(question, **fields))
        end = await ended(handle)
    assert end.status is status
    assert len(supplier.orders) == 1
    seen = await observations(journal_url, handle.id)
    assert [body["ok"] or body["error"]["kind"] for body in seen] == told
    assert end.unknown_calls == (("c1",) if name == "stop" else ())
    if "result" in fields:
        assert seen[0]["value"] == fields["result"]
        assert "a person found" in seen[0]["note"]


@pytest.mark.parametrize(
    ("policy", "status", "kinds", "unknown"),
    [("tell", Status.COMPLETED, ["outcome_unknown"], ()), ("stop", Status.OUTCOME_UNKNOWN, [], ("c1",))],
)
async def test_the_policy_says_what_becomes_of_an_unknown_outcome(
    client: Client, queue: str, journal_url: str, policy: str, status: Status, kinds: Sequence[str], unknown: Any
) -> None:
    supplier = Supplier(ToolOutcomeUnknown("no reply"))
    agent = supplier.agent(unknown_outcome=policy)
    async with losing(client, queue, journal_url, agent, Script(*ONE_EFFECT), {}):
        handle = await begun(client, queue)
        end = await ended(handle)
    assert (end.status, end.unknown_calls, len(supplier.orders)) == (status, unknown, 1)
    assert [body["error"]["kind"] for body in await observations(journal_url, handle.id)] == kinds


ENDS: Mapping[str, tuple[Callable[[Handle], Any], dict[str, Any], Status]] = {
    "a stop": (lambda handle: handle.signal(contracts.STOP), {}, Status.STOP_REQUESTED),
    "the deadline": (lambda handle: asyncio.sleep(0), {"seconds": 3}, Status.TIME_LIMIT),
    "a cancellation": (lambda handle: handle.cancel(), {}, Status.STOP_REQUESTED),
}


@pytest.mark.parametrize("name", ENDS)
async def test_a_stop_and_the_deadline_hold_while_a_person_is_asked_what_came_of_an_effect(
    client: Client, queue: str, journal_url: str, name: str
) -> None:
    do, limits, status = ENDS[name]
    supplier = Supplier(ToolOutcomeUnknown("no reply"))
    async with losing(client, queue, journal_url, supplier.agent(), Script(*ONE_EFFECT), {}):
        handle = await begun(client, queue, **limits)
        await asked(handle)
        await do(handle)
        end = await ended(handle) if name != "a cancellation" else await concluded(handle)
    assert (end.status, end.unrun_calls, end.unknown_calls) == (status, ("c1",), ("c1",))


async def test_what_a_person_found_is_kept_though_a_stop_came_with_it(
    client: Client, queue: str, journal_url: str
) -> None:
    """Both wait for a worker, and reach the run in one task, whichever was sent first."""
    supplier = Supplier(ToolOutcomeUnknown("no reply"))
    async with losing(client, queue, journal_url, supplier.agent(), Script(*ONE_EFFECT), {}):
        handle = await begun(client, queue)
        question = await asked(handle)
    await handle.signal(contracts.STOP, {"mode": "now"})
    await handle.signal(contracts.RESOLVE, answer(question, outcome="happened", result="on the bill"))
    async with losing(client, queue, journal_url, supplier.agent(), Script(*ONE_EFFECT), {}):
        end = await ended(handle)
    assert (end.status, end.unrun_calls, end.unknown_calls) == (Status.STOP_REQUESTED, (), ())
    assert [body["value"] for body in await observations(journal_url, handle.id)] == ["on the bill"]


async def test_an_effect_whose_handler_may_still_be_at_work_is_waited_for(
    client: Client, queue: str, journal_url: str
) -> None:
    """Its row stands as started: nobody is asked before its tool's time is over, and what comes meanwhile counts."""
    supplier, model = Supplier(), Script(*ONE_EFFECT, held=[1])
    agent = supplier.agent(timeout_seconds=20)
    async with losing(client, queue, journal_url, agent, model, {("c1", 0): "before"}):
        handle = await begun(client, queue)
        await model.asked(1)
        async with late_worker(journal_url, handle.id) as settle:
            model.let_go(1)
            await until(
                partial(pending, handle, contracts.SETTLE_EFFECT, PendingActivityState.PENDING_ACTIVITY_STATE_STARTED)
            )
            told = await settle()
        end = await ended(handle)
    assert end.status is Status.COMPLETED
    assert await observations(journal_url, handle.id) == [told]
    assert "held" not in await decisions(journal_url, handle.id)
    assert supplier.orders == []


async def test_the_word_of_a_late_worker_comes_before_a_person_s(client: Client, queue: str, journal_url: str) -> None:
    supplier = Supplier(ToolOutcomeUnknown("no reply"))
    async with losing(client, queue, journal_url, supplier.agent(), Script(*ONE_EFFECT), {}):
        handle = await begun(client, queue)
        question = await asked(handle)
        async with late_worker(journal_url, handle.id) as settle:
            told = await settle()
        await handle.execute_update(contracts.RESOLVE, answer(question, outcome="did_not_happen"))
        end = await ended(handle)
    assert end.status is Status.COMPLETED
    assert await observations(journal_url, handle.id) == [told]


@asynccontextmanager
async def late_worker(journal_url: str, run_id: str) -> AsyncIterator[Callable[[], Awaitable[dict[str, Any]]]]:
    """A worker that began the effect of ONE_EFFECT and is cut off from the server; given is how it settles it."""
    journal = await Journal.open(journal_url)
    request = RunTool(run_id=run_id, model_call=1, position=0, call=call("c1", "place", sku="a"))
    await journal.begin_effect(request, "late", time.time(), again=False)

    async def settle() -> dict[str, Any]:
        message = ToolMessage(call_id="c1", name="place", content=ok("the truth"))
        observed = Observed(message, 1, fatal=False)
        await journal.settle_tool_call(request, "effect", "late", observed, time.time(), time.time())
        return read(message.content)

    try:
        yield settle
    finally:
        await journal.close()


async def pending(handle: Handle, activity_name: str, state: "PendingActivityState.ValueType") -> bool:
    """Whether a run waits for an activity that is in this state."""
    waited_for = (await handle.describe()).raw_description.pending_activities
    return any(one.activity_type.name == activity_name and one.state == state for one in waited_for)


ENDING: Mapping[str, dict[str, Any]] = {
    "a stop now": {},
    "the deadline": {},
    "its working seconds": {"working_seconds": 0.1},
}
"""What would end a run, and the limits for it."""


@pytest.mark.parametrize("how", ENDING)
async def test_an_effect_in_flight_is_left_to_finish(client: Client, queue: str, journal_url: str, how: str) -> None:
    at_work, go_on = asyncio.Event(), asyncio.Event()

    @tool(timeout_seconds=20)
    async def place(sku: str) -> str:
        """Order one."""
        at_work.set()
        await go_on.wait()
        return f"ordered {sku}"

    agent = Agent(name="buyer", system="Buy.", endpoint="scripted", tools=(place,))
    async with losing(client, queue, journal_url, agent, Script(*ONE_EFFECT), {}):
        handle = await begun(client, queue, **ENDING[how])
        await at_work.wait()
        if how == "a stop now":
            await handle.signal(contracts.STOP, {"mode": "now"})
        if how == "the deadline":
            await handle.execute_update(contracts.SET_LIMITS, {"seconds": 1})
        if how == "its working seconds":
            late = time.monotonic() + 1
            await until(partial(passed, late))
        else:  # the request to cancel it has reached the activity, which does not heed it
            cancelled = PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED
            await until(partial(pending, handle, contracts.RUN_TOOL, cancelled))
        go_on.set()
        end = await ended(handle)
    expected = Status.STOP_REQUESTED if how == "a stop now" else Status.TIME_LIMIT
    assert (end.status, end.unrun_calls, end.unknown_calls) == (expected, (), ())
    assert await observations(journal_url, handle.id) == [{"ok": True, "value": "ordered a"}]


async def passed(moment: float) -> bool:
    """Whether a moment of the monotonic clock has passed."""
    return time.monotonic() >= moment


async def test_a_worker_that_ends_breaks_off_an_effect_that_heeded_no_stop(
    client: Client, queue: str, journal_url: str
) -> None:
    at_work, broken_off = asyncio.Event(), asyncio.Event()

    @tool(timeout_seconds=600)
    async def place(sku: str) -> None:
        """Order one, for ever."""
        at_work.set()
        try:
            await asyncio.Event().wait()
        finally:
            broken_off.set()

    agent = Agent(name="buyer", system="Buy.", endpoint="scripted", tools=(place,))
    async with asyncio.timeout(60):
        async with losing(client, queue, journal_url, agent, Script(*ONE_EFFECT), {}):
            handle = await begun(client, queue)
            await at_work.wait()
            await handle.signal(contracts.STOP, {"mode": "now"})
            cancelled = PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED
            await until(partial(pending, handle, contracts.RUN_TOOL, cancelled))
            assert not broken_off.is_set()
    assert broken_off.is_set()


@pytest.mark.slow
async def test_what_a_thread_does_past_its_time_is_settled_late_and_comes_before_a_person_s_word(
    client: Client, queue: str, journal_url: str
) -> None:
    go_on = threading.Event()

    @tool(timeout_seconds=0.5)
    def place(sku: str) -> str:
        """Order one, and take long."""
        go_on.wait(60)
        return f"ordered {sku}"

    agent = Agent(name="buyer", system="Buy.", endpoint="scripted", tools=(place,))
    async with losing(client, queue, journal_url, agent, Script(*ONE_EFFECT), {}):
        handle = await begun(client, queue)
        question = await asked(handle)
        go_on.set()
        await until(partial(settled, journal_url, handle.id))
        await handle.execute_update(contracts.RESOLVE, answer(question, outcome="did_not_happen"))
        end = await ended(handle)
    assert end.status is Status.COMPLETED
    assert await observations(journal_url, handle.id) == [{"ok": True, "value": "ordered a"}]


async def settled(journal_url: str, run_id: str) -> bool:
    """Whether the ledger holds the outcome of a run's one effect."""
    journal = await Journal.open(journal_url)
    (row,) = await journal.tool_calls(run_id)
    await journal.close()
    return row.state == "settled"
