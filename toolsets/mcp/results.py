"""What a server's tool returned, as the value of an observation."""

from typing import TYPE_CHECKING

from pydantic import JsonValue

from longshift.tools import ToolRefused

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock


def value(result: "CallToolResult") -> JsonValue:
    """The structured content where there is some, else the text.

    What is neither is told of by its kind and size and left out.

    Raises ToolRefused with the server's text, where it says that the call failed.
    """
    text = "\n".join(map(_text, result.content))
    if result.is_error:
        raise ToolRefused(text.strip() or "the tool failed and said nothing")
    structured: JsonValue = result.structured_content
    return text if structured is None else structured


def _text(block: "ContentBlock") -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return _left_out(block.type, block.mime_type, len(block.data) * 3 // 4 - block.data[-2:].count("="))
        case "resource_link":
            return f"[link to the resource {block.uri}]"
        case "resource":
            inside = block.resource
            body = getattr(inside, "text", None)
            if isinstance(body, str):
                return body
            blob = str(getattr(inside, "blob", ""))
            size = len(blob) * 3 // 4 - blob[-2:].count("=")
            return _left_out(f"resource {inside.uri}", inside.mime_type, size)


def _left_out(what: str, kind: str | None, size: int) -> str:
    return f"[{what}, {kind or 'of unknown type'}, {size} bytes, not shown]"
