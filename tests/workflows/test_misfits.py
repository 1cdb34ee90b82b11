"""What is none of ours: results of activities that somebody completed by hand, and runs that Temporal began again."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ApplicationError

from client.audit_rebuilding import rebuild
from longshift import contracts
from longshift.agent import Agent
from longshift.contracts import RunResult
from longshift.status import Status
from longshift.tools import tool
from tests.workflows.raw_runs import Handle, ended, started
from tests.workflows.running import GIVEN, PARROT, Script, activities_of, call, shop_open, working
from tests.workflows.suppliers import observations
from tests.workflows.test_audit import audited

pytestmark = pytest.mark.asyncio(loop_scope="session")

MADE: list[str] = []
"""Texts of effects, as they were made."""


@tool(kind="effect")
def post(text: str) -> str:
    """Post a text."""
    MADE.append(text)
    return text


POSTING = PARROT.model_copy(update={"tools": (*PARROT.tools, post), "unknown_outcome": "stop"})
"""An agent that also posts, and that ends where nobody knows whether it did."""


class ByHand:
    """Activities that a worker takes and leaves to be completed by hand, by their ids."""

    def __init__(self, *ids: str) -> None:
        self.taken = {one: asyncio.Event() for one in ids}

    def instead_of(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """The same activity, but for those ids."""

        @activity.defn(name=body.__name__)
        async def either(request: Any) -> Any:
            taken = self.taken.get(activity.info().activity_id)
            if taken is None:
                return await body(body.__annotations__["request"].model_validate(request))
            taken.set()
            return activity.raise_complete_async()

        return either


async def run_by_hand(
    client: Client, queue: str, journal_url: str, model: Script, agent: Agent, **results: Any
) -> Handle:
    """A run that has ended, some of whose activities were completed by hand: their results, by their ids with _ for
    what may stand in no name."""
    given = {one.replace("_", "-", 1).replace("_", "."): result for one, result in results.items()}
    hands = ByHand(*given)
    async with (
        activities_of(journal_url, agent, model) as bodies,
        working(client, queue, [hands.instead_of(body) for body in bodies]),
        asyncio.timeout(60),
    ):
        handle = await started(client, queue)
        for one, result in given.items():
            await hands.taken[one].wait()
            await client.get_async_activity_handle(workflow_id=queue, run_id=None, activity_id=one).complete(result)
        async for _ in handle.fetch_history_events(wait_new_event=True):
            pass  # until it has ended
    return handle


def raw(text: bytes) -> RawValue:
    """A payload that says that it is JSON."""
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=text))


USERS = {"message": {"role": "user", "content": "Hello."}}
CALL = b'{"id":"a","name":"echo","arguments":{"text":1e999}}'


@pytest.mark.parametrize(
    "result",
    [
        {},
        None,
        {"turn": {"reply": USERS}},
        raw(b'{"turn":{"reply":{"message":{"role":"assistant","content":"","calls":[%s]}}}}' % CALL),
        raw(b"{"),
        RawValue(Payload(metadata={"encoding": b"none/known"}, data=b"{}")),
    ],
    ids=["empty", "nothing", "a user's turn", "a number out of range", "no JSON", "an unknown encoding"],
)
async def test_a_model_call_that_was_completed_by_hand_with_no_turn_has_failed(
    client: Client, queue: str, journal_url: str, result: Any
) -> None:
    end = await ended(await run_by_hand(client, queue, journal_url, Script("Done."), PARROT, model_1=result))
    assert (end.status, end.model_calls, end.notes) == (Status.MODEL_FAILED, 1, ())
    assert end.detail.startswith("the result of call_model is none that it gives")


async def test_a_read_that_was_completed_by_hand_with_no_observation_could_not_be_run(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="a")], "Done.")
    handle = await run_by_hand(client, queue, journal_url, model, PARROT, tool_1_0={"observation": USERS})
    assert (await ended(handle)).status is Status.COMPLETED
    [observed] = await observations(journal_url, handle.id)
    assert observed["error"] == {"kind": "unavailable", "message": "echo could not be run"}


async def test_an_effect_that_was_completed_by_hand_with_no_observation_is_settled_by_the_ledger(
    client: Client, queue: str, journal_url: str
) -> None:
    MADE.clear()
    model = Script([call("one", "post", text="a")], "Done.")
    end = await ended(await run_by_hand(client, queue, journal_url, model, POSTING, tool_1_0={}))
    assert (end.status, MADE) == (Status.COMPLETED, ["a"])


async def test_what_the_ledger_knows_is_unknown_where_that_was_completed_by_hand_too(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "post", text="a")], "Done.")
    end = await ended(
        await run_by_hand(client, queue, journal_url, model, POSTING, tool_1_0={}, settle_1_0={"fence": "high"})
    )
    assert (end.status, end.unknown_calls) == (Status.OUTCOME_UNKNOWN, ("one",))
    assert "the result of settle_effect is none that it gives" in end.detail


async def test_a_run_whose_opening_was_completed_by_hand_with_nothing_fails_and_says_so(
    client: Client, queue: str, journal_url: str
) -> None:
    handle = await run_by_hand(client, queue, journal_url, Script("Done."), PARROT, open={})
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == contracts.RESULT_MISFIT
    assert failed.value.cause.message.startswith("the result of open_run is none that it gives")


async def test_a_run_whose_close_was_completed_by_hand_with_something_ends_with_a_note(
    client: Client, queue: str, journal_url: str
) -> None:
    end = await ended(await run_by_hand(client, queue, journal_url, Script("Done."), PARROT, close={}))
    assert (end.status, end.answer) == (Status.COMPLETED, "Done.")
    assert end.notes[-1].startswith("the journal does not hold the end of this run: the result of close_run is none")


@pytest.mark.parametrize(
    ("step", "given", "name"),
    [
        ("model_1", {}, "call_model"),
        ("model_1", RawValue(Payload(metadata={"encoding": b"none/known"}, data=b"{}")), "call_model"),
        ("tool_1_0", {"observation": USERS}, "run_tool"),
        ("open", {}, "open_run"),
        ("close", {}, "close_run"),
    ],
    ids=["a model call", "an unknown encoding", "an effect", "the opening", "the end"],
)
async def test_an_audit_names_the_result_that_was_given_by_hand_and_checks_the_rest(
    client: Client, queue: str, journal_url: str, step: str, given: Any, name: str
) -> None:
    model = Script([call("one", "post", text="a")], "Done.")
    await run_by_hand(client, queue, journal_url, model, POSTING, **{step: given})
    found = await audited(client, journal_url, queue)
    assert list(found) == ["history"]
    activity_id = step.replace("_", "-", 1).replace("_", ".")
    why = f"the result of {activity_id} is none that {name} gives, as where it was completed by hand: event "
    assert why in found["history"]
    if step != "open":  # without which no journal holds anything
        assert not (await rebuild(client, journal_url, queue)).changed


@pytest.mark.parametrize(
    "again",
    [
        {"cron_schedule": "@every 1s"},
        {"retry_policy": RetryPolicy(maximum_attempts=2), "run_timeout": timedelta(seconds=1)},
    ],
    ids=["a cron schedule", "a retry policy"],
)
async def test_the_second_run_of_a_start_that_temporal_repeats_is_refused(
    client: Client, queue: str, journal_url: str, again: dict[str, Any]
) -> None:
    held = [1] if "retry_policy" in again else []
    async with shop_open(client, queue, journal_url, PARROT, Script("Done.", held=held)):
        first = await client.start_workflow(contracts.WORKFLOW, GIVEN, id=queue, task_queue=queue, **again)
        async with asyncio.timeout(30):
            second = await next_run(client, first.id, first.first_execution_run_id)
            refused = [event async for event in second.fetch_history_events(wait_new_event=True)][-1]
        if "cron_schedule" in again:
            await client.get_workflow_handle(queue).terminate()
    failure = refused.workflow_execution_failed_event_attributes.failure
    assert failure.application_failure_info.type == contracts.INPUT_REFUSED
    assert "without a cron schedule and without a retry policy" in failure.message


async def next_run(client: Client, run_id: str, first: str | None) -> Handle:
    """The run that Temporal begins after another one, which is waited for."""
    handle = client.get_workflow_handle(run_id, run_id=first)
    events = [event async for event in handle.fetch_history_events(wait_new_event=True)]
    completed = events[-1].workflow_execution_completed_event_attributes.new_execution_run_id
    timed_out = events[-1].workflow_execution_timed_out_event_attributes.new_execution_run_id
    return client.get_workflow_handle(run_id, run_id=completed or timed_out, result_type=RunResult)
