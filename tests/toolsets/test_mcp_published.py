"""Servers that others published: the reference servers for git and for time, as their packages install them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longshift.questions import ApprovalRule
from tests.toolsets.mcp_house import opened
from toolsets.mcp.config import McpTool

pytestmark = pytest.mark.asyncio

PROGRAMS = Path(sys.executable).parent


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with a file that is not added yet."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for key, value in (("user.name", "Test"), ("user.email", "test@example.com")):
        subprocess.run(["git", "-C", tmp_path, "config", key, value], check=True)
    (tmp_path / "first.txt").write_text("first\n")
    return tmp_path


async def test_the_git_server_marks_reads_and_idempotent_effects_and_does_what_it_is_asked(repository: Path) -> None:
    section: dict[str, Any] = {
        "command": str(PROGRAMS / "mcp-server-git"),
        "args": ("--repository", str(repository)),
        "allow": ("git_status", "git_add", "git_commit", "git_log"),
        "tools": {
            "git_commit": McpTool(needs_approval=ApprovalRule(argument="message", not_in=("fix",)), timeout_seconds=5)
        },
    }
    path = str(repository)
    async with opened(**section) as house:
        specs = {name: tool.spec for name, tool in house.tools.items()}
        before = await house.call("house__git_status", repo_path=path)
        await house.call("house__git_add", repo_path=path, files=["first.txt"])
        await house.call("house__git_commit", repo_path=path, message="The first file")
        log = await house.call("house__git_log", repo_path=path)
        elsewhere = await house.call("house__git_status", repo_path="/")
        bad = await house.call("house__git_log", repo_path=path, max_count="many")

    assert {name: (spec.kind, spec.idempotent) for name, spec in specs.items()} == {
        "house__git_status": ("read", False),
        "house__git_add": ("effect", True),
        "house__git_commit": ("effect", False),
        "house__git_log": ("read", False),
    }
    assert specs["house__git_commit"].needs_approval == ApprovalRule(argument="message", not_in=("fix",))
    assert specs["house__git_commit"].timeout_seconds == 5
    assert house.offered.server.version.startswith("mcp-git ")
    assert "first.txt" in before["value"]
    assert "The first file" in str(log["value"])
    assert elsewhere["error"]["kind"] == "refused"
    assert "max_count: must be of type integer" in bad["error"]["message"]


async def test_the_time_server_answers_with_structured_content() -> None:
    async with opened(command=str(PROGRAMS / "mcp-server-time"), allow=("convert_time",)) as house:
        seen = await house.call(
            "house__convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"
        )
        wrong = await house.call(
            "house__convert_time", source_timezone="UTC", time="noon", target_timezone="Asia/Tokyo"
        )

    assert seen["value"]["target"]["datetime"].endswith("T21:00:00+09:00")
    assert house.tools["house__convert_time"].spec.kind == "read"
    assert wrong["error"]["kind"] == "refused"
