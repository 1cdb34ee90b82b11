"""The toolbox: what an agent's run starts with, and what a call finds again."""

from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities import toolbox
from activities.toolbox import Toolbox
from longshift import Agent, tool
from longshift.contracts import TOOL_MISSING, TOOLS_AWAY
from longshift.run_input import InputRefused
from longshift.tools import ToolSpec
from tests.toolsets.mcp_house import House, opened, stdio
from toolsets.mcp.config import McpServerConfig
from toolsets.mcp.server import McpServer

pytestmark = pytest.mark.asyncio


@tool(kind="read")
def look() -> str:
    """Look."""
    return "seen"


@tool(kind="read", name="house__look")
def taken() -> str:
    """Look."""
    return "seen"


def keeper(**more: object) -> Agent:
    given = {"name": "keeper", "system": "x", "endpoint": "model", "tools": (look,), "mcp_servers": ("house",), **more}
    return Agent.model_validate(given)


def box(agent: Agent, house: House | McpServer | None) -> Toolbox:
    server = house.server if isinstance(house, House) else house
    return Toolbox({agent.name: agent}, {"house": server} if server else {})


async def test_a_run_starts_with_the_agents_own_tools_and_those_of_its_servers_and_finds_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = keeper()
    async with opened(tmp_path, **stdio(tmp_path), allow=("look", "write")) as house:
        both = box(agent, house)
        offered = await both.offered(agent)
        recorded = offered.tools[1].spec
        assert [one.spec.name for one in offered.tools] == ["look", "house__look", "house__write"]
        assert [server.name for server in offered.servers] == ["house"]
        assert await both.tool("keeper", look.spec) is look
        assert (await both.tool("keeper", recorded)).spec == recorded

        with pytest.raises(
            InputRefused, match=r"mcp_servers.house: its tool house__look has the name of a tool of the"
        ):
            await box(keeper(tools=(taken,)), house).offered(keeper(tools=(taken,)))
        monkeypatch.setattr(toolbox, "MAX_SPECS_BYTES", 100)
        with pytest.raises(InputRefused, match=r"mcp_servers: the tools have .* name fewer in `allow`"):
            await both.offered(agent)


@pytest.mark.parametrize("name", ["house__gone", "other__look", "look2", "house__change"])
async def test_a_tool_that_this_worker_does_not_have_is_missing(name: str) -> None:
    agent = keeper()
    server = McpServer("house", McpServerConfig(command="never-started", allow=("look",)), {})

    with pytest.raises(ApplicationError, match=f"no tool {name} for agent keeper") as raised:
        await box(agent, server).tool("keeper", ToolSpec(name=name))

    assert (raised.value.type, raised.value.non_retryable) == (TOOL_MISSING, True)


async def test_a_run_waits_for_a_server_that_is_away_and_is_refused_for_one_that_the_worker_does_not_know() -> None:
    agent = keeper()
    server = McpServer("house", McpServerConfig(command="/no/such/program", allow=("look",)), {})

    with pytest.raises(ApplicationError, match="the MCP server house is away: it cannot be started") as raised:
        await box(agent, server).offered(agent)
    with pytest.raises(InputRefused, match=r"mcp_servers.house: no such server on this worker; it knows: none"):
        await box(agent, None).offered(agent)

    assert (raised.value.type, raised.value.non_retryable) == (TOOLS_AWAY, False)
