"""The deadline of a run: it holds whatever is out, and a moved one holds at once."""

import asyncio

import pytest
from temporalio.client import Client

from longshift import contracts
from longshift.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from longshift.observations import ok
from longshift.run_input import RunInput
from longshift.status import Status
from longshift.turns import ModelFailure
from tests.workflows.raw_runs import ended, given, started
from tests.workflows.running import PARROT, Script, call, shop_open

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def until_past(seconds: float) -> None:
    """Wait until a real deadline is over: nothing happens then that could be waited for, which is the point."""
    await asyncio.sleep(seconds)


async def test_a_deadline_that_is_raised_while_a_call_is_out_lets_the_call_go_on(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="a")], "Done.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue, given(seconds=2.0))
        await model.asked(1)
        await handle.execute_update(contracts.SET_LIMITS, {"seconds": 60.0})
        await until_past(2.5)
        model.let_go(1)
        end = await ended(handle)
    assert (end.status, end.model_calls, len(model.requests)) == (Status.COMPLETED, 2, 2)


async def test_a_deadline_that_is_lowered_while_a_call_is_out_ends_the_run_at_once(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Done.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue, given(seconds=600.0))
        await model.asked(1)
        await handle.execute_update(contracts.SET_LIMITS, {"seconds": 0.1})
        end = await ended(handle)
    assert (end.status, end.model_calls, end.messages) == (Status.TIME_LIMIT, 1, 2)


async def test_a_deadline_that_is_lowered_during_a_back_off_ends_it(
    client: Client, queue: str, journal_url: str
) -> None:
    busy = ModelFailure(kind="status", message="scripted: 503", transient=True, retry_after=3000.0)
    async with shop_open(client, queue, journal_url, PARROT, Script(busy)):
        handle = await started(client, queue, given(seconds=4000.0))
        async for event in handle.fetch_history_events(wait_new_event=True):
            if event.timer_started_event_attributes.start_to_fire_timeout.seconds == 3000:
                break
        await handle.execute_update(contracts.SET_LIMITS, {"seconds": 0.1})
        end = await ended(handle)
    assert (end.status, end.model_calls) == (Status.TIME_LIMIT, 1)


async def test_a_deadline_that_is_raised_before_any_worker_is_up_holds_for_the_opening_too(
    client: Client, queue: str, journal_url: str
) -> None:
    handle = await started(client, queue, given(seconds=0.5))
    await handle.signal(contracts.SET_LIMITS, {"seconds": 60.0})
    await until_past(1.0)
    async with shop_open(client, queue, journal_url, PARROT, Script("Done.")):
        end = await ended(handle)
    assert end.status is Status.COMPLETED


async def test_a_message_that_waited_for_a_worker_is_answered_and_one_too_late_is_named(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="a")], "Done.", held=[1])
    handle = await started(client, queue, given(model_calls=1))
    await handle.signal(contracts.TELL, {"text": "Early.", "request_id": "1"})
    await handle.signal(contracts.TELL, {"text": "Early.", "request_id": "1"})
    await handle.signal(contracts.TELL, {"text": " "})
    async with shop_open(client, queue, journal_url, PARROT, model):
        await model.asked(1)
        sent = await model.requests[0].messages()
        await handle.execute_update(contracts.TELL, "Late.")
        model.let_go(1)
        end = await ended(handle)
    assert [message.content for message in sent if message.role == "user"] == ["Say something.", "Early."]
    assert end.status is Status.MODEL_CALL_LIMIT
    assert [note for note in end.notes if note.endswith("went unanswered: Late.")] == [end.notes[-1]]


async def test_an_id_of_ours_is_none_of_the_transcript_that_a_run_goes_on_from(
    client: Client, queue: str, journal_url: str
) -> None:
    asked = ToolCall(id="ls-1-0", name="echo", arguments={"text": "a"})
    opening = (
        UserMessage(content="Say a."),
        AssistantMessage(content="", calls=(asked,)),
        ToolMessage(call_id=asked.id, name=asked.name, content=ok("a")),
    )
    model = Script("Done.")
    async with shop_open(client, queue, journal_url, PARROT, model):
        await ended(await started(client, queue, RunInput(agent="parrot", messages=opening)))
    mine = model.requests[0].own_id(0)
    assert mine != asked.id
    assert mine != model.requests[0].own_id(1)
