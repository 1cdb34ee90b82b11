"""Reading a run's messages, each proved by its link, and checking the whole chain."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection, and_, bindparam, func, select

from longshift import jsontext
from longshift.chain import Head, extend
from longshift.context import Excerpt, Summary, compose
from longshift.messages import AssistantMessage, Message, Weight
from store.confirming import Confirmed
from store.errors import JournalMismatch
from store.tables import MESSAGES, MODEL_CALLS, RUNS, TOOL_CALLS

CACHE_BYTES = 16 * 1024 * 1024
"""Bytes of messages, as JSON, that a journal keeps in memory; as objects they take a few times as much. A worker's
runs at work fit in: each is at most its `context_bytes`, 32 KiB by default."""
IDLE_SECONDS = 30.0
"""A run that asked for nothing for so long waits, or has a model beside whose time reading all again is nothing."""

_MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)

_ROWS = (
    select(
        MESSAGES.c.number,
        MESSAGES.c.role,
        MESSAGES.c.bytes,
        MESSAGES.c.digest,
        func.coalesce(MESSAGES.c.body, MODEL_CALLS.c.body, TOOL_CALLS.c.body).label("body"),
    )
    .outerjoin(MODEL_CALLS, and_(MODEL_CALLS.c.run_id == MESSAGES.c.run_id, MODEL_CALLS.c.number == MESSAGES.c.turn))
    .outerjoin(
        TOOL_CALLS,
        and_(
            TOOL_CALLS.c.run_id == MESSAGES.c.run_id,
            TOOL_CALLS.c.model_call == MESSAGES.c.call_model,
            TOOL_CALLS.c.position == MESSAGES.c.call_position,
            TOOL_CALLS.c.call_id == MESSAGES.c.call_id,
        ),
    )
    .where(
        MESSAGES.c.run_id == bindparam("run"),
        MESSAGES.c.number >= bindparam("start"),
        MESSAGES.c.number < bindparam("stop"),
    )
    .order_by(MESSAGES.c.number)
)
_LINK = select(MESSAGES.c.digest).where(MESSAGES.c.run_id == bindparam("run"), MESSAGES.c.number == bindparam("before"))
_REPLY = select(MODEL_CALLS.c.body).where(
    MODEL_CALLS.c.run_id == bindparam("run"), MODEL_CALLS.c.number == bindparam("call")
)
_EVERY_MESSAGE = 2**31 - 1
"""A `stop` that no run reaches."""


@dataclass(frozen=True)
class StoredMessage:
    """A confirmed message as it stands in the journal."""

    number: int
    """From 0."""
    role: str
    message: Message
    digest: str
    """The chain's link after it."""


@dataclass(frozen=True)
class Difference:
    """The first row of a run that is not what its chain says."""

    number: int
    """The message's number; the run's length where the rows end too early or too late."""
    reason: str


@dataclass(frozen=True)
class Transcript:
    """The messages up to a head, proved by their links."""

    head: Head
    messages: tuple[Message, ...] = ()
    bytes: int = 0
    """Of the messages' JSON."""


EMPTY = Transcript(Head())
"""No message yet."""


@dataclass(frozen=True)
class _Held:
    transcript: Transcript
    since: float
    """When it was held, by the cache's clock, in seconds."""


def read_transcript(connection: Connection, run_id: str, known: Transcript, head: Head) -> Transcript:
    """The transcript up to `head`. Only what comes after `known` is read, unless that is of a way not gone.

    Raises JournalMismatch where the links of the stored bodies do not end at `head`.
    """
    try:
        return _grown(known, _proved(connection, run_id, known.head, head), head)
    except JournalMismatch:
        if known is EMPTY:
            raise
        return read_transcript(connection, run_id, EMPTY, head)


def read_excerpt(connection: Connection, run_id: str, head: Head, excerpt: Excerpt) -> list[Message]:
    """What a model call is sent of the transcript up to `head`: its beginning, proved by the link after it, the rest,
    proved by `head`, and what stands in between.

    Raises JournalMismatch where one of them is not what the workflow says.
    """
    opening = _proved(connection, run_id, Head(), excerpt.kept)
    start = Head()
    if excerpt.start:
        link = connection.execute(_LINK, {"run": run_id, "before": excerpt.start - 1}).scalar_one_or_none()
        start = Head(length=excerpt.start, digest=link or "")
    rest = _proved(connection, run_id, start, head)
    summary = "" if excerpt.summary is None else _summary(connection, run_id, excerpt.summary)
    opened, followed = ([_MESSAGE.validate_json(text) for text in texts] for texts in (opening, rest))
    return compose(run_id, excerpt, opened, followed, summary)


