"""A real MCP server whose list of tools comes in pages: some that no model can be offered, a key in a description.

python -m tests.toolsets.lists_server PAGES      0: pages without end
"""

import os
import sys

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import ListToolsResult, PaginatedRequestParams, Tool

PAGES = int(sys.argv[1])


async def list_tools(context: object, params: PaginatedRequestParams | None) -> ListToolsResult:
    """A page of three tools."""
    page = int(params.cursor) if params and params.cursor else 1
    names = [f"good-{page}", f"bad.{page}", f"large-{page}"]
    told = [f"the key is {os.environ.get('MCP_KEY')}", "", "x" * 40_000]
    tools = [
        Tool(name=name, description=text, input_schema={"type": "object"})
        for name, text in zip(names, told, strict=True)
    ]
    return ListToolsResult(tools=tools, next_cursor=None if page == PAGES else str(page + 1))


async def main() -> None:
    """Serve until stdin ends."""
    server = Server("lists", version="1", on_list_tools=list_tools)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
