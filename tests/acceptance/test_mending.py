"""The coding shift of examples/mending, run as its folder says: on a real server, by a real worker."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from longshift import validate_episode
from longshift.observations import read
from tests.acceptance.commands import Ended, clean_environment, longshift
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


async def shift(folder: Path, state: Path) -> tuple[Ended, Ended]:
    """Run the shift of the example in `folder`: what `run` and then `transcript` printed."""
    async with DevServer(state / "server", ui=False) as server:
        journal = f"sqlite:///{state / 'journal.db'}"
        env = clean_environment(TEMPORAL_ADDRESS=server.address, LONGSHIFT_JOURNAL__URL=journal)
        config = str(folder / "longshift.toml")
        worker = await Child.start([sys.executable, "-m", "worker", "--config", config], state / "worker.log", env)
        try:
            run = longshift("run", TASK, "--id", "mending", "--json", env=env, cwd=folder)
            transcript = longshift("transcript", "mending", "--json", env=env, cwd=folder)
        finally:
            await worker.kill()
        await server.kill()  # an orderly end takes a second
    return run, transcript


def observed(messages: list[dict[str, Any]]) -> Mapping[str, Any]:
    """What each call of the shift returned."""
    return {item["call_id"]: read(item["content"]).get("value") for item in messages if item["role"] == "tool"}


async def test_a_replayed_shift_finds_and_fixes_a_bug_until_the_tests_pass(tmp_path: Path) -> None:
    template = contents(MENDING / "project")
    folder = tmp_path / "mending"
    shutil.copytree(MENDING, folder, ignore=shutil.ignore_patterns("work", "__pycache__"))
    shutil.copytree(folder / "project", folder / "work")
    before = outcome_of_tests(folder / "work")

    run, transcript = await shift(folder, tmp_path / "state")

    assert "FAILED (failures=1)" in before.stderr
    assert (run.code, run.document["status"], run.document["tool_calls"]) == (0, "COMPLETED", 8), run
    messages = transcript.document["messages"]
    report = validate_episode(messages)
    assert (report.problem, report.complete, len(messages)) == (None, True, 17)
    values = observed(messages)
    assert (values["tests-1"]["exit_code"], values["tests-2"]["exit_code"]) == (1, 0)
    assert "-28800 != 14400" in values["tests-1"]["output"]
    assert values["find"]["matches"][-1] == "rota/clock.py:13: def between(start: int, end: int) -> int:"
    assert outcome_of_tests(folder / "work").returncode == 0
    mended = contents(folder / "work")
    assert {name for name in mended if mended[name] != template.get(name)} == {"rota/clock.py"}
    assert contents(MENDING / "project") == template == contents(folder / "project")
    assert str(folder) not in json.dumps([value for name, value in values.items() if not name.startswith("tests")])
