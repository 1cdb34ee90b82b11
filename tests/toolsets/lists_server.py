"""A real MCP server whose list of tools comes in pages: some that no model can be offered, a key in a description."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.types import ListToolsResult, PaginatedRequestParams, Tool

from tests.toolsets.mcp_house import KEY


@asynccontextmanager
async def lists(pages: int, errors: Sequence[str] = ()) -> AsyncIterator[dict[str, Any]]:
    """The section's keys for one with so many pages of three tools each; 0: pages without end.

    After its first list it answers with these errors, one each time.
    """
    answers = iter([None, *errors])

    async def list_tools(context: object, params: PaginatedRequestParams | None) -> ListToolsResult:
        error = next(answers, None)
        if error is not None:
            raise MCPError(77, error)
        page = int(params.cursor) if params and params.cursor else 1
        names = [f"good-{page}", f"bad.{page}", f"large-{page}"]
        told = [f"the key is {KEY}", "", "x" * 40_000]
        tools = [
            Tool(name=name, description=text, input_schema={"type": "object"})
            for name, text in zip(names, told, strict=True)
        ]
        return ListToolsResult(tools=tools, next_cursor=None if page == pages else str(page + 1))

    app: Any = Server("lists", version="1", on_list_tools=list_tools).streamable_http_app()
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield {
            "url": f"http://127.0.0.1:{listening.getsockname()[1]}/mcp",
            "headers_from": {"Authorization": "MCP_AUTHORIZATION"},
        }
    finally:
        server.should_exit = True
        await serving
