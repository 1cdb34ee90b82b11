"""What of a transcript a model is sent where all of it does not fit: the policies `window` and `summarize`.

The system and the first user's message stay, whole oldest exchanges leave, and one user's message stands in for them:
a marker, or a summary that the model itself wrote. An exchange is an assistant message with all up to the next one, so
no call is ever sent without its observation. The transcript, its chain and the journal keep everything.

When the window moves it moves far, down to TARGET of the limit: what is sent then begins the same way for many calls,
and a provider's prompt cache serves them.

What stands here is fixed by what was done with it: workflows that replay decide by these shares and sizes, and what old
calls were sent is shown by these texts. Another wording needs a field of the Excerpt that says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import Field

from longshift.chain import Head
from longshift.messages import AssistantMessage, Message, Payload, UserMessage, Weight, usual, weigh

TARGET = 0.75
"""Share of `context_bytes` that what is sent takes at most once the window has moved, where the latest exchange lets
it."""
ASKED_SHARE, TAKEN_SHARE = 1 / 8, 1 / 4
"""Shares of `context_bytes` that a summary is asked to take at most, and may take."""
CHARACTERS_PER_TOKEN = 2
"""A summary is asked to have at most so many characters for each output token it is allowed, so that it is not cut."""
MAX_PARTS = 64
"""Parts of a window whose sizes are carried on; past them the smallest neighbours become one, and leave together."""

_NO_TEXT = weigh(AssistantMessage(content="")).bytes


class Summary(Payload):
    """A summary that stands in for exchanges that are left out."""

    call: int
    """Number of the model call whose text it is."""
    sha256: str
    """Digest of that call's message."""
    exchanges: int
    """How many of the exchanges left out it tells of. They and the `untold` ones are the oldest."""
    untold: int = Field(0, exclude_if=usual(0))
    """How many exchanges had left without a summary before it was asked for: it was not sent them."""
    bytes: int
    """Of its text in JSON."""


class Excerpt(Payload):
    """What of a transcript a model call is sent."""

    kept: Head
    """The messages at its beginning that are sent: where the chain stands after them."""
    start: int
    """Number of the message, from 0, with which the rest of it begins."""
    exchanges: int = Field(0, exclude_if=usual(0))
    """Exchanges between the two that are left out, and that a marker stands in for."""
    summary: Summary | None = Field(None, exclude_if=usual(None))
    """What the marker goes on with."""
    until: int | None = Field(None, exclude_if=usual(None))
    """Set for a call that asks for a summary: number of the message before which what is sent ends, and an instruction
    follows."""
    characters: int = Field(0, exclude_if=usual(0))
    """Characters that the summary is asked to have at most."""


class Part(Payload):
    """Size of neighbouring exchanges that leave together."""

    exchanges: int = Field(1, exclude_if=usual(1))
    messages: int = 0
    bytes: int = 0
    """Of the messages' JSON, without what joins them."""

    def __add__(self, other: "Part") -> "Part":
        """Both as one."""
        return Part(
            exchanges=self.exchanges + other.exchanges,
            messages=self.messages + other.messages,
            bytes=self.bytes + other.bytes,
        )


_NOTHING = Part(exchanges=0)


class Window(Payload):
    """What the next model call would be sent of a run's transcript, by its sizes."""

    summarize: bool = False
    """A summary is asked for before exchanges leave."""
    kept: Head = Head()
    """The messages that never leave: where the chain stands after them."""
    kept_bytes: int = 0
    asked: bool = False
    """The first user's message is one of them."""
    left: Part = _NOTHING
    """What is left out."""
    summary: Summary | None = None
    parts: tuple[Part, ...] = ()
    """What is sent beside, from the oldest; the latest exchange is a part of its own."""

    def appended(self, message: Message, weight: Weight, head: Head) -> Self:
        """The window with one more message, after which the chain stands at `head`."""
        if not self.parts and not self.asked and message.role in ("system", "user"):
            kept = {"kept": head, "kept_bytes": self.kept_bytes + weight.bytes, "asked": message.role == "user"}
            return self.model_copy(update=kept)
        if self.parts and message.role != "assistant":
            latest = self.parts[-1]
            grown = latest.model_copy(update={"messages": latest.messages + 1, "bytes": latest.bytes + weight.bytes})
            return self.model_copy(update={"parts": (*self.parts[:-1], grown)})
        return self.model_copy(update={"parts": (*_joined(self.parts), Part(messages=1, bytes=weight.bytes))})

    def without(self, parts: int) -> Self:
        """The window without so many of its oldest parts."""
        left = sum(self.parts[:parts], self.left)
        return self.model_copy(update={"left": left, "parts": self.parts[parts:]})

    def told_by(self, summary: Summary | None) -> Self:
        """The window with another summary, or with the bare marker."""
        return self.model_copy(update={"summary": summary})

    def excerpt(self) -> Excerpt:
        """What is sent, by reference."""
        start = self.kept.length + self.left.messages
        return Excerpt(kept=self.kept, start=start, exchanges=self.left.exchanges, summary=self.summary)

    def sent(self, run_id: str) -> tuple[int, int]:
        """Messages that are sent, and the bytes of their JSON, without what joins them."""
        messages = self.kept.length + sum(part.messages for part in self.parts)
        size = self.kept_bytes + sum(part.bytes for part in self.parts)
        if not self.left.exchanges:
            return messages, size
        marker = weigh(UserMessage(content=heading(run_id, self.excerpt()))).bytes
        return messages + 1, size + marker + (self.summary.bytes if self.summary else 0)


