"""Messages of any kind to a run at work: what they change, and that none of them can hurt it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError, WorkflowQueryFailedError
from temporalio.client import WorkflowUpdateFailedError as UpdateFailed
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import Worker

from longshift import Agent, contracts, tool, validate_episode
from longshift.limits import Limits
from longshift.status import Status
from longshift.turns import ModelFailure
from longshift.view import StateView
from store.journal import Journal
from tests.workflows.raw_runs import details, ended, given, started, until_waiting
from tests.workflows.running import GIVEN, PARROT, Script, activities_of, call, decisions, shop_open
from workflows.agent_run import AgentRun

pytestmark = pytest.mark.asyncio(loop_scope="session")


def raw(data: bytes, encoding: bytes = b"json/plain") -> RawValue:
    """A payload as no client of ours makes it."""
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


WILD: Mapping[str, list[Any]] = {
    "nothing": [],
    "null": [None],
    "two arguments": ["now", {"mode": "now"}],
    "a number": [-3.5],
    "true": [True],
    "a list": [[{"mode": "now"}]],
    "an empty object": [{}],
    "fields of other types": [{"mode": 7, "reason": {"text": []}, "request_id": 1, "model_calls": "9"}],
    "unknown fields": [{"modus": "now", "wer": "ich"}],
    "200 levels": [raw(b'{"a":' * 200 + b"1" + b"}" * 200)],
    "5000 levels": [raw(b"[" * 5000 + b"]" * 5000)],
    "a lone surrogate": [raw(b'{"reason": "\\ud800", "text": "\\ud800", "request_id": "\\ud800"}')],
    "no number": [raw(b"NaN")],
    "5000 digits": [raw(b"9" * 5000)],
    "a long text": ["x" * 200_000],
    "no JSON": [raw(b'{"mode": "now"')],
    "bytes": [raw(b"\xff\xfe", b"binary/plain")],
    "an unknown encoding": [raw(b"now", b"who/knows")],
    "no encoding": [RawValue(Payload(data=b"now"))],
}
"""What can arrive under any name, from the UI, the command line or a program."""


@pytest.mark.parametrize("name", WILD)
async def test_any_stop_stops_whatever_it_carries(client: Client, queue: str, journal_url: str, name: str) -> None:
    model = Script([call("one", "echo", text="a")], "Done.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue)
        await model.asked(1)
        await handle.signal(contracts.STOP, args=WILD[name])
        model.let_go(1)
        end = await ended(handle)
    assert (end.status, end.model_calls, end.unrun_calls) == (Status.STOP_REQUESTED, 1, ("one",))


ANSWERS = (contracts.APPROVE, contracts.DENY, contracts.RESOLVE)
"""The names of answers to a question, which most runs never ask."""


async def test_a_run_at_which_everything_is_thrown_ends_as_if_nothing_was(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="a")], "Done.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue)
        await model.asked(1)
        for name in ("no_such_signal", contracts.SET_LIMITS, *ANSWERS, contracts.PAUSE, contracts.RESUME):
            for args in WILD.values():
                await handle.signal(name, args=args)
        for name in (contracts.SET_LIMITS, contracts.TELL, *ANSWERS, "no_such_update"):
            for args in WILD.values():
                with pytest.raises(UpdateFailed):
                    await handle.execute_update(name, args=args)
        with pytest.raises(WorkflowQueryFailedError):
            await handle.query("no_such_query")
        model.let_go(1)
        end = await ended(handle)
    assert (end.status, end.answer, end.model_calls, end.tool_calls) == (Status.COMPLETED, "Done.", 2, 1)
    kinds = await decisions(journal_url, queue)
    assert (kinds.count("unknown_signal"), kinds.count("limits_refused")) == (len(WILD), len(WILD))
    assert kinds.count("answer_refused") > len(WILD)  # a flood is counted, not kept


async def test_what_a_message_of_an_unknown_name_or_a_wrong_value_was_stands_in_the_journal(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Done.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue)
        await model.asked(1)
        await handle.signal("abort", {"reason": "please"})
        await handle.signal(contracts.SET_LIMITS, {"model_calls": 1.5})
        await handle.signal(contracts.STOP, {"mode": "graceful", "reason": "at last"})
        model.let_go(1)
        await ended(handle)
    said = await details(journal_url, queue)
    assert "abort" in said["unknown_signal"]
    assert "model_calls" in said["limits_refused"]
    assert "at last" in said["stop"]


async def test_an_update_that_is_refused_names_the_field_and_changes_nothing(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Done.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue)
        await model.asked(1)
        for name, value, field in (
            (contracts.SET_LIMITS, {"model_calls": 12, "seconds": -1}, "seconds"),
            (contracts.SET_LIMITS, {"model_calls": True}, "model_calls"),
            (contracts.SET_LIMITS, {"calls": 3}, "calls"),
            (contracts.TELL, {"text": " "}, "text"),
            (contracts.TELL, {"txt": "hello"}, "txt"),
        ):
            with pytest.raises(UpdateFailed) as refused:
                await handle.execute_update(name, value)
            assert isinstance(refused.value.cause, ApplicationError)
            assert refused.value.cause.type == "MessageRefused"
            assert field in refused.value.cause.message
        seen = await handle.query(contracts.STATE, result_type=StateView)
        model.let_go(1)
        await ended(handle)
    assert seen.limits == Limits()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "input"),
        ([GIVEN, GIVEN], "input"),
        ([None], "input"),
        (["shop"], "input"),
        ([[GIVEN]], "input"),
        ([raw(b"[" * 5000 + b"]" * 5000)], "input"),
        ([raw(b"now", b"who/knows")], "input"),
        ([raw(b'{"agent": "parrot", "task": ' + b'{"a":' * 150 + b"1" + b"}" * 151)], "levels"),
        ([{}], "agent"),
        ([{"agent": 7, "task": "a"}], "agent"),
        ([{"agent": "no-such", "task": "a"}], "agent"),
        ([{"agent": "parrot"}], "task"),
        ([{"agent": "parrot", "task": " "}], "task"),
        ([{"agent": "parrot", "task": "a", "messages": [{"role": "user", "content": "a"}]}], "task"),
        ([{"agent": "parrot", "task": "a", "goal": "b"}], "goal"),
        ([{"agent": "parrot", "task": "a", "endpoint": "no-such"}], "endpoint"),
        ([{"agent": "parrot", "task": "a", "limits": {"model_calls": "8"}}], "limits.model_calls"),
        ([{"agent": "parrot", "task": "a", "limits": {"seconds": -1}}], "limits.seconds"),
        ([{"agent": "parrot", "task": "a", "limits": {"seconds": 1e999}}], "limits.seconds"),
        ([{"agent": "parrot", "messages": [{"role": "tool", "content": "a"}]}], "messages"),
        ([{"agent": "parrot", "messages": [{"role": "assistant", "content": "a"}]}], "messages"),
        ([{"state": {}, "spec": {}}], "state"),
    ],
)
async def test_a_run_started_with_a_wrong_input_fails_at_once_and_names_the_field(
    client: Client, queue: str, journal_url: str, args: list[Any], says: str
) -> None:
    async with shop_open(client, queue, journal_url, PARROT, Script("Done.")):
        handle = await client.start_workflow(contracts.WORKFLOW, args=args, id=queue, task_queue=queue)
        with pytest.raises(WorkflowFailureError) as failed:
            async with asyncio.timeout(20):
                await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == contracts.INPUT_REFUSED
    assert says in failed.value.cause.message
    journal = await Journal.open(journal_url)
    assert await journal.run(queue) is None
    await journal.close()


async def test_a_paused_run_admits_nothing_until_it_is_resumed(client: Client, queue: str, journal_url: str) -> None:
    model = Script([call("one", "echo", text="a")], "Done.")
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue, start_signal=contracts.PAUSE)
        await until_waiting(handle, "paused")
        assert model.requests == []
        await handle.signal(contracts.RESUME)
        end = await ended(handle)
    assert (end.status, end.model_calls) == (Status.COMPLETED, 2)
    kept = [kind for kind in await decisions(journal_url, queue) if kind in ("pause", "held", "resume", "goes_on")]
    assert kept == ["pause", "held", "resume", "goes_on"]


async def test_a_paused_run_can_be_stopped(client: Client, queue: str, journal_url: str) -> None:
    async with shop_open(client, queue, journal_url, PARROT, Script("Done.")):
        handle = await started(client, queue, start_signal=contracts.PAUSE)
        await until_waiting(handle, "paused")
        await handle.signal(contracts.STOP, "no more")
        end = await ended(handle)
    assert (end.status, end.model_calls) == (Status.STOP_REQUESTED, 0)


async def test_the_deadline_of_a_paused_run_still_runs(client: Client, queue: str, journal_url: str) -> None:
    async with shop_open(client, queue, journal_url, PARROT, Script("Done.")):
        handle = await started(client, queue, given(seconds=1.5), start_signal=contracts.PAUSE)
        end = await ended(handle)
    assert (end.status, end.model_calls) == (Status.TIME_LIMIT, 0)


async def test_a_run_that_waits_at_its_limit_goes_on_when_it_is_raised(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="a")], [call("two", "echo", text="b")], "Done.")
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue, given(on_limit="wait", model_calls=1, tool_calls=1))
        await until_waiting(handle, "MODEL_CALL_LIMIT")
        await handle.execute_update(contracts.SET_LIMITS, {"model_calls": 3})
        await until_waiting(handle, "TOOL_LIMIT")
        await handle.signal(contracts.SET_LIMITS, {"tool_calls": 2})
        end = await ended(handle)
    assert (end.status, end.model_calls, end.tool_calls) == (Status.COMPLETED, 3, 2)


async def test_a_stop_during_a_call_ends_a_run_that_would_wait_at_the_limit_its_reply_meets(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="a"), call("two", "echo", text="b")], held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue, given(on_limit="wait", tool_calls=1, seconds=5.0))
        await model.asked(1)
        await handle.signal(contracts.STOP, "enough")
        model.let_go(1)
        end = await ended(handle)
    assert (end.status, end.detail) == (Status.STOP_REQUESTED, "a stop (graceful) was requested: enough")
    assert "held" not in await decisions(journal_url, queue)


async def test_a_limit_lowered_below_what_is_used_ends_the_run_at_its_next_admission(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("one", "echo", text="a")], "Done.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue)
        await model.asked(1)
        await handle.execute_update(contracts.SET_LIMITS, {"model_calls": 1})
        model.let_go(1)
        end = await ended(handle)
    assert (end.status, end.model_calls, end.tool_calls) == (Status.MODEL_CALL_LIMIT, 1, 1)


async def test_a_message_that_came_before_the_answer_is_answered_first(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Done.", "Done, and more.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue)
        await model.asked(1)
        assert await handle.execute_update(contracts.TELL, "And more?") == 1
        model.let_go(1)
        end = await ended(handle)
        with pytest.raises(RPCError, match="already completed"):
            await handle.execute_update(contracts.TELL, "Too late.")
    assert (end.status, end.answer, end.messages) == (Status.COMPLETED, "Done, and more.", 5)


async def test_a_stop_that_comes_with_the_answer_is_recorded_and_the_answer_wins(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Done.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue)
        await model.asked(1)
        await handle.signal(contracts.STOP, "enough")
        model.let_go(1)
        end = await ended(handle)
    assert (end.status, end.answer) == (Status.COMPLETED, "Done.")
    assert "stop" in await decisions(journal_url, queue)


async def test_a_stop_now_during_reads_side_by_side_leaves_a_valid_episode(
    client: Client, queue: str, journal_url: str
) -> None:
    """The second read is done while the first is broken off: its observation may not stand without the other's."""
    first_began = asyncio.Event()

    @tool(kind="read")
    async def look(what: str) -> str:
        """Look at something; the first look never ends."""
        if what == "first":
            first_began.set()
            await asyncio.Event().wait()
        return what

    agent = Agent(name="looker", system="Look.", endpoint="scripted", tools=(look,))
    calls = [call(what, "look", what=what) for what in ("first", "second", "third")]
    async with shop_open(client, queue, journal_url, agent, Script(calls)):
        handle = await started(client, queue, GIVEN.model_copy(update={"agent": "looker"}))
        await first_began.wait()
        async for event in handle.fetch_history_events(wait_new_event=True):
            if event.HasField("activity_task_completed_event_attributes"):
                done = event.activity_task_completed_event_attributes.result.payloads[0].data
                if b'"call_id":"second"' in done:
                    break
        await handle.signal(contracts.STOP, {"mode": "now"})
        end = await ended(handle)
    assert (end.status, end.tool_calls) == (Status.STOP_REQUESTED, 3)
    assert end.unrun_calls == ("first", "second", "third")
    journal = await Journal.open(journal_url)
    messages = [stored.message for stored in await journal.messages(queue)]
    assert await journal.verify_chain(queue) is None
    await journal.close()
    report = validate_episode(messages)
    assert (report.problem, report.unanswered, len(messages)) == (None, end.unrun_calls, end.messages)


