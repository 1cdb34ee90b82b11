"""What a history keeps of a message: all of it, or, where it is large, a cut copy and the weight of the whole."""

from pydantic import field_validator

from longshift import jsontext, observations
from longshift.messages import (
    AssistantMessage,
    Message,
    Payload,
    ToolCall,
    ToolMessage,
    Weight,
    arguments_digest,
    weigh,
)

INLINE_BYTES = 8 * 1024
"""A message up to this size stands whole in the workflow history; a larger one is cut there and whole in the
journal. Temporal warns at 512 KiB and refuses at 2 MiB a payload, and 50 MiB a history."""


class Recorded(Payload):
    """A message as a history holds it: whole, or cut with the weight of the whole beside it."""

    message: Message
    whole: Weight | None = None

    @field_validator("message")
    @classmethod
    def _check(cls, message: Message) -> Message:
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            jsontext.canonical(call.arguments)  # raises where a number has none, which nobody could weigh
        return message

    @property
    def weight(self) -> Weight:
        """The weight of the whole message, whether it stands here whole or cut."""
        return self.whole or weigh(self.message)


def record(message: Message) -> Recorded:
    """What a history keeps of `message`: all of it up to INLINE_BYTES, else a cut copy with the whole's weight."""
    whole = weigh(message)
    if whole.bytes <= INLINE_BYTES:
        return Recorded(message=message)
    if isinstance(message, AssistantMessage):
        room = max(256, INLINE_BYTES // (len(message.calls) + 1) // 2)
        calls = tuple(_cut_call(call, room) for call in message.calls)
        return Recorded(
            message=message.model_copy(update={"content": _cut_text(message.content, room), "calls": calls}),
            whole=whole,
        )
    cut = observations.cut if isinstance(message, ToolMessage) else _cut_text
    return Recorded(
        message=message.model_copy(update={"content": cut(message.content, INLINE_BYTES // 2)}), whole=whole
    )


def _cut_call(call: ToolCall, room: int) -> ToolCall:
    if jsontext.size(jsontext.canonical(call.malformed or call.arguments)) <= room:
        return call
    return call.model_copy(
        update={
            "arguments": {},
            "arguments_sha256": arguments_digest(call),
            "malformed": _cut_text(call.malformed, room) if call.malformed else None,
        }
    )


def _cut_text(text: str, room: int) -> str:
    raw = text.encode("utf-8")
    if len(raw) <= room:
        return text
    if not text.strip():
        return ""  # blank it stays: a marker would make an answer of it
    kept = raw[:room].decode("utf-8", "ignore")
    return f"{kept}\n[cut here: {len(raw)} bytes in all, the whole is in the journal]"