@dataclass(frozen=True)
class SummaryCall:
    """A model call that asks for a summary."""

    excerpt: Excerpt
    """What it is sent."""
    bytes: int
    """How much that is, with the tool schemas."""
    after: Window
    """The window without what is summarized, as it is where the summary cannot be used."""


Measure = Callable[[Sequence[Weight], Window], int]
"""Bytes that a model call needs with some messages appended to what stands in a window."""


def fitting(window: Window, appending: Sequence[Weight], measure: Measure, limit: int) -> Window:
    """`window` where it fits, else the one with the fewest exchanges left out that takes at most TARGET of the limit.
    Where none is so small: nothing but the latest exchange, and without the summary too where that would not fit."""
    if measure(appending, window) <= limit:
        return window
    smaller = window
    for parts in range(1, len(window.parts)):
        smaller = window.without(parts)
        if measure(appending, smaller) <= limit * TARGET:
            return smaller
    return smaller if measure(appending, smaller) <= limit or smaller.summary is None else smaller.told_by(None)


def summary_call(
    window: Window, appending: Sequence[Weight], measure: Measure, limit: int, allowed: int
) -> SummaryCall | None:
    """The call that has the oldest exchanges summarized: as few as bring what is sent to TARGET of the limit, and no
    more than it can be sent at once, since what is left over is summarized by a further call. None where there is none.

    Args:
        appending: what waits for the call after it.
        allowed: output tokens that the call is allowed.
    """
    characters = min(int(limit * ASKED_SHARE), CHARACTERS_PER_TOKEN * allowed)
    expected = Summary(call=0, sha256="", exchanges=0, bytes=characters)
    latest = window.without(len(window.parts) - 1).told_by(expected)
    if measure(appending, latest) > limit:
        return None
    asking = [weigh(UserMessage(content=instruction(characters)))]
    found = None
    for parts in range(1, len(window.parts)):
        size = measure(asking, window.model_copy(update={"parts": window.parts[:parts]}))
        if size > limit:
            break
        after = window.without(parts)
        until = after.kept.length + after.left.messages
        excerpt = window.excerpt().model_copy(update={"until": until, "characters": characters})
        found = SummaryCall(excerpt, size, after)
        if measure(appending, after.told_by(expected)) <= limit * TARGET:
            break
    return found


def summarized(
    call: SummaryCall,
    message: AssistantMessage,
    weight: Weight,
    number: int,
    limit: int,
    untold_count: Callable[[], bool] = lambda: True,
) -> Window | str:
    """The window once a summary came: with it, or why it cannot be used.

    Args:
        message: the reply, which may stand here cut.
        weight: of the whole reply.
        number: of the model call.
        untold_count: whether the summary says that others left without one; asked only where some did.
    """
    if message.calls:
        return "it asks for tool calls"
    if not message.content.strip():
        return "it is blank"
    size = weight.bytes - _NO_TEXT
    if size > limit * TAKEN_SHARE:
        return f"it takes {size} bytes where {int(limit * TAKEN_SHARE)} may be taken"
    before = call.excerpt
    untold = before.exchanges - (before.summary.exchanges if before.summary else 0)
    if untold and not untold_count():
        untold = 0
    exchanges = call.after.left.exchanges - untold
    summary = Summary(call=number, sha256=weight.sha256, exchanges=exchanges, untold=untold, bytes=size)
    return call.after.told_by(summary)


def compose(
    run_id: str, excerpt: Excerpt, opening: Sequence[Message], rest: Sequence[Message], summary: str
) -> list[Message]:
    """The messages that a call is sent.

    Args:
        opening: those that stay.
        rest: those from `excerpt.start` on.
        summary: the text of `excerpt.summary`; empty where there is none.
    """
    marker = [UserMessage(content=heading(run_id, excerpt) + summary)] if excerpt.exchanges else []
    if excerpt.until is None:
        return [*opening, *marker, *rest]
    asked = UserMessage(content=instruction(excerpt.characters))
    return [*opening, *marker, *rest[: excerpt.until - excerpt.start], asked]


def heading(run_id: str, excerpt: Excerpt) -> str:
    """The text that stands in for what is left out; a summary follows it, where there is one."""
    messages = excerpt.start - excerpt.kept.length
    text = (
        f"[{_counted(excerpt.exchanges, 'earlier exchange')} of this run ({_counted(messages, 'message')}) stood here "
        "and are left out, since the transcript outgrew the context. All of them are in the journal; a person sees "
        f"them with: longshift transcript {run_id}]"
    )
    told = excerpt.summary
    if told is None:
        return text
    reaches = told.exchanges + told.untold
    of = "them" if reaches == excerpt.exchanges else f"the first {reaches} of them"
    if told.untold:
        of = f"{told.exchanges} of {of}"
    return f"{text}\n[This is a summary of {of}, which you wrote in model call {told.call}.]\n\n"


def instruction(characters: int) -> str:
    """What a model is told that is to write a summary."""
    return (
        "[The exchanges between the first user's message and this one are about to leave your context, and what you "
        "answer now takes their place. Summarize them, and any summary that stands before them, for yourself: what "
        "was asked for and said by the user since, what was done and with what result (with names, ids and figures), "
        "what failed, what was decided and why, and what is left to do. Do not go on with the work now and call no "
        f"tools. Answer with the summary alone, in at most {characters} characters.]"
    )


def _joined(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts, two neighbours of them made one where there are MAX_PARTS."""
    if len(parts) < MAX_PARTS:
        return parts
    at = min(range(len(parts) - 1), key=lambda n: parts[n].bytes + parts[n + 1].bytes)
    return (*parts[:at], parts[at] + parts[at + 1], *parts[at + 2 :])


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"
