"""What every model endpoint is to the rest of the house."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from longshift.messages import AssistantMessage, Message
from longshift.tools import ToolSpec
from longshift.turns import Usage


@dataclass(frozen=True)
class Request:
    """One model call."""

    reply: int
    """Which reply of the run this will be, from 1; a call whose worker was lost brought none."""
    output_tokens: int
    """Output tokens allowed in the reply."""
    tools: Sequence[ToolSpec]
    """The tools offered; empty for a wrap-up and for a summary."""
    messages: Callable[[], Awaitable[Sequence[Message]]]
    """Reads what to send of the transcript. A replay never asks for it."""
    own_id: Callable[[int], str]
    """A call id of ours, unique in the run, for the call at a position in the reply, from 0."""
    estimate: int = 0
    """Micro-USD reserved for the call."""
    observe_malformed: bool = False
    """The agent's `malformed_calls = "observe"`: a call whose arguments are no JSON object is marked, not refused."""


@dataclass(frozen=True)
class Reply:
    """One complete, valid turn as an endpoint parsed it."""

    message: AssistantMessage
    stop_reason: str
    usage: Usage = field(default_factory=Usage)
    cost: int | None = None
    """Micro-USD by the operator's price, rounded up; None where no price is given or the usage makes no sense."""


class Endpoint(Protocol):
    """Sends one model call. Holds its connections; close it when the worker ends."""

    async def send(self, request: Request) -> Reply:
        """Send and parse.

        Raises longshift.turns.CallFailed with a sanitised failure for everything that goes wrong outside, and lets
        asyncio.CancelledError through.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...
