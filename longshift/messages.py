"""The messages of a transcript, their canonical text, and what is kept when one is too large for a history."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from longshift import jsontext

INLINE_BYTES = 8 * 1024
"""A message up to this size stands whole in the workflow history; a larger one is cut there and whole in the
journal. Temporal warns at 512 KiB and refuses at 2 MiB a payload, and 50 MiB a history."""


class Payload(BaseModel):
    """Base of what crosses between workflow and activity: frozen, and unknown fields are ignored, so that workers
    of an older and a newer version can share a run."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ToolCall(Payload):
    """One operation the model asks for."""

    id: str
    name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    arguments_sha256: str | None = None
    """Set where `arguments` was too large for the history and left out of it: the digest of their canonical JSON."""
    malformed: str | None = None
    """Set where the arguments were no JSON object and the agent observes such calls: what the server sent, cut."""


class SystemMessage(Payload):
    """The agent's instructions."""

    role: Literal["system"] = "system"
    content: str


class UserMessage(Payload):
    """A person's message, or a notice of Longshift's own."""

    role: Literal["user"] = "user"
    content: str


class AssistantMessage(Payload):
    """One turn of the model: text, calls, or both."""

    role: Literal["assistant"] = "assistant"
    content: str
    calls: tuple[ToolCall, ...] = ()


class ToolMessage(Payload):
    """The observation that answers one call. `content` is JSON text: `{"ok": true, "value": ...}` or
    `{"ok": false, "error": {"kind": ..., "message": ...}}`."""

    role: Literal["tool"] = "tool"
    call_id: str
    name: str
    content: str


Message = Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


def text_of(message: SystemMessage | UserMessage | AssistantMessage | ToolMessage) -> str:
    """The canonical JSON of a message: what is hashed, measured against `context_bytes` and kept in the journal."""
    return jsontext.canonical(message.model_dump(mode="json", exclude_none=True))


class Weight(Payload):
    """Size and digest of a message's canonical JSON."""

    bytes: int
    sha256: str


def weigh(message: SystemMessage | UserMessage | AssistantMessage | ToolMessage) -> Weight:
    """Size in bytes and digest of a whole message."""
    text = text_of(message)
    return Weight(bytes=jsontext.size(text), sha256=jsontext.sha256(text))


class Recorded(Payload):
    """A message as a history holds it: whole, or cut with the weight of the whole beside it."""

    message: Message
    whole: Weight | None = None

    @property
    def weight(self) -> Weight:
        """The weight of the whole message, whether it stands here whole or cut."""
        return self.whole or weigh(self.message)


def record(message: SystemMessage | UserMessage | AssistantMessage | ToolMessage) -> Recorded:
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
    cut = message.model_copy(update={"content": _cut_text(message.content, INLINE_BYTES // 2)})
    return Recorded(message=cut, whole=whole)


def arguments_digest(call: ToolCall) -> str:
    """Digest of a call's canonical arguments, whether they stand in it or were cut."""
    return call.arguments_sha256 or jsontext.sha256(jsontext.canonical(call.malformed or call.arguments))


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
    kept = raw[:room].decode("utf-8", "ignore")
    return f"{kept}\n[cut here: {len(raw)} bytes in all, the whole is in the journal]"
