"""Workers that come back late, resets, and two workers at once: the workflow stays the authority."""

import asyncio

import pytest

from longshift.contracts import Decision, Entry
from longshift.memory import Memory
from longshift.messages import AssistantMessage
from longshift.status import Status
from longshift.turns import ModelFailure
from store.errors import JournalMismatch
from store.journal import Answered, Failed, Fresh, Journal, Lost, Observed
from tests.store.shift import Shift, call, tool_message

pytestmark = pytest.mark.asyncio

SEEN = '{"ok":true,"value":6}'
LATE = AssistantMessage(content="This comes too late.")


async def test_a_late_answer_never_gets_into_the_transcript(shift: Shift, journal: Journal) -> None:
    late = shift.request()
    assert await shift.begin(late) == Fresh()
    shift.number = 1  # the workflow gave it up and admitted another
    await shift.turn("In time.")
    assert await shift.settle(late, LATE)
    await shift.close()
    assert [m.message for m in await journal.messages("shift-1")] == shift.messages
    assert LATE not in shift.messages
    assert [row.state for row in await journal.model_calls("shift-1")] == ["answered", "answered"]


async def test_a_worker_that_settles_a_lost_call_is_told_that_it_came_late(shift: Shift, journal: Journal) -> None:
    request = shift.request()
    await shift.begin(request)
    lost = await shift.begin(request)
    assert isinstance(lost, Lost)
    failure = ModelFailure(kind="timeout", message="late", transient=True)
    assert not await shift.settle(request, LATE)
    assert not await journal.fail_model_call(request, failure, 1010.0)
    assert await shift.begin(request) == Failed(lost.failure)


async def test_the_first_outcome_of_a_call_stands(shift: Shift, journal: Journal) -> None:
    request = shift.request()
    await shift.turn("First.")
    assert not await shift.settle(request, LATE)
    assert not await journal.fail_model_call(
        request, ModelFailure(kind="timeout", message="late", transient=True), 1010.0
    )
    begun = await shift.begin(request)
    assert isinstance(begun, Answered)
    assert begun.turn.message.content == "First."


async def test_a_call_that_was_given_up_is_not_started_by_a_worker_that_wakes_up_late(
    shift: Shift, journal: Journal
) -> None:
    asleep = shift.request()
    shift.number = 1
    shift.say("Are you there?")
    await shift.turn("I am.")
    lost = await shift.begin(asleep)
    assert isinstance(lost, Lost)
    assert "was given up" in lost.failure.message
    assert not await shift.settle(asleep, LATE)
    await shift.close()
    assert await journal.transcript("shift-1", shift.head) == shift.messages
    assert await shift.kinds() == []


async def test_a_call_of_a_run_that_ended_is_not_started_by_a_worker_that_wakes_up_late(
    shift: Shift, journal: Journal
) -> None:
    asleep = shift.request()
    shift.number = 1
    await journal.close_run(shift.closing(Status.TIME_LIMIT), 1010.0)
    assert isinstance(await shift.begin(asleep), Lost)
    row = await journal.run("shift-1")
    assert row is not None
    assert row.status == "TIME_LIMIT"


async def test_what_a_reset_run_has_heard_since_is_appended_also_where_its_call_was_given_up(
    shift: Shift, journal: Journal
) -> None:
    """The run ended before a worker took its call; a person told it something, and reset it."""
    reset = shift.fork()
    ends = shift.closing(Status.TIME_LIMIT)
    ends = ends.model_copy(update={"result": ends.result.model_copy(update={"model_calls": 1})})
    await journal.close_run(ends, 1010.0)
    reset.say("Please go on.")
    request = reset.request().model_copy(update={"forgotten": Memory(ids=("a",)), "resets": 0})
    assert isinstance(await reset.begin(request), Lost)
    reset.number, reset.entries = 1, []  # as the workflow does, which was told that the call failed
    await reset.turn("I do.", call("a"))
    assert (await journal.recall(reset.request(), [call("a")])).ids == ("a",)
    await reset.close()
    assert await journal.transcript("shift-1", reset.head) == reset.messages
    assert await journal.verify_chain("shift-1") is None
    assert await reset.kinds() == []


