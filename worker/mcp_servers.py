"""The MCP servers of the configuration, ready to be reached."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from longshift.agent import Agent
from worker.problems import SettingsRefused
from worker.settings import Settings

if TYPE_CHECKING:
    from toolsets.mcp.server import McpServer


def mcp_servers(settings: Settings, environ: Mapping[str, str] = os.environ) -> "dict[str, McpServer]":
    """The servers by name. None of them is started: that happens when a run first needs it.

    Raises SettingsRefused for a variable that is to be handed on and is not set.
    """
    if not settings.mcp_servers:
        return {}
    from toolsets.mcp.server import McpServer  # half a second that a worker without MCP servers need not pay

    servers: dict[str, McpServer] = {}
    problems: list[str] = []
    for name, config in settings.mcp_servers.items():
        try:
            servers[name] = McpServer(name, config, environ)
        except ValueError as error:
            problems.append(settings.sources.line(("mcp_servers", name), str(error)))
    if problems:
        raise SettingsRefused(problems)
    return servers


def keys_in_reach(settings: Settings, agents: Mapping[str, Agent]) -> str | None:
    """A warning where agents run commands beside MCP programs that are handed keys: both have one user, and a program's
    environment is open to all of its user's processes. None where there is nothing to warn of."""
    programs = sorted(name for name, server in settings.mcp_servers.items() if server.command and server.env_from)
    commanding = sorted(
        name for name, agent in agents.items() if any(t.spec.name == "run_command" for t in agent.tools)
    )
    if not programs or not commanding:
        return None
    return (
        f"commands of {', '.join(commanding)} can read what env_from hands to the MCP servers {', '.join(programs)}; "
        "where they must not, give these agents a worker and a user of their own"
    )
