"""What one run, and the people who look at it, see of the journal."""

import pytest

from longshift.agent import AgentSpec
from longshift.chain import Head
from longshift.contracts import Decision
from longshift.messages import AssistantMessage, UserMessage
from longshift.recording import record
from longshift.status import Status
from longshift.turns import ModelFailure, Usage
from store.errors import JournalMismatch, JournalUnavailable
from store.journal import Answered, Failed, Fresh, Journal, Lost, Observed
from tests.store.shift import OPENING, SPEC, Shift, call, tool_message, turn_of

pytestmark = pytest.mark.asyncio

STOCK = '{"ok":true,"value":{"SKU-VANILLA":6}}'


async def test_a_shift_reads_back_as_it_was_lived(shift: Shift, journal: Journal) -> None:
    await shift.step("Let me look.", call("a"), STOCK)
    shift.say("Hurry up.")
    await shift.turn("Six of vanilla.")
    await shift.close()

    assert await journal.transcript("shift-1", shift.head) == shift.messages
    stored = await journal.messages("shift-1")
    assert [m.message for m in stored] == shift.messages
    assert [m.number for m in stored] == list(range(6))
    assert [m.role for m in stored] == ["system", "user", "assistant", "tool", "user", "assistant"]
    assert stored[-1].digest == shift.head.digest
    assert await journal.verify_chain("shift-1") is None


async def test_a_run_is_opened_once_and_again_without_change(shift: Shift, journal: Journal) -> None:
    opened = shift.head
    await shift.turn("Hello.")
    other_spec = SPEC.model_copy(update={"agent": AgentSpec(name="other")})
    assert await journal.open_run("shift-1", other_spec, OPENING, 1000.0) == opened
    assert (await journal.spec("shift-1")).agent.name == "shop"
    row = await journal.run("shift-1")
    assert row is not None
    assert (row.opened_at, row.agent, row.endpoint, row.model) == (1000.0, "shop", "local", "authored")


async def test_another_opening_under_the_same_id_is_refused(shift: Shift, journal: Journal) -> None:
    with pytest.raises(JournalMismatch, match="'shift-1' stands in the journal with another opening"):
        await journal.open_run("shift-1", SPEC, (*OPENING[:1], UserMessage(content="Something else")), 1000.0)


async def test_a_run_that_is_started_anew_under_an_old_id_is_refused(shift: Shift, journal: Journal) -> None:
    """Else it would be told what came of the old one's calls, and do nothing."""
    await shift.turn("Hello.")
    await shift.close()
    refused = "'shift-1' stands in the journal as another run, started at 1970-01-01T00:16:40.00:00: .* another id"
    with pytest.raises(JournalMismatch, match=refused):
        await journal.open_run("shift-1", SPEC, OPENING, 1000.000001)
    row = await journal.run("shift-1")
    assert row is not None
    assert (row.opened_at, row.status) == (1000.0, "COMPLETED")


async def test_a_run_without_an_opening_begins_at_the_first_link(journal: Journal) -> None:
    assert await journal.open_run("bare", SPEC, (), 1.0) == Head()
    assert await journal.open_run("bare", SPEC, (), 1.0) == Head()
    assert await journal.transcript("bare", Head()) == []
    assert await journal.verify_chain("bare") is None


async def test_a_journal_that_knows_nothing_of_a_run_is_not_the_one_it_began_in(journal: Journal) -> None:
    shift = Shift(journal, "nobody")
    with pytest.raises(JournalUnavailable, match="holds nothing of run 'nobody'; bring back the journal"):
        await shift.begin(shift.request())
    with pytest.raises(JournalUnavailable, match="holds nothing of run 'nobody'; bring back the journal"):
        await journal.close_run(shift.closing(), 1.0)
    with pytest.raises(JournalUnavailable, match="holds nothing of run 'nobody'; bring back the journal"):
        await journal.spec("nobody")
    assert await journal.run("nobody") is None
    assert await journal.messages("nobody") == []
    difference = await journal.verify_chain("nobody")
    assert difference is not None
    assert difference.number == 0


async def test_a_model_call_is_entered_with_what_was_sent_and_what_came_of_it(shift: Shift, journal: Journal) -> None:
    request = shift.request()
    await shift.turn("Hello.")
    (row,) = await journal.model_calls("shift-1")
    assert (row.number, row.state, row.sender, row.tools) == (1, "answered", "1/worker-1", True)
    assert (row.context_length, row.context_digest) == (request.head.length, request.head.digest)
    assert (row.allowed, row.estimate, row.cost, row.milliseconds) == (100, 7, 3, 80)
    assert (row.output_tokens, row.input_tokens, row.stop_reason) == (9, 40, "stop")
    assert (row.started_at, row.ended_at) == (1001.0, 1002.0)


