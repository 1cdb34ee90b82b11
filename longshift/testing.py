"""For the tests of a tool's author: one call of a tool, done just as a worker does it."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import JsonValue

from longshift.observations import observe, read
from longshift.tools import Tool, ToolContext

CONTEXT = ToolContext(run_id="test-run", call_id="test-call", operation_id="test-operation")
"""The context a handler is given unless the test has its own."""


async def call(
    tool: Tool[..., Any], arguments: Mapping[str, Any] | None = None, *, context: ToolContext = CONTEXT
) -> dict[str, JsonValue]:
    """Call a tool as a model would.

    The arguments are checked, the handler runs, its exceptions become observations, and what is over the tool's limit
    is cut. A sync handler runs in the caller's thread.

    Args:
        tool: the tool.
        arguments: the arguments object, JSON types only; none means no arguments.
        context: given to a handler that asks for it.

    Returns:
        The observation the model would read: {"ok": True, "value": ...} or {"ok": False, "error": {"kind", "message"}}.
    """
    observation = await observe(tool, arguments or {}, context, _here)
    return read(observation.content)


async def _here(work: Callable[[], str]) -> str:
    return work()