def _proved(connection: Connection, run_id: str, start: Head, head: Head) -> list[str]:
    """The texts of the messages between two links."""
    before, texts = start, []
    for row in connection.execute(_ROWS, {"run": run_id, "start": start.length, "stop": head.length}):
        if row.number == before.length and row.body is not None:
            texts.append(row.body)
            before = _after(before, row.body)
    if before != head:
        raise JournalMismatch(
            f"run {run_id!r}: the journal's messages do not end at message {head.length - 1} as the workflow says; "
            "audit the run to find the first row that differs"
        )
    return texts


def _summary(connection: Connection, run_id: str, summary: Summary) -> str:
    """The text of a summary."""
    body = connection.execute(_REPLY, {"run": run_id, "call": summary.call}).scalar_one_or_none()
    if body is None or jsontext.sha256(body) != summary.sha256:
        raise JournalMismatch(
            f"run {run_id!r}: the summary that model call {summary.call} wrote is not what the workflow was told"
        )
    return AssistantMessage.model_validate_json(body).content


def read_messages(connection: Connection, run_id: str) -> list[StoredMessage]:
    """All confirmed messages of a run, unproved.

    Raises JournalMismatch, naming the first row whose body is gone or is no message.
    """
    found = []
    for row in connection.execute(_ROWS, {"run": run_id, "start": 0, "stop": _EVERY_MESSAGE}):
        try:
            message = _MESSAGE.validate_json(row.body or "")
        except ValidationError:
            raise JournalMismatch(f"run {run_id!r}: message {row.number} has no body that is a message") from None
        found.append(StoredMessage(row.number, row.role, message, row.digest))
    return found


def verify_chain(connection: Connection, run_id: str) -> Difference | None:
    """Recompute every link of a run from the bodies. Returns the first row that differs."""
    run = connection.execute(select(RUNS.c.length, RUNS.c.digest).where(RUNS.c.run_id == run_id)).one_or_none()
    if run is None:
        return Difference(0, "the run is not in this journal")
    head = Head()
    for row in connection.execute(_ROWS, {"run": run_id, "start": 0, "stop": _EVERY_MESSAGE}):
        if row.number != head.length:
            return Difference(head.length, "the message is missing")
        if row.body is None:
            return Difference(row.number, "the message's body is missing")
        if row.bytes != jsontext.size(row.body):
            return Difference(row.number, "the message's size is not what was recorded")
        head = _after(head, row.body)
        if row.digest != head.digest:
            return Difference(row.number, "the message's link does not follow from its body and the link before it")
        if row.role != _role(row.body):
            return Difference(row.number, "the message's role is not its body's")
    if head != Head(length=run.length, digest=run.digest):
        return Difference(head.length, f"the chain ends here; the run was recorded with {run.length} messages")
    return None


class TranscriptCache:
    """The latest transcript of each run at work, up to `room` bytes in all; the longest unused goes first, and those
    of runs that are idle go with the next one held.

    It can be stale but never wrong: what is read on from it must end at the head that the workflow names.
    """

    def __init__(self, room: int = CACHE_BYTES, clock: Callable[[], float] = time.monotonic) -> None:
        self._room = room
        self._clock = clock
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._bytes = 0

    def latest(self, run_id: str, head: Head) -> Transcript:
        """The run's transcript, where it may be a beginning of the one up to `head`; else the empty one."""
        held = self._held.get(run_id)
        return held.transcript if held is not None and held.transcript.head.length <= head.length else EMPTY

    def hold(self, run_id: str, transcript: Transcript) -> None:
        """Keep a run's transcript instead of the one before."""
        self.drop(run_id)
        now = self._clock()
        self._held[run_id] = _Held(transcript, now)
        self._bytes += transcript.bytes
        while self._held and (self._bytes > self._room or next(iter(self._held.values())).since < now - IDLE_SECONDS):
            self.drop(next(iter(self._held)))

    def grow(self, run_id: str, appended: Confirmed, head: Head) -> None:
        """Add what was just appended, up to `head`, where the transcript before it is held."""
        held = self._held.get(run_id)
        if held is not None and held.transcript.head == appended.start:
            self.hold(run_id, _grown(held.transcript, appended.texts, head))

    def drop(self, run_id: str) -> None:
        """Forget a run."""
        if (held := self._held.pop(run_id, None)) is not None:
            self._bytes -= held.transcript.bytes


def _grown(known: Transcript, texts: Sequence[str], head: Head) -> Transcript:
    messages = (*known.messages, *map(_MESSAGE.validate_json, texts))
    return Transcript(head, messages, known.bytes + sum(map(jsontext.size, texts)))


def _after(head: Head, body: str) -> Head:
    return extend(head, Weight(bytes=jsontext.size(body), sha256=jsontext.sha256(body)))


def _role(body: str) -> str | None:
    try:
        return _MESSAGE.validate_json(body).role
    except ValidationError:
        return None
