"""Whole shifts with tools of MCP servers: a real Temporal server, a real worker, a published server and one of ours."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.failure.v1 import Failure

from longshift.contracts import TOOLS_AWAY
from longshift.messages import ToolMessage
from longshift.run_input import RunInput
from longshift.status import Status
from tests.acceptance.shift_house import PATIENCE, House
from tests.acceptance.test_secrets import KEY, found_in, left_behind
from tests.toolsets.mcp_house import ROOT, SCRIPT, listening
from worker.child import Child

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]

GIT = Path(sys.executable).with_name("mcp-server-git")


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


async def worker(house: House, names: Sequence[str], servers: str, turns: Sequence[Sequence[dict[str, Any]]]) -> Child:
    """A worker whose agent has the tools of these servers, and makes these calls, a turn each."""
    authored = [{"calls": list(calls), "output_tokens": 1} for calls in turns]
    (house.folder / "turns.json").write_text(json.dumps([*authored, {"content": "Done.", "output_tokens": 1}]))
    (house.folder / "mcp.toml").write_text(
        f'default_agent = "looker"\n[journal]\nurl = "{house.journal_url}"\n[worker]\nheartbeat_seconds = 2\n'
        '[endpoints.authored]\nkind = "replay"\nfile = "turns.json"\n'
        '[agents.looker]\nsystem = "Look."\nendpoint = "authored"\nunknown_outcome = "tell"\n'
        f"mcp_servers = {json.dumps(names)}\n"
        f'[agents.alone]\nsystem = "Look."\nendpoint = "authored"\n{servers}'
    )
    return await house.process(
        "worker",
        LONGSHIFT_CONFIG=str(house.folder / "mcp.toml"),
        LONGSHIFT_WORKER__LOG_LEVEL="debug",
        PLANTED_KEY=KEY,
        PLANTED_AUTHORIZATION=f"Bearer {KEY}",
        MCP_KEY=KEY,
    )


async def observations(house: House) -> dict[str, Any]:
    """The last observation of each tool."""
    found = [message for message in await house.messages() if isinstance(message, ToolMessage)]
    return {message.name: json.loads(message.content) for message in found}


async def why_it_waits(house: House) -> Failure:
    """With what the step that is pending failed last."""
    workflow = await house.workflow()
    async with asyncio.timeout(PATIENCE):
        while True:
            for step in (await workflow.describe()).raw_description.pending_activities:
                if step.HasField("last_failure"):
                    return step.last_failure
            await asyncio.sleep(0.1)  # what a server knows has no event


@pytest.fixture
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with a file that is not added yet."""
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / "new.txt").write_text("new")
    return folder


@pytest.fixture
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where our own server writes what it did."""
    return tmp_path_factory.mktemp("events")


async def test_a_shift_works_with_the_tools_of_two_servers_and_no_key_is_left_anywhere(
    house: House, repository: Path, events: Path
) -> None:
    path = str(repository)
    servers = (
        f'[mcp_servers.git]\ncommand = "{GIT}"\nargs = ["--repository", "{path}"]\n'
        'allow = ["git_status", "git_add"]\ntimeout_seconds = 60\n'
        f'[mcp_servers.own]\ncommand = "{sys.executable}"\nargs = {json.dumps([*SCRIPT, str(events)])}\n'
        f'cwd = "{ROOT}"\n'
        'allow = ["*"]\nenv_from = ["MCP_KEY"]\ntimeout_seconds = 60\n'
    )
    running = await worker(
        house,
        ["git", "own"],
        servers,
        [
            [call("git__git_status", repo_path=path), call("own__look", what="a"), call("own__leak")],
            [call("git__git_add", repo_path=path, files=["new.txt"]), call("git__git_commit", repo_path=path)],
            [call("own__write", text="a line"), call("own__die_writing"), call("own__leak_failing")],
            [call("own__change", description="Other."), call("own__look", what="b")],
        ],
    )
    await house.start(model_calls=9)
    result = await house.result()
    assert await running.stop(60) == 0
    seen = await observations(house)
    async with house.journal() as journal:
        spec = await journal.spec(house.run_id)

    assert (result.status, result.answer) == (Status.COMPLETED, "Done.")
    assert "new.txt" in seen["git__git_status"]["value"]
    assert "staged" in seen["git__git_add"]["value"]
    assert seen["git__git_commit"]["error"]["kind"] == "unknown_tool", "it is not allowed"
    assert seen["own__die_writing"]["error"]["kind"] == "outcome_unknown"
    assert seen["own__look"]["error"]["kind"] == "tool_changed"
    assert (events / "written").read_text().splitlines()[0].startswith(f"a line {house.run_id}/3/0/")
    assert [(server.name, len(server.tools_sha256)) for server in spec.tool_servers] == [("git", 64), ("own", 64)]
    assert all(tool.definition_sha256 for tool in spec.agent.tools)
    searched = [name async for name, text in left_behind(house) if not found_in(text)]
    assert [name async for name, text in left_behind(house) if found_in(text)] == []
    assert any("worker.log" in name for name in searched)
    assert "own: my key is ***" in house.log.read_text()


async def test_a_run_whose_server_is_away_waits_and_says_why_while_others_go_on(house: House, events: Path) -> None:
    async with listening(events) as taken:
        port = taken.port
    servers = (
        f'[mcp_servers.far]\nurl = "http://127.0.0.1:{port}/mcp"\nallow = ["look"]\ntimeout_seconds = 60\n'
        'headers_from = { Authorization = "PLANTED_AUTHORIZATION" }\n'
    )
    await worker(house, ["far"], servers, [[call("far__look", what="a")]])
    await house.start()
    failure = await why_it_waits(house)
    shifts = await house.shifts()
    await shifts.start(RunInput(agent="alone", task="Look."), run_id="alone")
    other = await shifts.result("alone")
    async with listening(events, port, KEY):
        result = await house.result()

    assert "the MCP server far is away: no connection" in failure.message
    assert failure.application_failure_info.type == TOOLS_AWAY
    assert other.status is Status.COMPLETED
    assert result.status is Status.COMPLETED
    assert (await observations(house))["far__look"] == {"ok": True, "value": {"seen": "a", "deep": 1}}