async def test_a_call_that_was_answered_is_answered_again_and_not_sent(shift: Shift) -> None:
    request = shift.request()
    message = await shift.turn("Hello.", call("a"))
    assert await shift.begin(request) == Answered(turn_of(message))


async def test_a_large_answer_comes_back_cut_with_the_weight_of_the_whole(shift: Shift, journal: Journal) -> None:
    asked = call("a", "note", text="x" * 50_000)
    request = shift.request()
    message = await shift.turn("y" * 50_000, asked)
    begun = await shift.begin(request)
    assert isinstance(begun, Answered)
    assert begun.turn.reply == record(message)
    assert begun.turn.reply.whole is not None
    assert await journal.tool_call("shift-1", 1, 0) == asked
    assert await journal.transcript(
        "shift-1", shift.head.model_copy(update={"length": 2, "digest": request.head.digest})
    )
    shift.say("Go on.")
    assert await shift.begin(shift.request()) == Fresh()
    assert (await journal.transcript("shift-1", shift.head))[2] == message


async def test_a_call_that_failed_fails_again_and_is_not_sent(shift: Shift, journal: Journal) -> None:
    failure = ModelFailure(
        kind="invalid_turn",
        message="endpoint local: two choices",
        transient=False,
        usage=Usage(output_tokens=5, input_tokens=6),
        cost=4,
        milliseconds=30,
    )
    request = shift.request()
    assert await shift.begin(request) == Fresh()
    assert await journal.fail_model_call(request, failure, 1005.0)
    assert await shift.begin(request) == Failed(failure)
    (row,) = await journal.model_calls("shift-1")
    assert (row.state, row.cost, row.output_tokens, row.milliseconds) == ("failed", 4, 5, 30)


async def test_a_call_whose_worker_died_is_lost_and_stays_so(shift: Shift, journal: Journal) -> None:
    request = shift.request()
    assert await shift.begin(request) == Fresh()
    lost = await shift.begin(request)
    assert isinstance(lost, Lost)
    assert lost.failure.kind == "lost"
    assert "was sent by a worker that recorded no answer" in lost.failure.message
    assert await shift.begin(request) == Failed(lost.failure)
    (row,) = await journal.model_calls("shift-1")
    assert (row.state, row.estimate, row.cost) == ("failed", 7, None)


async def test_an_absurd_usage_is_held_as_the_largest_number_and_read_back_exactly(
    shift: Shift, journal: Journal
) -> None:
    request = shift.request().model_copy(update={"output_tokens": 10**30, "estimate": 10**30})
    message = AssistantMessage(content="Hello.")
    turn = turn_of(message).model_copy(update={"usage": Usage(output_tokens=1, input_tokens=10**30)})
    assert await shift.begin(request) == Fresh()
    assert await journal.settle_model_call(request, message, turn, 1002.0)
    assert await shift.begin(request) == Answered(turn)
    (row,) = await journal.model_calls("shift-1")
    assert row.input_tokens == row.allowed == row.estimate == 2**63 - 1


async def test_a_nul_in_an_id_or_a_reason_does_no_harm(shift: Shift, journal: Journal) -> None:
    asked = call("a\0b", "look\0", text="\0")
    await shift.step("\0", asked, '{"ok":true,"value":"\\u0000"}')
    await shift.close()
    assert await journal.transcript("shift-1", shift.head) == shift.messages
    assert await journal.observation("shift-1", 1, 0) is not None
    assert not await journal.begin_effect(shift.dispatch(0, asked), "worker-2", 1.0, again=False)


async def test_decisions_are_kept_once_each_in_their_order(shift: Shift, journal: Journal) -> None:
    first = Decision(number=1, at=1000.5, kind="limits_changed", detail={"model_calls": 12})
    second = Decision(number=2, at=1000.5, kind="signal", detail={"value": float("nan")})
    third = Decision(number=3, at=1002.5, kind="ended")
    assert await shift.begin(shift.request(1, (first,))) == Fresh()
    assert isinstance(await shift.begin(shift.request(1, (first,))), Lost)
    assert await shift.begin(shift.request(2, (first, second))) == Fresh()
    shift.number = 2
    await journal.close_run(shift.closing(Status.MODEL_FAILED, (second, third)), 1003.0)
    rows = await journal.decisions("shift-1")
    assert [(row.number, row.ordinal, row.kind, row.detail) for row in rows] == [
        (1, 1, "limits_changed", '{"model_calls":12}'),
        (2, 2, "signal", '{"value":null}'),
        (3, 3, "ended", "{}"),
    ]


