"""Commands: what is told of them, what they can see, and that nothing they start outlives them."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from longshift.testing import call
from tests.toolsets.workspaces import HOLDS, Alive, Tools, worker
from toolsets.workspace import MAX_SECONDS, commands

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

KEY = "sk-planted-0123456789abcdefghijklmnop"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="what leaves its group is found on Linux only")


@pytest.fixture
def alive(tools: Tools) -> Alive:
    return Alive(tools.root)


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("echo out; echo err >&2; echo out; exit 3", {"exit_code": 3, "output": "out\nerr\nout\n"}),
        ("cat; echo $?", {"exit_code": 0, "output": "0\n"}),
        ("cd src && ls", {"exit_code": 0, "output": "main.py\n"}),
        ("kill -9 $$", {"exit_code": 137, "output": ""}),
        ("trap 'exit 7' TERM; kill 0; sleep 60", {"exit_code": 7, "output": ""}),
        ("[[ a == a ]] && echo {1..3}", {"exit_code": 0, "output": "1 2 3\n"}),
        (
            "printf '\\377'",
            {"exit_code": 0, "output": "\ufffd", "note": "not all of it is UTF-8; what is not is shown as \ufffd"},
        ),
    ],
)
async def test_a_command_gives_its_exit_code_and_what_it_printed(
    tools: Tools, command: str, value: dict[str, Any]
) -> None:
    assert await tools.value("run_command", command=command) == value


async def test_a_flood_of_output_is_cut_in_the_middle_between_characters(tools: Tools) -> None:
    value = await tools.value("run_command", command="echo first; printf 'ü%.0s' {1..30000}; echo; echo last; exit 1")
    head, cut, tail = value["output"].partition("\n[44012 bytes are left out here]\n")
    assert cut
    assert (head[:8], tail[-7:]) == ("first\nüü", "ü\nlast\n")
    assert set(head[6:]) == set(tail[:-6]) == {"ü"}
    assert len(head.encode()) <= commands.HEAD
    assert len(tail.encode()) <= commands.TAIL
    assert (value["exit_code"], value["note"]) == (
        1,
        "the output is cut in the middle; send it to a file to read all of it",
    )


async def test_output_without_end_is_cut_and_stopped(tools: Tools) -> None:
    value = await tools.value("run_command", command="yes", timeout_seconds=1)
    assert value["exit_code"] is None
    assert len(value["output"].encode()) <= commands.HEAD + commands.TAIL + 100


@pytest.mark.parametrize(
    "started",
    [
        pytest.param("sleep 1000", id="in the foreground"),
        pytest.param("sleep 1000 & wait", id="in the background"),
        pytest.param("trap '' TERM INT HUP; sleep 1000; sleep 1000", id="deaf"),
        pytest.param("(setsid sleep 1000 &); sleep 1000", id="in a session of its own", marks=LINUX),
        pytest.param(
            "(setsid bash -c '(setsid sleep 1000 &); setsid sleep 1000' &); sleep 1000", id="a daemon's", marks=LINUX
        ),
    ],
)
async def test_at_its_timeout_everything_a_command_started_is_killed_and_its_output_told(
    tools: Tools, alive: Alive, started: str
) -> None:
    value = await tools.value("run_command", command=f"{HOLDS} echo so far; {started}", timeout_seconds=1)
    await alive.begun()
    await alive.gone()
    note = "killed after 1 s, its timeout_seconds, with all that it had started"
    assert value == {"exit_code": None, "output": "so far\n", "note": note}


@pytest.mark.parametrize("started", ["sleep 1000 &", pytest.param("setsid sleep 1000 &", marks=LINUX)])
async def test_what_is_left_in_the_background_ends_with_its_command_and_holds_nothing_up(
    tools: Tools, alive: Alive, started: str
) -> None:
    value = await tools.value("run_command", command=f"{HOLDS} {started} echo started")
    await alive.begun()
    await alive.gone()
    note = "what it left running in the background was ended with it"
    assert value == {"exit_code": 0, "output": "started\n", "note": note}


async def test_a_cancelled_command_is_killed_before_the_cancellation_is_through(tools: Tools, alive: Alive) -> None:
    command = f"{HOLDS} trap '' TERM; sleep 1000 & sleep 1000"
    task = asyncio.create_task(call(tools.all["run_command"], {"command": command}))
    await alive.begun()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await alive.gone()


async def test_a_command_that_kills_what_watches_over_it_is_killed_and_its_outcome_said_to_be_lost(
    tools: Tools, alive: Alive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # nobody is left to remove the command's home
    value = await tools.value("run_command", command=f"{HOLDS} sleep 1000 & kill -9 $PPID; sleep 1000")
    await alive.begun()
    await alive.gone()
    assert (value["exit_code"], value["output"]) == (None, "")
    assert "its exit code and its output are lost" in value["note"]


async def test_no_command_outlives_a_killed_worker(tools: Tools, alive: Alive) -> None:
    with worker(tools.root, "run_command", {"command": f"{HOLDS} sleep 1000 & sleep 1000"}) as process:
        await alive.begun()
        process.send_signal(signal.SIGKILL)
        await alive.gone()
        assert await asyncio.to_thread(process.wait) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("command", "finds"),
    [
        ("env; cat /proc/$PPID/environ", "HOME="),
        pytest.param("grep -aho 'sk-planted[-0-9a-z]*' /proc/[0-9]*/environ; echo read", "read", marks=LINUX),
        ("ls -l /dev/fd/; cat <&3; cat <&4; cat <&5; echo read", "read"),
    ],
)
async def test_a_planted_key_of_the_workers_reaches_no_command(tools: Tools, command: str, finds: str) -> None:
    planted = {"PLANTED_KEY": KEY, "LONGSHIFT_JOURNAL__URL": f"postgresql://user:{KEY}@127.0.0.1/x"}
    with worker(tools.root, "run_command", {"command": command}, planted) as process:
        printed, _ = await asyncio.to_thread(process.communicate)
    assert '"ok": true' in printed
    assert finds in printed
    assert KEY[:12] not in printed


@LINUX
async def test_a_command_cannot_write_its_own_outcome(tools: Tools) -> None:
    outcome = {"exit_code": 0, "timed_out": False, "left_running": False, "head": "", "tail": "", "dropped": 0}
    command = f"echo '{json.dumps(outcome)}' > /proc/$PPID/fd/1; echo real; exit 9"
    with worker(tools.root, "run_command", {"command": command}, root_as_others=True) as process:
        printed, _ = await asyncio.to_thread(process.communicate)
    value = json.loads(printed)["value"]
    assert value["exit_code"] == 9
    assert "Permission denied\nreal\n" in value["output"]


async def test_a_command_gets_a_few_named_variables_and_a_home_that_ends_with_it(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("PLANTED_KEY", KEY)
    value = await tools.value("run_command", command="env; touch ~/x $TMPDIR/y")
    given = dict(line.split("=", 1) for line in value["output"].splitlines())
    by_shell = {"_", "PWD", "SHLVL", "OLDPWD"}
    assert set(given) - by_shell <= {*commands.KEPT, "HOME"}
    assert (given["PATH"], given["LANG"], given["PWD"]) == (os.environ["PATH"], "C.UTF-8", str(tools.root))
    assert given["HOME"] == given["TMPDIR"]
    assert not await asyncio.to_thread(os.path.lexists, given["HOME"])
    assert (await tools.value("list_files", depth=1))["entries"] == ["README.md", "src/"]


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"command": " "}, "refused", "1 to 100000 bytes"),
        ({"command": "a\0b"}, "refused", "no NUL"),
        ({"command": "x" * 100_001}, "refused", "put a longer one into a file"),
        ({"command": "true", "timeout_seconds": MAX_SECONDS + 1}, "invalid_arguments", "less than or equal to 600"),
        ({"command": "true", "timeout_seconds": 0}, "invalid_arguments", "greater than or equal to 1"),
    ],
)
async def test_what_is_no_command_is_refused(tools: Tools, arguments: dict[str, Any], kind: str, words: str) -> None:
    refused, message = await tools.refusal("run_command", **arguments)
    assert refused == kind
    assert words in message


async def test_commands_run_side_by_side(tools: Tools) -> None:
    (tools.root / "one").mkdir()
    os.mkfifo(tools.root / "meet")
    first = tools.value("run_command", command="cat meet", timeout_seconds=60)
    second = tools.value("run_command", command="echo met > meet", timeout_seconds=60)
    assert [value["output"] for value in await asyncio.gather(first, second)] == ["met\n", ""]


async def test_the_tools_say_whether_they_change_anything_and_outlast_what_they_wait_for(tools: Tools) -> None:
    assert {name: tool.spec.kind for name, tool in tools.all.items()} == {
        "read_file": "read",
        "list_files": "read",
        "search": "read",
        "write_file": "effect",
        "edit_file": "effect",
        "run_command": "effect",
    }
    assert tools.all["run_command"].spec.timeout_seconds > MAX_SECONDS + 2 * commands.KILL_SECONDS