async def test_what_was_appended_before_is_skipped_when_it_is_sent_again(shift: Shift, journal: Journal) -> None:
    shift.say("One.")
    assert await shift.begin(shift.request(1)) == Fresh()
    shift.say("Two.")  # the workflow could not know that the first request was carried out
    assert await shift.begin(shift.request(2)) == Fresh()
    assert [m.message for m in await journal.messages("shift-1")] == shift.messages
    assert await journal.verify_chain("shift-1") is None


async def test_the_first_observation_of_a_read_stands(shift: Shift, journal: Journal) -> None:
    asked = call("a")
    await shift.turn("Let me look.", asked)
    first = await shift.observe(0, asked, SEEN)
    late = Observed(tool_message(asked, '{"ok":true,"value":7}'), 99, True)
    request = shift.dispatch(0, asked)
    assert await journal.settle_tool_call(request, "read", "worker-1", late, 1020.0, 1020.0) == first
    assert await journal.stored_observation(request) == first


async def test_an_observation_that_the_workflow_did_not_name_is_not_in_the_transcript(
    shift: Shift, journal: Journal
) -> None:
    asked = call("a")
    await shift.turn("Let me look.", asked)
    timed_out = tool_message(asked, '{"error":{"kind":"timeout","message":"too slow"},"ok":false}')
    shift.add(timed_out, Entry(message=timed_out))
    assert await shift.begin(shift.request()) == Fresh()
    late = Observed(tool_message(asked, SEEN), 99, False)
    await journal.settle_tool_call(shift.dispatch(0, asked), "read", "worker-1", late, 1020.0, 1020.0)
    assert await journal.transcript("shift-1", shift.head) == shift.messages
    assert timed_out in shift.messages


async def test_a_reset_that_goes_the_same_way_pays_for_nothing_twice(shift: Shift, journal: Journal) -> None:
    again = shift.fork()
    asked = call("a")
    await shift.step("Let me look.", asked, SEEN)
    await shift.turn("Six.")
    await shift.close()

    for message in shift.messages[2:]:
        if isinstance(message, AssistantMessage):
            begun = await again.begin(again.request())
            assert isinstance(begun, Answered)
            again.number, again.entries = again.number + 1, []
            again.add(message, Entry(turn=again.number))
        else:
            stored = await journal.stored_observation(again.dispatch(0, asked))
            assert stored is not None
            again.add(stored.observation, Entry(call=(again.number, 0)))
    await again.close()
    assert again.head == shift.head
    assert await journal.verify_chain("shift-1") is None
    assert await shift.kinds() == []


async def test_a_reset_with_a_lower_allowance_is_told_what_its_calls_were_sent_with(
    shift: Shift, journal: Journal
) -> None:
    again = shift.fork()
    await shift.turn("Six.")
    same, lower = again.request(), again.request().model_copy(update={"output_tokens": 5})
    for request, allowed in ((same, None), (lower, 100)):
        begun = await again.begin(request)
        assert isinstance(begun, Answered)
        assert (begun.turn.usage.output_tokens, begun.turn.allowed) == (9, allowed)


async def test_a_reset_that_goes_another_way_replaces_what_was_not_gone(shift: Shift, journal: Journal) -> None:
    await shift.step("Let me look.", call("a"), SEEN)
    reset = shift.fork()
    await shift.step("I order.", call("b", "place_order"), '{"ok":true,"value":"ordered"}', "effect")
    await shift.step("I look again.", call("c"), SEEN)
    await shift.turn("Done.")
    await shift.close()
    assert await journal.transcript("shift-1", shift.head) == shift.messages  # now in memory, too

    reset.say("Do not order anything.")
    await reset.turn("I do not.", call("d"))
    assert await shift.kinds() == ["journal_rewritten"]
    row = await journal.run("shift-1")
    assert row is not None
    assert (row.status, row.closed_at, row.result) == (None, None, None)
    await reset.observe(0, call("d"), SEEN)
    await reset.turn("Nothing was ordered.")
    await reset.close()

    assert await journal.transcript("shift-1", reset.head) == reset.messages
    assert [m.message for m in await journal.messages("shift-1")] == reset.messages
    assert await journal.verify_chain("shift-1") is None
    assert [row.number for row in await journal.model_calls("shift-1")] == [1, 2, 3]
    tools = [(row.model_call, row.call_id, row.kind) for row in await journal.tool_calls("shift-1")]
    assert tools == [(1, "a", "read"), (2, "b", "effect"), (2, "d", "read")]
    (decision,) = await journal.decisions("shift-1")
    assert decision.detail == '{"message":4,"model_call":2,"removed":5}'