async def test_a_run_is_closed_once_and_again_without_change(shift: Shift, journal: Journal) -> None:
    await shift.turn("Hello.")
    request = shift.closing()
    await journal.close_run(request, 1010.0)
    await journal.close_run(request, 1020.0)
    row = await journal.run("shift-1")
    assert row is not None
    assert (row.closed_at, row.status, row.detail) == (1010.0, "COMPLETED", "it is done")
    assert (row.length, row.digest) == (shift.head.length, shift.head.digest)
    assert row.result is not None
    assert request.result.model_validate_json(row.result) == request.result
    assert await shift.kinds() == []


async def test_a_read_is_entered_when_it_is_settled(shift: Shift, journal: Journal) -> None:
    asked = call("a", sku="SKU-VANILLA")
    await shift.turn("Let me look.", asked)
    request = shift.dispatch(0, asked)
    assert await journal.stored_observation(request) is None
    observed = Observed(tool_message(asked, STOCK), 250, True, "the whole")
    told = await journal.settle_tool_call(request, "read", "worker-1", observed, 1009.75, 1010.0)
    assert told == observed
    assert await journal.stored_observation(request) == observed
    assert await journal.observation("shift-1", 1, 0) == observed
    (row,) = await journal.tool_calls("shift-1")
    assert (row.call_id, row.name, row.kind, row.state, row.attempt) == (
        "a",
        "list_stock",
        "read",
        "settled",
        "worker-1",
    )
    assert (row.whole, row.fatal, row.started_at, row.settled_at) == ("the whole", True, 1009.75, 1010.0)


async def test_an_effect_is_begun_once_and_settled_once(shift: Shift, journal: Journal) -> None:
    asked = call("a", "place_order")
    await shift.turn("I order.", asked)
    request = shift.dispatch(0, asked)
    assert await journal.begin_effect(request, "worker-1", 1010.0, again=False)
    assert not await journal.begin_effect(request, "worker-2", 1011.0, again=False)
    assert await journal.stored_observation(request) is None
    first, second = (Observed(tool_message(asked, text), 5, False) for text in ("first", "second"))
    assert await journal.settle_tool_call(request, "effect", "worker-1", first, 1012.0, 1012.0) == first
    assert await journal.settle_tool_call(request, "effect", "worker-1", second, 1013.0, 1013.0) == first
    assert not await journal.begin_effect(request, "worker-3", 1014.0, again=False)
    (row,) = await journal.tool_calls("shift-1")
    assert (row.kind, row.state, row.started_at, row.settled_at) == ("effect", "settled", 1010.0, 1012.0)


async def test_a_call_that_no_turn_made_is_not_found(shift: Shift, journal: Journal) -> None:
    await shift.turn("Let me look.", call("a"))
    for model_call, position in ((1, 1), (1, -1), (2, 0)):
        with pytest.raises(JournalMismatch, match=f"model call {model_call} has no tool call {position}"):
            await journal.tool_call("shift-1", model_call, position)


async def test_a_transcript_grows_from_what_is_known_and_can_be_read_from_nothing(
    shift: Shift, journal: Journal, url: str
) -> None:
    heads = [(shift.head, len(shift.messages))]
    for number in range(4):
        await shift.step(f"step {number}", call(f"id-{number}"), STOCK)
        await shift.begin(shift.request())
        shift.number, shift.entries = shift.number + 1, []
        heads.append((shift.head, len(shift.messages)))
        assert await journal.transcript("shift-1", shift.head) == shift.messages
    fresh = await Journal.open(url)
    for head, length in reversed(heads):
        assert await journal.transcript("shift-1", head) == shift.messages[:length]
        assert await fresh.transcript("shift-1", head) == shift.messages[:length]
    await fresh.close()


async def test_a_transcript_that_does_not_end_where_the_workflow_says_is_refused(
    shift: Shift, journal: Journal
) -> None:
    wrong = Head(length=2, digest="0" * 64)
    longer = Head(length=9, digest=shift.head.digest)
    for head in (wrong, longer):
        with pytest.raises(JournalMismatch, match=f"'shift-1'.* do not end at message {head.length - 1}"):
            await journal.transcript("shift-1", head)
    assert await journal.transcript("shift-1", shift.head) == shift.messages
