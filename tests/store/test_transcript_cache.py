"""What of transcripts a worker keeps in memory."""

from longshift.chain import Head
from longshift.messages import Message, UserMessage
from store.transcripts import EMPTY, IDLE_SECONDS, Transcript, TranscriptCache

MESSAGES: tuple[Message, ...] = (UserMessage(content="What is in stock?"),)
HEAD = Head(length=1, digest="1" * 64)
HELD = Transcript(HEAD, MESSAGES, bytes=50)


def test_the_longest_unused_goes_when_there_is_no_room() -> None:
    cache = TranscriptCache(room=120, clock=lambda: 0.0)
    for run_id in ("one", "two", "one", "three"):
        cache.hold(run_id, HELD)
    assert cache.latest("two", HEAD) is EMPTY
    assert cache.latest("one", HEAD) is cache.latest("three", HEAD) is HELD


def test_a_run_that_waits_holds_nothing_once_others_go_on() -> None:
    now = 0.0
    cache = TranscriptCache(clock=lambda: now)
    cache.hold("waits", HELD)
    now = IDLE_SECONDS
    cache.hold("works", HELD)
    assert cache.latest("waits", HEAD) is HELD
    now = 2 * IDLE_SECONDS
    cache.hold("works", HELD)
    assert cache.latest("waits", HEAD) is EMPTY
    assert cache.latest("works", HEAD) is HELD
