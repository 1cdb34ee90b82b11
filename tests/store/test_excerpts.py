"""What a model call was sent of a transcript that outgrew its context: read apart, proved, and never mistaken."""

from typing import Any

import pytest
from sqlalchemy import update

from longshift.context import Excerpt, Summary, compose
from longshift.contracts import CallModel
from longshift.messages import AssistantMessage, UserMessage, weigh
from store.errors import JournalMismatch
from store.journal import Answered, Fresh, Journal
from store.tables import MESSAGES, MODEL_CALLS
from tests.store.shift import OPENING, Shift, call
from tests.store.test_tampering import change

pytestmark = pytest.mark.asyncio

TOLD = AssistantMessage(content="Six cones were found.")


async def summarized(shift: Shift) -> tuple[CallModel, Excerpt]:
    """A run of two exchanges and a user's word, the first exchange summarized by model call 3: that request, and what
    the next call is to be sent."""
    kept = shift.head
    await shift.step("Let me look.", call("a"), "[]")
    until = shift.head.length
    await shift.step("Again.", call("b"), "[]")
    request = shift.request().model_copy(
        update={"tools": False, "excerpt": Excerpt(kept=kept, start=kept.length, until=until, characters=100)}
    )
    assert await shift.begin(request) == Fresh()
    assert await shift.settle(request, TOLD)
    shift.number, shift.entries = 3, []
    shift.say("Hurry up.")
    told = Summary(call=3, sha256=weigh(TOLD).sha256, exchanges=1, bytes=21)
    return request, Excerpt(kept=kept, start=until, exchanges=1, summary=told)


async def test_an_excerpt_is_what_the_whole_transcript_makes_of_it(shift: Shift, journal: Journal) -> None:
    request, excerpt = await summarized(shift)
    assert await journal.transcript("shift-1", request.head, request.excerpt) == compose(
        "shift-1", request.excerpt or excerpt, OPENING, shift.messages[2:6], ""
    )
    assert await shift.begin(shift.request().model_copy(update={"excerpt": excerpt})) == Fresh()
    sent = await journal.transcript("shift-1", shift.head, excerpt)
    assert sent == compose("shift-1", excerpt, OPENING, shift.messages[4:], TOLD.content)
    assert sent[-1] == UserMessage(content="Hurry up.")
    rows = await journal.model_calls("shift-1")
    assert [Excerpt.model_validate_json(row.excerpt) if row.excerpt else None for row in rows[1:]] == [
        None,
        request.excerpt,
        excerpt,
    ]


X = '{"content":"x","role":"user"}'


@pytest.mark.parametrize(
    "statement",
    [
        update(MESSAGES).where(MESSAGES.c.number == 1).values(body=X),
        update(MESSAGES).where(MESSAGES.c.number == 6).values(body=X),
        update(MESSAGES).where(MESSAGES.c.number == 3).values(digest="0" * 64),
        update(MODEL_CALLS).where(MODEL_CALLS.c.number == 2).values(body=X),
        update(MODEL_CALLS).where(MODEL_CALLS.c.number == 3).values(body=X),
        update(MODEL_CALLS).where(MODEL_CALLS.c.number == 3).values(body=None),
    ],
    ids=["opening", "rest", "link", "turn", "summary", "no summary"],
)
async def test_what_was_changed_of_it_is_never_sent(journal: Journal, url: str, shift: Shift, statement: Any) -> None:
    _, excerpt = await summarized(shift)
    assert await shift.begin(shift.request().model_copy(update={"excerpt": excerpt})) == Fresh()
    await change(url, statement)
    with pytest.raises(JournalMismatch, match=r"as the workflow says|what the workflow was told"):
        await journal.transcript("shift-1", shift.head, excerpt)


async def test_after_a_reset_a_summary_is_never_taken_for_the_answer_of_another_call(
    shift: Shift, journal: Journal
) -> None:
    await shift.step("Let me look.", call("a"), "[]")
    other = shift.fork(journal)
    plain = other.request()
    asking = plain.model_copy(update={"excerpt": Excerpt(kept=shift.head, start=4, until=4, characters=9)})
    assert await shift.begin(asking) == Fresh()
    assert await other.begin(plain) == Fresh()
    assert not await shift.settle(asking, TOLD), "its place is another's"
    assert await other.settle(plain, AssistantMessage(content="Done."))
    found = await other.begin(plain)
    assert isinstance(found, Answered)
    assert found.turn.message.content == "Done."
