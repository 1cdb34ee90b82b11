"""What the tests of MCP servers stand on: a server of the configuration, and calls of its tools as a run makes them."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longshift import jsontext, observations
from longshift.tools import Tool, ToolContext
from toolsets.mcp.config import McpServerConfig
from toolsets.mcp.server import FromServer, McpServer

KEY = "planted-key-0123456789"
ENVIRON = {"MCP_KEY": KEY, "MCP_AUTHORIZATION": f"Bearer {KEY}"}
"""The environment of a worker that has keys to hand on."""
PATIENCE = 60.0
"""Seconds that a server may take to start on a busy machine."""
SCRIPT = ("-m", "tests.toolsets.mcp_server")
ROOT = Path(__file__).parents[2]


@dataclass
class House:
    """A server, and what a run knows of it."""

    server: McpServer
    config: McpServerConfig
    offered: FromServer
    folder: Path = field(default_factory=Path)

    @property
    def tools(self) -> dict[str, Tool[..., Any]]:
        """What is offered, by the names that models know."""
        return {tool.spec.name: tool for tool in self.offered.tools}

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """One call as a run makes it, of the tool that it recorded: the observation."""
        tool = self.server.tool(self.tools[name].spec)
        assert tool is not None
        context = ToolContext(run_id="shift-1", call_id="call-1", operation_id="shift-1/1/0/call-1")
        seen = await observations.observe(tool, arguments, context, asyncio.to_thread)
        body: Any = jsontext.parse(seen.content)
        return dict(body)

    def noted(self, event: str) -> list[str]:
        """What our own server did."""
        file = self.folder / event
        return file.read_text().splitlines() if file.exists() else []

    async def until_noted(self, event: str, line: str) -> None:
        """Wait until our own server did it."""
        async with asyncio.timeout(PATIENCE):
            while line not in self.noted(event):  # noqa: ASYNC110 - another process's file
                await asyncio.sleep(0.01)


@asynccontextmanager
async def opened(folder: Path = Path(), environ: Mapping[str, str] = ENVIRON, **config: Any) -> AsyncIterator[House]:
    """A server by these keys of its section, reached, and ended afterwards."""
    given = {"allow": ("*",), "timeout_seconds": PATIENCE, **config}
    section = McpServerConfig(**given)
    server = McpServer("house", section, environ)
    try:
        yield House(server, section, await server.offered(), folder)
    finally:
        await server.close()


def stdio(folder: Path) -> dict[str, Any]:
    """The section's keys for our own server as a program."""
    return {"command": sys.executable, "args": (*SCRIPT, str(folder)), "cwd": ROOT, "env_from": ("MCP_KEY",)}


@dataclass
class Listening:
    """Our own server behind HTTP, in a process of its own."""

    process: asyncio.subprocess.Process
    port: int

    @property
    def section(self) -> dict[str, Any]:
        """The section's keys for it."""
        return {"url": f"http://127.0.0.1:{self.port}/mcp", "headers_from": {"Authorization": "MCP_AUTHORIZATION"}}

    async def kill(self) -> None:
        """End it as a crash would."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def listening(folder: Path, port: int = 0, key: str = KEY, **environment: str) -> AsyncIterator[Listening]:
    """Our own server behind HTTP, for those who know the key."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *SCRIPT,
        str(folder),
        "http",
        cwd=ROOT,
        env={**os.environ, "MCP_KEY": key, "MCP_PORT": str(port), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    server = Listening(process, port)
    try:
        assert process.stdout is not None
        server.port = int(await process.stdout.readline())
        yield server
    finally:
        await server.kill()
