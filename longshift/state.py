"""The state of a run: everything the loop decides by, and everything that continue-as-new carries.

The functions of admission, judgement and context read it. Nothing un-does a counter but the withdrawal of a model call
that its fund did not pay for.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from longshift.agent import ContextPolicy
from longshift.chain import Head, extend
from longshift.context import Excerpt, Window
from longshift.contracts import Decision, Entry, RunSpec
from longshift.limits import Limits
from longshift.memory import KEPT, MAX_HANDED, Memory, Seen, id_key
from longshift.messages import Message, Payload, Weight, weigh
from longshift.questions import AnswerKind, PersonsAnswer, Question
from longshift.recording import Recorded
from longshift.turns import ModelFailure, Turn
from longshift.view import StateView

MAX_DURATION = 10 * 365 * 24 * 3600.0
"""Seconds; the longest wait or time-out handed to Temporal, whose timestamps end long before a finite float does."""
MAX_DECISIONS = 100
"""Decisions that wait for the journal at once."""
MAX_DETAIL = 300
"""Characters of a text in a decision."""
RECENT_REQUESTS = 50
"""Request ids remembered, so that a change sent again counts once, also after continue-as-new."""


class Stop(Payload):
    """A request to stop. The first one stands; a later `now` makes a graceful one urgent."""

    mode: Literal["graceful", "now"] = "graceful"
    reason: str = ""
    cancelled: bool = False
    """It came as a cancellation of the workflow, which then ends as cancelled."""


class Answer(Payload):
    """A final answer, or a report."""

    text: str
    whole: Weight | None = None
    """Set where the text stands here cut: the weight of its message, which is whole in the journal."""


class RunState(BaseModel):
    """The mutable state of one run."""

    model_config = ConfigDict(extra="ignore")

    run_id: str
    started_at: float
    """Seconds since the epoch, when the first run of the chain started."""
    limits: Limits = Limits()

    head: Head = Head()
    """Where the message chain ends."""
    transcript_bytes: int = 0
    """Bytes of the messages' canonical JSON, without what joins them."""
    schemas_bytes: int = 2
    """Bytes of the JSON of the tool schemas."""
    window: Window | None = None
    """What of the transcript is sent; None: all of it, however much."""
    entries: list[Entry] = Field(default_factory=list)
    """Messages of the transcript that the journal's chain does not hold yet."""
    decisions: list[Decision] = Field(default_factory=list)
    """Decisions that the journal does not hold yet."""
    decisions_made: int = 0

    model_calls: int = 0
    withdrawn: int = 0
    """Model calls that were taken back; they have numbers and do not count."""
    unfunded_in_row: int = 0
    """Attempts at the next model call that the run's fund did not pay for."""
    replies: int = 0
    """Replies that endpoints gave, turns and failures."""
    tool_calls: int = 0
    output_tokens: int = 0
    exposure: int = 0
    """Micro-USD."""
    working_milliseconds: int = 0
    failures_in_row: int = 0
    """Model calls that failed since the last turn."""
    malformed_in_row: int = 0
    """Turns in a row with a malformed call."""

    used_ids: dict[str, None] = Field(default_factory=dict)
    """The latest call ids used in the run, in order. A dict, since a set has no order that replays."""
    seen: dict[str, Seen] = Field(default_factory=dict)
    """The latest calls made, by their key."""
    forgotten: Memory = Memory()
    """What the journal is to remember in the state's place, from the next model call on."""
    forgot: bool = False
    """The journal remembers something of this run's calls."""
    recalled: Memory = Field(Memory(), exclude=True)
    """What the journal remembers of the calls of the turn at hand."""
    refused: dict[int, str] = Field(default_factory=dict, exclude=True)
    """Of the turn at hand: why arguments do not fit, by the position of their call."""
    resets: int = 0
    """How often an effect has reset the counts of reads."""

    stop: Stop | None = None
    paused: bool = False
    answered: Answer | None = None
    """The latest answer that a user's message kept from ending the run."""
    wrapped_up: bool = False
    """The notice of a wrap-up stands in the transcript."""
    tells: list[str] = Field(default_factory=list)
    """Users' messages that wait for the next model call."""
    recent_requests: list[str] = Field(default_factory=list)
    question: Question | None = None
    """What a person is asked."""
    persons_answer: PersonsAnswer | None = None
    """The answer to it, until the loop takes it."""
    answered_calls: dict[str, AnswerKind] = Field(default_factory=dict)
    """The latest calls that a person answered for, by id, so that a second or late answer is told what stands."""
    notes: list[str] = Field(default_factory=list)
    """Facts a person should know of the result, each once."""

    @property
    def deadline(self) -> float:
        """Seconds since the epoch."""
        return self.started_at + self.limits.seconds

    @property
    def excerpt(self) -> Excerpt | None:
        """What of the transcript is sent, where it is not all of it."""
        return self.window.excerpt() if self.window is not None and self.window.left.messages else None

    def follow(self, policy: ContextPolicy) -> None:
        """Follow the agent's policy for a transcript that outgrows the context. Before the first message."""
        self.window = None if policy == "stop" else Window(summarize=policy == "summarize")

    @property
    def context_bytes(self) -> int:
        """Bytes of the JSON list of the messages that a model is sent and the JSON list of the tool schemas."""
        return self.context_bytes_with([])

    def context_bytes_with(self, messages: Sequence[Weight], window: Window | None = None) -> int:
        """The same with further messages appended, in `window` instead of the one that stands."""
        window = window or self.window
        count, size = self.head.length, self.transcript_bytes
        if window is not None:
            count, size = window.sent(self.run_id)
        joined = max(0, count + len(messages) - 1)
        return 2 + size + sum(message.bytes for message in messages) + joined + self.schemas_bytes

    def seconds_left(self, now: float) -> float:
        """Seconds until the deadline; negative when it passed."""
        return min(self.deadline - now, MAX_DURATION)

    def begin_model_call(self) -> int:
        """Count an admitted model call and reserve its estimate; the number of the call, which no other call has."""
        self.model_calls += 1
        self.exposure += self.limits.estimate
        return self.model_calls + self.withdrawn

    def withdraw_model_call(self, estimate: int) -> None:
        """Take a call back that was never admitted: the run's fund, which only an activity can ask, did not pay for it.
        Its number is not given again, so that a late worker which still holds it begins nothing."""
        self.model_calls -= 1
        self.withdrawn += 1
        self.exposure -= estimate

    def settle_turn(self, turn: Turn, estimate: int) -> None:
        """Replace the estimate reserved for a call by what it cost, where that is known."""
        self.replies += 1
        self.failures_in_row = 0
        if turn.cost is not None:
            self.exposure += turn.cost - estimate

    def settle_failure(self, failure: ModelFailure, estimate: int, allowed: int) -> None:
        """Count a failed call; a reply that was received and refused is charged what it reports, at most the output
        tokens it was allowed, any other call keeps its estimate, since it may have been answered and billed."""
        self.replies += failure.kind != "lost"
        self.failures_in_row += 1
        if failure.cost is not None:
            self.exposure += failure.cost - estimate
        if failure.usage is not None and failure.usage.output_tokens is not None:
            self.output_tokens += min(failure.usage.output_tokens, allowed)

    def append_recorded(self, recorded: Recorded, entry: Entry) -> None:
        """Append a message whose body an activity put into the journal, where `entry` says it is."""
        self._append(recorded.message, recorded.weight, entry)

    def append_message(self, message: Message) -> None:
        """Append a message that the workflow made."""
        self._append(message, weigh(message), Entry(message=message))

    def take_in(self, messages: Iterable[Message], window: Window | None) -> None:
        """Append what goes before a model call, users' messages that waited among it, and send from now on what stands
        in `window`."""
        self.window = window
        self.tells.clear()
        for message in messages:
            self.append_message(message)

    def _append(self, message: Message, weight: Weight, entry: Entry) -> None:
        self.head = extend(self.head, weight)
        if self.window is not None:
            self.window = self.window.appended(message, weight, self.head)
        self.transcript_bytes += weight.bytes
        self.entries.append(entry)

    def journaled(self, entries: int, decisions: int) -> None:
        """The journal holds so many of the oldest entries and decisions now, and what was forgotten; none of it need be
        sent again."""
        del self.entries[:entries], self.decisions[:decisions]
        self.forgotten = Memory()

    def decide(self, now: float, kind: str, **detail: str | float | bool | None) -> None:
        """Remember a decision for the journal. A flood of messages is counted, not kept: it may not grow a payload."""
        self.decisions_made += 1
        if len(self.decisions) >= MAX_DECISIONS:
            self.note("more messages and decisions arrived at once than the journal keeps; the history has them all")
            return
        cut = {name: value[:MAX_DETAIL] if isinstance(value, str) else value for name, value in detail.items()}
        self.decisions.append(Decision(number=self.decisions_made, at=now, kind=kind, detail=dict(cut)))

    def use_ids(self, ids: Iterable[str]) -> None:
        """Mark call ids as used."""
        self.used_ids.update(dict.fromkeys(id_key(call_id) for call_id in ids))
        self._forget(Memory(ids=tuple(_oldest(self.used_ids))))

    def remember(self, seen: dict[str, Seen], reset: bool) -> None:
        """Take over the counts of calls; `reset`: an effect among them has reset those of reads."""
        self.seen = seen
        if reset:
            self.resets += 1
            effects = {key: was for key, was in self.forgotten.seen.items() if not was.read}
            self.forgotten = self.forgotten.model_copy(update={"seen": effects})
        self._forget(Memory(seen={key: seen[key] for key in _oldest(seen)}))

    def _forget(self, oldest: Memory) -> None:
        if not oldest:
            return
        for call_id in oldest.ids:
            del self.used_ids[call_id]
        for key in oldest.seen:
            del self.seen[key]
        before = self.forgotten
        self.forgotten = Memory(ids=before.ids + oldest.ids, seen=before.seen | oldest.seen)
        self.forgot = True

    @property
    def calls_made(self) -> dict[str, Seen]:
        """The calls made, by their key: the latest, and those that the turn at hand may repeat."""
        return {**self.recalled.seen, **self.forgotten.seen, **self.seen}

    def id_is_used(self, call_id: str) -> bool:
        """Whether a call id was used before in the run."""
        key = id_key(call_id)
        return key in self.used_ids or key in self.forgotten.ids or key in self.recalled.ids

    def note(self, text: str) -> None:
        """Remember a fact for the result, once."""
        if text not in self.notes:
            self.notes.append(text)

    def take_answer(self) -> PersonsAnswer | None:
        """The person's answer to the question, if there is one. The question is closed, answered or not."""
        answer, self.question, self.persons_answer = self.persons_answer, None, None
        return answer

    def request_is_new(self, request_id: str | None) -> bool:
        """Whether a change with this id has not been applied yet; remembers the id."""
        if request_id is None:
            return True
        if request_id in self.recent_requests:
            return False
        self.recent_requests = [*self.recent_requests[-(RECENT_REQUESTS - 1) :], request_id]
        return True

    def view(self, now: float) -> StateView:
        """The state as a person sees it, without phase and spec."""
        return StateView(
            run_id=self.run_id,
            status="RUNNING",
            phase="",
            model_calls=self.model_calls,
            tool_calls=self.tool_calls,
            output_tokens=self.output_tokens,
            exposure=self.exposure,
            messages=self.head.length,
            context_bytes=self.context_bytes,
            started_at=self.started_at,
            deadline=min(self.deadline, now + MAX_DURATION),
            working_seconds=self.working_milliseconds / 1000,
            limits=self.limits,
            question=self.question if self.persons_answer is None else None,
            stop=None if self.stop is None else f"{self.stop.mode}: {self.stop.reason or 'no reason given'}",
        )


def _oldest(remembered: dict[str, Any]) -> list[str]:
    """The keys of what the state keeps no longer."""
    return list(islice(remembered, min(max(0, len(remembered) - KEPT), MAX_HANDED)))


class Carried(Payload):
    """What continue-as-new hands to the next run of the chain."""

    spec: RunSpec
    state: RunState
