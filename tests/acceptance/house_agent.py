"""The agent that the crash tests put to work, in a worker process of its own."""

import asyncio
import os
from urllib.parse import quote

from longshift import Agent, tool

OUTSIDE = "SHIFT_HOUSE_OUTSIDE"
"""Names the variable that holds host:port of the test's own server."""


async def visit(name: str) -> None:
    """Tell the test that this process has come to a point, and wait there until the test lets it go on."""
    host, _, port = os.environ[OUTSIDE].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"GET /{quote(name)} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await reader.read()
    finally:
        writer.close()


@tool(kind="read", timeout_seconds=60)
async def look(what: str) -> dict[str, str]:
    """Look at something."""
    await visit(f"look {what}")
    return {"seen": what}


agent = Agent(name="looker", system="Look at everything.", endpoint="model", tools=(look,))
