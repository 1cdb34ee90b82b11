"""Requests and messages the tests of this folder share."""

from collections.abc import Sequence
from typing import Any

from endpoints.base import Request
from longshift.messages import Message, SystemMessage, UserMessage
from longshift.tools import ToolSpec

MESSAGES: tuple[Message, ...] = (SystemMessage(content="Be brief."), UserMessage(content="Look at the stock."))
TOOL = ToolSpec(
    name="list_stock", description="Every product.", parameters={"type": "object", "properties": {}}, kind="read"
)


def request(messages: Sequence[Message] = MESSAGES, **changes: Any) -> Request:
    """A request for the first reply with an allowance of 64 tokens."""

    async def read() -> Sequence[Message]:
        return messages

    fields: dict[str, Any] = {
        "reply": 1,
        "output_tokens": 64,
        "tools": (TOOL,),
        "messages": read,
        "own_id": lambda position: f"own-{position}",
    }
    return Request(**(fields | changes))