async def test_a_cancellation_that_comes_together_with_the_recorded_end_changes_nothing(
    client: Client, queue: str, journal_url: str
) -> None:
    """The journal says COMPLETED by then: so must Temporal."""
    async with activities_of(journal_url, PARROT, Script("Done.")) as activities:
        closing, let_go = asyncio.Event(), asyncio.Event()
        close_run = next(one for one in activities if one.__name__ == contracts.CLOSE_RUN)
        activities.remove(close_run)

        @activity.defn(name=contracts.CLOSE_RUN)
        async def held_close_run(request: contracts.CloseRun) -> None:
            await close_run(request)
            closing.set()
            await let_go.wait()

        async with Worker(client, task_queue=queue, activities=[*activities, held_close_run]):
            async with Worker(client, task_queue=queue, workflows=[AgentRun]):
                handle = await started(client, queue)
                await closing.wait()
            let_go.set()
            async for event in handle.fetch_history_events(wait_new_event=True):
                completed = event.activity_task_completed_event_attributes
                if event.HasField("activity_task_completed_event_attributes") and not completed.result.payloads[0].data:
                    break
            await handle.cancel(reason="too late")
            async with Worker(client, task_queue=queue, workflows=[AgentRun]):
                end = await ended(handle)
    assert (end.status, end.answer) == (Status.COMPLETED, "Done.")


async def test_a_stop_is_heard_during_a_back_off(client: Client, queue: str, journal_url: str) -> None:
    failure = ModelFailure(kind="status", message="scripted: 503", transient=True, retry_after=3000.0)
    async with shop_open(client, queue, journal_url, PARROT, Script(failure)):
        handle = await started(client, queue, given(seconds=4000.0))
        async for event in handle.fetch_history_events(wait_new_event=True):
            if event.timer_started_event_attributes.start_to_fire_timeout.seconds == 3000:
                break
        await handle.signal(contracts.STOP, "enough")
        end = await ended(handle)
    assert (end.status, end.model_calls) == (Status.STOP_REQUESTED, 1)


async def test_the_first_of_two_stops_stands_and_the_second_can_make_it_urgent(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Done.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue)
        await model.asked(1)
        await handle.signal(contracts.STOP, {"reason": "first"})
        await handle.signal(contracts.STOP, {"reason": "second", "mode": "now"})
        end = await ended(handle)
    assert (end.status, end.model_calls, end.messages) == (Status.STOP_REQUESTED, 1, 2)
    assert end.detail == "a stop (now) was requested: first"
    assert (await decisions(journal_url, queue)).count("stop") == 2
