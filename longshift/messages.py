"""The messages of a transcript, and their canonical text."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from longshift import jsontext


class Payload(BaseModel):
    """Base of what crosses between workflow and activity: frozen, and unknown fields are ignored, so that workers
    of an older and a newer version can share a run."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def usual(value: object) -> Callable[[object], bool]:
    """For a field's `exclude_if`: its usual value is left out of a history, where a payload stands once a step."""
    return lambda given: given == value


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


def arguments_digest(call: ToolCall) -> str:
    """Digest of a call's canonical arguments, whether they stand in it or were cut."""
    return call.arguments_sha256 or jsontext.sha256(jsontext.canonical(call.malformed or call.arguments))