async def test_a_reset_that_ends_earlier_keeps_its_calls_also_where_one_was_taken_back(
    shift: Shift, journal: Journal
) -> None:
    await shift.step("One.", call("a"), SEEN)
    shift.number += 1  # a call that its fund did not pay for
    await shift.step("Two.", call("b"), SEEN)
    reset = shift.fork()
    await shift.step("Three.", call("c"), SEEN)
    await shift.turn("Four.")
    ends = reset.closing(Status.STOP_REQUESTED)
    result = ends.result.model_copy(update={"model_calls": 2, "withdrawn": 1})
    await journal.close_run(ends.model_copy(update={"result": result}), 2000.0)
    assert [row.number for row in await journal.model_calls("shift-1")] == [1, 3]
    assert await journal.verify_chain("shift-1") is None


async def test_an_effect_outlives_a_reset_and_is_not_begun_again(shift: Shift, journal: Journal) -> None:
    reset = shift.fork()
    order = call("b", "place_order", sku="SKU-VANILLA")
    await shift.step("I order.", order, '{"ok":true,"value":"ordered"}', "effect")
    await shift.turn("Done.")

    reset.say("Order some.")
    await reset.turn("I order.", order)
    request = reset.dispatch(0, order)
    assert not await journal.begin_effect(request, "worker-2", 2000.0, again=False)
    stored = await journal.stored_observation(request)
    assert stored is not None
    assert stored.observation.content == '{"ok":true,"value":"ordered"}'


async def test_an_effect_of_before_a_reset_is_never_taken_for_another_call(shift: Shift, journal: Journal) -> None:
    reset = shift.fork()
    await shift.step("I order.", call("ls-1-0", "place_order"), '{"ok":true,"value":"ordered"}', "effect")
    await shift.turn("Done.")

    reset.say("Look first.")
    await reset.turn("I look.", call("ls-1-0", "list_stock"))  # ids of ours repeat in another world
    request = reset.dispatch(0, call("ls-1-0", "list_stock"))
    assert await journal.stored_observation(request) is None
    observed = Observed(tool_message(request.call, SEEN), 1, False)
    with pytest.raises(JournalMismatch, match="held by another call, of 'place_order'"):
        await journal.settle_tool_call(request, "read", "worker-1", observed, 2000.0, 2000.0)


async def test_a_late_answer_from_before_a_reset_does_not_answer_the_call_of_after_it(
    shift: Shift, journal: Journal
) -> None:
    reset = shift.fork()
    old = shift.request()
    assert await shift.begin(old) == Fresh()
    reset.say("Another way.")
    assert await reset.begin(reset.request()) == Fresh()
    assert not await shift.settle(old, LATE)
    assert await reset.settle(reset.request(), AssistantMessage(content="The right one."))
    assert await shift.kinds() == ["journal_rewritten"]


async def test_a_reset_of_an_ended_run_goes_on_where_it_ended(shift: Shift, journal: Journal) -> None:
    await shift.step("Let me look.", call("a"), SEEN)
    limited = shift.fork()
    shift.say("No call is left.")
    await journal.close_run(shift.closing(Status.MODEL_CALL_LIMIT), 1010.0)
    await limited.turn("Six.")  # a person raised the limit and reset the run to before its end
    await limited.close()
    assert await journal.transcript("shift-1", limited.head) == limited.messages
    assert await journal.verify_chain("shift-1") is None
    assert await shift.kinds() == ["journal_rewritten"]


