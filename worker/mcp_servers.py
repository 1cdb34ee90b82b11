"""The MCP servers of the configuration, ready to be reached."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

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
