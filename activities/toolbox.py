"""The tools of an agent: functions of the worker, and what its MCP servers offer."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from activities import failures
from longshift import jsontext
from longshift.agent import Agent, schemas_bytes
from longshift.contracts import ToolServer
from longshift.run_input import InputRefused
from longshift.tools import Tool, ToolSpec
from toolsets.mcp.errors import ServerAway, ServerUnfit

if TYPE_CHECKING:
    from toolsets.mcp.server import (
        FromServer,
        McpServer,
    )  # what it imports would slow the start of a worker that has none

MAX_SPECS_BYTES = 512 * 1024
"""Bytes of all the tools of a run as it records them; Temporal refuses a payload past 2 MiB."""


@dataclass(frozen=True)
class Offered:
    """What an agent's run starts with."""

    tools: tuple[Tool[..., Any], ...]
    servers: tuple[ToolServer, ...] = ()
    notes: tuple[str, ...] = ()


class Toolbox:
    """Where the activities find tools."""

    def __init__(self, agents: Mapping[str, Agent], servers: "Mapping[str, McpServer]") -> None:
        self._agents = agents
        self._servers = servers

    async def offered(self, agent: Agent) -> Offered:
        """The tools that a run of the agent starts with: its own and those of its MCP servers.

        Raises InputRefused where they cannot be used together or as the configuration says, and an ApplicationError
        that the platform tries again while a server is away.
        """
        tools = list(agent.tools)
        servers: list[ToolServer] = []
        notes: list[str] = []
        for found in await asyncio.gather(*map(self._offered, agent.mcp_servers)):
            own = {tool.spec.name for tool in tools}
            twice = [tool.spec.name for tool in found.tools if tool.spec.name in own]
            if twice:
                text = f"its tool {twice[0]} has the name of a tool of the agent's own; give that one another name"
                raise InputRefused({f"mcp_servers.{found.server.name}": text})
            tools += found.tools
            servers.append(found.server)
            notes += found.notes
        specs = [tool.spec for tool in tools]
        size = jsontext.size(jsontext.canonical([spec.model_dump(mode="json") for spec in specs]))
        if size > MAX_SPECS_BYTES:
            text = f"the tools have {size} bytes ({schemas_bytes(specs)} of them are sent to the model), at most "
            raise InputRefused({"mcp_servers": f"{text}{MAX_SPECS_BYTES} are recorded; name fewer in `allow`"})
        return Offered(tuple(tools), tuple(servers), tuple(notes))

    async def _offered(self, name: str) -> "FromServer":
        place = f"mcp_servers.{name}"
        server = self._servers.get(name)
        if server is None:
            known = ", ".join(sorted(self._servers)) or "none"
            raise InputRefused({place: f"no such server on this worker; it knows: {known}"})
        try:
            return await server.offered()
        except ServerAway as error:
            raise failures.tools_away(str(error)) from None
        except ServerUnfit as error:
            raise InputRefused({place: str(error)}) from None

    async def tool(self, agent_name: str, recorded: ToolSpec) -> Tool[..., Any]:
        """The tool that a run recorded when it started. Nothing is asked of a server before the tool is run.

        Raises an ApplicationError (tool_missing) where this worker does not have it.
        """
        agent = self._agents.get(agent_name)
        for own in agent.tools if agent else ():
            if own.spec.name == recorded.name:
                return own
        for name in agent.mcp_servers if agent else ():
            server = self._servers.get(name)
            found = server.tool(recorded) if server else None
            if found is not None:
                return found
        text = f"this worker has no tool {recorded.name} for agent {agent_name}, which the run started with"
        raise failures.tool_missing(text)