async def test_a_reset_that_ends_earlier_takes_back_what_came_after(shift: Shift, journal: Journal) -> None:
    await shift.turn("Let me look.", call("a"))
    stopped = shift.fork()
    await shift.observe(0, call("a"), SEEN)
    await shift.turn("Six.")
    await shift.close()
    await journal.close_run(stopped.closing(Status.STOP_REQUESTED), 1600.0)
    assert [m.message for m in await journal.messages("shift-1")] == stopped.messages
    assert [row.number for row in await journal.model_calls("shift-1")] == [1]
    assert await journal.verify_chain("shift-1") is None
    row = await journal.run("shift-1")
    assert row is not None
    assert row.status == "STOP_REQUESTED"


async def test_decisions_of_both_ways_stand(shift: Shift, journal: Journal) -> None:
    reset = shift.fork()
    await shift.begin(shift.request(1, (Decision(number=1, at=1001.0, kind="old"),)))
    reset.say("Another way.")
    await reset.begin(reset.request(1, (Decision(number=1, at=1501.0, kind="new"),)))
    assert await shift.kinds() == ["old", "journal_rewritten", "new"]


async def test_a_workflow_that_goes_on_from_another_chain_is_refused(shift: Shift, journal: Journal) -> None:
    ahead = shift.fork()
    ahead.say("The journal has not seen this.")
    ahead.entries = []
    with pytest.raises(JournalMismatch, match="'shift-1': the journal has 2 messages, the workflow goes on after 3"):
        await ahead.begin(ahead.request())
    with pytest.raises(JournalMismatch, match="'shift-1': the journal has 2 messages, the workflow goes on after 3"):
        await journal.close_run(ahead.closing(), 1001.0)
    wrong = shift.fork()
    wrong.say("This one is not what the head says.")
    wrong.entries = [Entry(message=AssistantMessage(content="Something else."))]
    with pytest.raises(JournalMismatch, match="does not end at message 2 as the workflow's does"):
        await wrong.begin(wrong.request())
    for entry, missing in (
        (Entry(turn=5), "the reply of model call 5"),
        (Entry(call=(5, 1)), "the observation of call 1 of model call 5"),
        (Entry(), "names no turn"),
    ):
        wrong.entries = [entry]
        with pytest.raises(JournalMismatch, match=missing):
            await wrong.begin(wrong.request())
    assert await journal.model_calls("shift-1") == []
    assert await journal.transcript("shift-1", shift.head) == shift.messages


async def test_two_workers_that_begin_one_call_at_once_send_it_once(shift: Shift, journal: Journal, url: str) -> None:
    other = await Journal.open(url)
    for number in range(1, 6):
        shift.say(f"Message {number}.")
        request = shift.request(number)
        begun = await asyncio.gather(
            *(
                worker.begin_model_call(request, f"1/worker-{n}", 1.0)
                for n, worker in enumerate((journal, other, journal, other))
            )
        )
        assert [type(outcome) for outcome in begun].count(Fresh) == 1
        assert [type(outcome) for outcome in begun].count(Lost) == 1
    await other.close()
    assert await journal.verify_chain("shift-1") is None
    assert len(await journal.messages("shift-1")) == len(shift.messages)


async def test_two_workers_that_append_different_things_at_once_leave_one_whole_chain(
    shift: Shift, journal: Journal, url: str
) -> None:
    other = await Journal.open(url)
    forks = [shift.fork(journal), shift.fork(other)]
    for number in range(1, 6):
        for fork in forks:
            fork.say(f"{fork.now}: message {number}")
            fork.now += 1
        await asyncio.gather(*(fork.begin(fork.request(number)) for fork in forks))
        assert await journal.verify_chain("shift-1") is None
    await other.close()


async def test_two_workers_that_open_one_run_at_once_open_it_once(journal: Journal, url: str) -> None:
    other = await Journal.open(url)
    shifts = await asyncio.gather(*(Shift(worker, "twice").open() for worker in (journal, other, journal, other)))
    await other.close()
    assert len({shift.head.digest for shift in shifts}) == 1
    assert len(await journal.messages("twice")) == 2
