"""A real MCP server, for what published ones do not do: die in the middle of a call, change its tools, repeat a key.

    python -m tests.toolsets.mcp_server FOLDER            stdio
    python -m tests.toolsets.mcp_server FOLDER http       streamable HTTP; prints its port

It writes what it did into FOLDER, one file for each kind of event. MCP_KEY of its environment is its key: over HTTP,
what requests must carry.
"""

import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import anyio
import uvicorn
from mcp import MCPError
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, Field

folder = Path(sys.argv[1])
server = MCPServer("house", version="1")
READ = ToolAnnotations(read_only_hint=True)
KEY = os.environ.get("MCP_KEY", "")


def noted(event: str, text: str) -> None:
    """Add a line to the file of this kind of event."""
    with (folder / event).open("a") as file:
        file.write(text + "\n")


@server.tool(annotations=READ)
def look(
    what: Annotated[str, Field(pattern="^[a-z]+$", description="what to look at")], deep: int = 1
) -> dict[str, Any]:
    """Look at something."""
    return {"seen": what, "deep": deep}


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def write(text: str, context: Context) -> str:
    """Write a line."""
    meta: Any = context.request_context.meta or {}
    noted("written", f"{text} {meta.get('longshift/operation_id')}")
    return "written"


@server.tool(annotations=READ)
def die_reading() -> str:
    """End in the middle of a read."""
    os._exit(3)


@server.tool()
def die_writing() -> str:
    """End in the middle of an effect."""
    noted("written", "half")
    os._exit(3)


@server.tool()
async def hang() -> str:
    """Never return."""
    noted("hanging", "began")
    try:
        await anyio.sleep_forever()
    finally:
        noted("hanging", "cancelled")
    return ""


@server.tool(annotations=READ)
def leak() -> dict[str, Any]:
    """Repeat the key, wherever something can be said."""
    sys.stderr.write(f"my key is {KEY}\n")
    return {"keys": [f"it is {KEY}"], KEY: 1}


@server.tool(annotations=READ)
def leak_failing() -> str:
    """Repeat the key in an error."""
    raise ToolError(f"the key {KEY} was refused")


@server.tool(annotations=READ)
def picture() -> Image:
    """Draw."""
    return Image(data=b"\0" * 1000, format="png")


@server.tool(annotations=READ)
def decline(code: int) -> str:
    """Answer with a JSON-RPC error."""
    raise MCPError(code, f"declined with {code}")


@server.tool()
def reply(status: int, content_type: str, body: str) -> str:
    """Over HTTP: answered with this, and not in the way of the protocol."""
    return f"{status} {content_type} {body}"


@server.tool(name="not.offered")
def not_offered() -> str:
    """Have a name that providers refuse."""
    return ""


class Agreed(BaseModel):
    """What a person is asked for."""

    really: bool


@server.tool()
async def ask(context: Context) -> str:
    """Ask a person in the middle of an effect."""
    return str(await context.elicit("Really?", Agreed))


@server.tool()
async def ask_first() -> InputRequiredResult:
    """Ask a person in place of an answer."""
    return InputRequiredResult(request_state="asked")


@server.tool()
def change(description: str | None) -> str:
    """Change what `look` says of itself, or take it away."""
    server.remove_tool("look")
    if description is not None:
        server.add_tool(look, description=description, annotations=READ)
    return "changed"


def guarded(app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """The app, for those who know the key; with MCP_OLD, as a server of the protocol before 2026 would answer."""

    async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))

        async def answered(status: int, body: str, content_type: str = "text/plain") -> None:
            kind = [(b"content-type", content_type.encode())]
            await send({"type": "http.response.start", "status": status, "headers": kind})
            await send({"type": "http.response.body", "body": body.encode()})

        if scope["type"] != "http":
            await app(scope, receive, send)
        elif KEY and headers.get(b"authorization", b"").decode() != f"Bearer {KEY}":
            await answered(401, f"not {KEY}")
        elif "MCP_OLD" in os.environ and headers.get(b"mcp-method") == b"server/discover":
            await answered(400, f"not {KEY}")
        elif headers.get(b"mcp-name") == b"reply":
            await answered(**json.loads((await receive())["body"])["params"]["arguments"])
        else:
            await app(scope, receive, send)

    return answer


def main() -> None:
    """Serve until stdin, or the process, ends."""
    noted("pid", str(os.getpid()))
    if sys.argv[2:] != ["http"]:
        server.run()
        return
    listening = socket.create_server(("127.0.0.1", int(os.environ.get("MCP_PORT", "0"))))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    app: Any = server.streamable_http_app()
    config = uvicorn.Config(guarded(app), log_level="critical")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
