"""What providers refuse in a request, whatever the format, and the form in which it is sent instead."""

import re

from pydantic import JsonValue

from longshift.tools import ToolSpec

EMPTY = "(empty)"
"""Stands for empty text, which some providers refuse."""


def visible(text: str) -> str:
    """The text, or a placeholder for a blank one."""
    return text if text.strip() else EMPTY


def sent_name(name: str) -> str:
    """The name of a call that goes back to the model, which may be of no tool: servers refuse the whole request for a
    name that no tool could have."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


def schema(tool: ToolSpec) -> dict[str, JsonValue]:
    """The JSON schema of a tool's arguments object."""
    return tool.parameters or {"type": "object", "properties": {}}
