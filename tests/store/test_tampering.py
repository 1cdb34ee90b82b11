"""Whatever is changed behind the journal's back is named."""

from typing import Any

import pytest
from sqlalchemy import delete, update

from longshift.contracts import CallModel
from store.engine import open_database
from store.errors import JournalMismatch
from store.journal import Journal
from store.tables import MESSAGES, MODEL_CALLS, RUNS, TOOL_CALLS
from tests.store.shift import Shift, call

pytestmark = pytest.mark.asyncio

CHANGES: list[tuple[Any, int, str]] = [
    (update(MESSAGES).where(MESSAGES.c.number == 1).values(body='{"content":"x","role":"user"}'), 1, "size"),
    (
        update(MESSAGES).where(MESSAGES.c.number == 1).values(body='{"content":"What is in stack?","role":"user"}'),
        1,
        "link",
    ),
    (update(MODEL_CALLS).values(body='{"calls":[],"content":"x","role":"assistant"}'), 2, "size"),
    (update(TOOL_CALLS).values(body='{"call_id":"b","content":"{}","name":"list_stock","role":"tool"}'), 3, "link"),
    (delete(TOOL_CALLS), 3, "body is missing"),
    (update(MESSAGES).where(MESSAGES.c.number == 2).values(digest="0" * 64), 2, "link"),
    (update(MESSAGES).where(MESSAGES.c.number == 1).values(role="system"), 1, "role"),
    (delete(MESSAGES).where(MESSAGES.c.number == 2), 2, "message is missing"),
    (delete(MESSAGES).where(MESSAGES.c.number == 4), 4, "recorded with 5 messages"),
    (update(RUNS).values(length=4), 5, "recorded with 4 messages"),
]


async def change(url: str, statement: Any) -> None:
    """Change the database behind the journal's back."""
    database = open_database(url)
    await database.write(lambda connection: connection.execute(statement))
    await database.close()


async def lived(journal: Journal) -> Shift:
    """A run of five messages, all confirmed."""
    shift = await Shift(journal).open()
    await shift.step("Let me look.", call("a"), "[]")
    shift.say("Hurry up.")
    await shift.close()
    return shift


@pytest.mark.parametrize(("statement", "number", "reason"), CHANGES)
async def test_the_first_row_that_differs_is_named(
    journal: Journal, url: str, statement: Any, number: int, reason: str
) -> None:
    await lived(journal)
    await change(url, statement)
    difference = await journal.verify_chain("shift-1")
    assert difference is not None
    assert difference.number == number
    assert reason in difference.reason


async def test_a_changed_body_is_never_sent(journal: Journal, url: str) -> None:
    shift = await lived(journal)
    await change(url, update(MESSAGES).where(MESSAGES.c.number == 1).values(body='{"content":"x","role":"user"}'))
    with pytest.raises(JournalMismatch, match="audit the run"):
        await journal.transcript("shift-1", shift.head)


async def test_a_changed_reply_is_never_taken_into_the_transcript(journal: Journal, url: str) -> None:
    shift = await Shift(journal).open()
    await shift.turn("Six.")
    await change(url, update(MODEL_CALLS).values(body='{"calls":[],"content":"Seven.","role":"assistant"}'))
    request: CallModel = shift.request()
    with pytest.raises(JournalMismatch, match="does not end at message 2"):
        await shift.begin(request)


async def test_a_body_that_is_no_message_is_named(journal: Journal, url: str) -> None:
    await lived(journal)
    await change(url, update(TOOL_CALLS).values(body="no JSON"))
    with pytest.raises(JournalMismatch, match="message 3 has no body that is a message"):
        await journal.messages("shift-1")
