"""The episode invariant: every call has its one observation, and nothing stands where it may not.

The rules, each checked at the message that would break it:

- a system message stands only at the start;
- an assistant message is a final answer (text, no calls) or asks for well-formed calls: each with an id that no call
  of the episode had before; one that names no tool is of an unknown tool and can only be answered by an error;
- the calls of a batch are answered in their order, one observation each, by id and name, and nothing else stands
  between them;
- an assistant message never follows an assistant message: after a final answer comes a user's message, or nothing;
- an observation is the JSON text that longshift/observations.py describes.

An episode may end anywhere: inside a batch (a run that was stopped there), or before the answer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from longshift import observations
from longshift.messages import AssistantMessage, Message, Payload, SystemMessage, ToolCall, ToolMessage
from longshift.plainjson import whole_text

MAX_REASON = 300
"""Characters of a reason; an id in it may be of any length."""

_MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


class Problem(Payload):
    """The first message that breaks the invariant."""

    index: int
    """Its place in the transcript, from 0."""
    reason: str
    """A sentence."""


class EpisodeReport(Payload):
    """What `validate_episode` found."""

    valid: bool
    """No message breaks the invariant."""
    complete: bool
    """Valid, and the last message is a final answer with text."""
    unanswered: tuple[str, ...] = ()
    """Ids of the calls in the last batch that have no observation, in order."""
    problem: Problem | None = None


@dataclass
class _Episode:
    """What is known of the messages read so far."""

    last: Message | None = None
    ids: set[str] = field(default_factory=set)
    """Ids of all calls."""
    open: list[ToolCall] = field(default_factory=list)
    """Calls of the latest batch without an observation yet, in order."""


def validate_episode(messages: object) -> EpisodeReport:
    """Check the structure of a transcript.

    Args:
        messages: the messages in order, as objects or as mappings of the same shape. Never changed; whatever else
            stands there is reported as a problem, never raised.
    """
    if not isinstance(messages, Iterable) or isinstance(messages, (str, bytes, Mapping)):
        return _broken(0, f"the transcript is a {type(messages).__name__}, not a sequence of messages")
    seen = _Episode()
    index = 0
    try:
        for index, item in enumerate(messages):
            message = _MESSAGE.validate_python(dict(item) if isinstance(item, Mapping) else item)
            reason = _broken_rule(seen, message)
            if reason is not None:
                return _broken(index, reason)
        last = seen.last
        final = isinstance(last, AssistantMessage) and not last.calls and bool(last.content.strip())
        return EpisodeReport(valid=True, complete=final, unanswered=tuple(call.id for call in seen.open))
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in details["loc"]) or "the item"
        return _broken(index, f"it is no message: {place}: {details['msg']}")
    except Exception as error:  # a foreign sequence or mapping may raise anything when it is read
        return _broken(index, f"it cannot be read: {type(error).__name__}")


def _broken(index: int, reason: str) -> EpisodeReport:
    shown = whole_text(reason, set())[:MAX_REASON]
    return EpisodeReport(valid=False, complete=False, problem=Problem(index=index, reason=shown))


def _broken_rule(seen: _Episode, message: Message) -> str | None:
    """Why `message` may not stand next, or None; then it is taken in."""
    if isinstance(message, ToolMessage):
        reason = _observation(seen, message)
    elif seen.open:
        reason = f"the call {seen.open[0].id} has no observation before this {message.role} message"
    elif isinstance(message, SystemMessage) and seen.last is not None:
        reason = "a system message stands only at the start"
    elif isinstance(message, AssistantMessage):
        reason = _turn(seen, message)
    else:
        reason = None
    seen.last = message
    return reason


def _turn(seen: _Episode, message: AssistantMessage) -> str | None:
    if isinstance(seen.last, AssistantMessage):
        return "an assistant message follows a final answer; only a user message may"
    for call in message.calls:
        if not call.id:
            return f"a call of {call.name} has no id"
        if call.id in seen.ids:
            return f"the call id {call.id} was used before"
        seen.ids.add(call.id)
    seen.open.extend(message.calls)
    return None


def _observation(seen: _Episode, message: ToolMessage) -> str | None:
    shown = message.call_id or "(empty)"
    if not seen.open:
        known = "is answered already" if message.call_id in seen.ids else "was never made"
        return f"an observation for the call {shown}, which {known}"
    due = seen.open.pop(0)
    if message.call_id != due.id:
        return f"an observation for the call {shown} where that of {due.id} is due"
    if message.name != due.name:
        return f"the observation of the call {due.id} names the tool {message.name}, the call names {due.name}"
    try:
        body = observations.read(message.content)
    except ValueError as error:
        return f"the observation of the call {due.id} is not one: {error}"
    return f"the call {due.id} names no tool and yet has a result" if body["ok"] and not due.name else None
