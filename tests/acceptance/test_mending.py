"""The coding shift of examples/mending, run as its folder says: on a real server, by a real worker."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from longshift import validate_episode
from longshift.observations import read
from tests.acceptance import warm
from tests.acceptance.commands import Ended, clean_environment, longshift
from tests.toolsets.workspaces import HOLDS, Alive
from worker.child import Child
from worker.dev_server import DevServer

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

MENDING = Path(__file__).parents[2] / "examples" / "mending"
TASK = json.loads((MENDING / "turns.json").read_text(encoding="utf-8"))["task"]


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder but what Python compiled."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc")
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def outcome_of_tests(project: Path) -> subprocess.CompletedProcess[str]:
    """The project's own tests, run by us."""
    command = [sys.executable, "-B", "-m", "unittest", "-q"]
    return subprocess.run(command, cwd=project, env=clean_environment(), capture_output=True, text=True, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example, with its project laid out to be worked on."""
    copy = tmp_path / "mending"
    shutil.copytree(MENDING, copy, ignore=shutil.ignore_patterns("work", "__pycache__"))
    shutil.copytree(copy / "project", copy / "work")
    return copy


@asynccontextmanager
async def at_work(folder: Path, state: Path, **variables: str) -> AsyncIterator[tuple[Child, dict[str, str]]]:
    """A worker of the example in `folder`, beside a server, and the environment of commands about them."""
    async with DevServer(state / "server", ui=False) as server:
        journal = f"sqlite:///{state / 'journal.db'}"
        env = clean_environment(TEMPORAL_ADDRESS=server.address, LONGSHIFT_JOURNAL__URL=journal, **variables)
        config = str(folder / "longshift.toml")
        worker = await warm.start_child("worker", ["--config", config], state / "worker.log", env)
        try:
            yield worker, env
        finally:
            await worker.kill()
            await server.kill()  # an orderly end takes a second


def run_shift(folder: Path, env: Mapping[str, str]) -> tuple[Ended, Ended, Ended]:
    """Run the shift, as the example says: what `run`, then `transcript` and `eval` printed."""
    run = longshift("run", TASK, "--id", "mending", "--json", env=env, cwd=folder)
    transcript = longshift("transcript", "mending", "--json", env=env, cwd=folder)
    return run, transcript, longshift("eval", "mending", env=env, cwd=folder)


def observed(messages: list[dict[str, Any]]) -> Mapping[str, Any]:
    """What each call of the shift returned."""
    return {item["call_id"]: read(item["content"]).get("value") for item in messages if item["role"] == "tool"}


async def test_a_replayed_shift_finds_and_fixes_a_bug_until_the_tests_pass(folder: Path, tmp_path: Path) -> None:
    template = contents(MENDING / "project")
    before = outcome_of_tests(folder / "work")

    async with at_work(folder, tmp_path / "state") as (_, env):
        run, transcript, judged = await asyncio.to_thread(run_shift, folder, env)

    assert "FAILED (failures=1)" in before.stderr
    assert (run.code, run.document["status"], run.document["tool_calls"]) == (0, "COMPLETED", 8), run
    messages = transcript.document["messages"]
    report = validate_episode(messages)
    assert (report.problem, report.complete, len(messages)) == (None, True, 17)
    values = observed(messages)
    assert (values["tests-1"]["exit_code"], values["tests-2"]["exit_code"]) == (1, 0)
    assert "-28800 != 14400" in values["tests-1"]["output"]
    assert values["find"]["matches"][-1] == "rota/clock.py:13: def between(start: int, end: int) -> int:"
    assert judged.out.startswith("pass  mending  tests_pass: the last run of the tests ended with exit code 0 (COMP")
    assert judged.code == 0, judged
    assert outcome_of_tests(folder / "work").returncode == 0
    mended = contents(folder / "work")
    assert {name for name in mended if mended[name] != template.get(name)} == {"rota/clock.py"}
    assert contents(MENDING / "project") == template == contents(folder / "project")
    assert str(folder) not in json.dumps([value for name, value in values.items() if not name.startswith("tests")])


async def test_a_worker_that_ends_past_its_grace_kills_the_command_in_flight(folder: Path, tmp_path: Path) -> None:
    alive = Alive(folder / "work")
    arguments = {"command": f"{HOLDS} sleep 1000 & sleep 1000"}
    turn = {"calls": [{"id": "endless", "name": "run_command", "arguments": arguments}]}
    variables = {
        "LONGSHIFT_WORKER__GRACE_SECONDS": "0.2",
        "LONGSHIFT_ENDPOINTS__ENDLESS": json.dumps({"kind": "replay", "turns": [turn]}),
    }
    async with at_work(folder, tmp_path / "state", **variables) as (worker, env):
        start = ("start", TASK, "--id", "mending", "--endpoint", "endless", "--json")
        started = await asyncio.to_thread(longshift, *start, env=env, cwd=folder)
        assert started.code == 0, started
        await alive.begun()

        assert await worker.stop(60) == 0

        await alive.gone()
