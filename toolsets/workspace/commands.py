"""Commands in the workspace, each under a supervisor (supervisor.py) that ends it whatever becomes of the worker."""

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from longshift import ToolError, ToolRefused
from toolsets.workspace import utf8
from toolsets.workspace.paths import Place, Workspace

KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""Variables that a command gets of the worker's; HOME and TMPDIR become a folder that lasts as long as the command."""
MAX_COMMAND = 100_000
"""Bytes of a command; Linux takes no argument of more than 128 KiB."""
HEAD, TAIL = 4_000, 12_000
"""Bytes kept of the beginning and of the end of what a command prints: a failure is told of at the end."""
KILL_SECONDS = 5.0
"""Seconds that a supervisor has to end what it watches over before it is killed itself."""
SUPERVISOR = Path(__file__).with_name("supervisor.py")
PR_SET_DUMPABLE = 4


def hide_memory() -> None:
    """Keep commands from reading this process's memory and environment in /proc, where the worker's keys are."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


async def run(workspace: Workspace, command: str, seconds: int) -> dict[str, Any]:
    """Run a shell command in the workspace: `exit_code`, `output` (both streams in order), and a `note` where there is
    more to say. When this is cancelled, the command and all that it started are killed first."""
    if not command.strip() or "\0" in command or len(command.encode()) > MAX_COMMAND:
        raise ToolRefused(f"command must have 1 to {MAX_COMMAND} bytes and no NUL; put a longer one into a file")
    with workspace.folder(Place(())):
        pass  # says so where the workspace is gone
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", SUPERVISOR, str(seconds), str(HEAD), str(TAIL), command),
        cwd=workspace.root,
        env={name: os.environ[name] for name in KEPT if name in os.environ},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    group, outcome = b"", b""
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds + KILL_SECONDS):
                group = await process.stdout.readline()
                outcome = await process.stdout.readline()
    finally:
        process.stdin.close()
        await _end(process, int(group or 0))
    if not group:
        raise ToolError("the command was not started; the worker's log has more")
    return _told(json.loads(outcome) if outcome.endswith(b"\n") else None, seconds)


async def _end(process: asyncio.subprocess.Process, group: int) -> None:
    """Wait for a supervisor whose stdin is closed; where it does not end in order, kill it and the command's group."""
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await process.wait()
    finally:
        if process.returncode != 0:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if group:
                    os.killpg(group, signal.SIGKILL)


def _told(outcome: dict[str, Any] | None, seconds: int) -> dict[str, Any]:
    """What came of a command, as the model reads it."""
    if outcome is None:
        note = "it did not end in order and was killed; its exit code and its output are lost, and what it did is not"
        return {"exit_code": None, "output": "", "note": note}
    notes: list[str] = []
    head, tail = bytes.fromhex(outcome["head"]), bytes.fromhex(outcome["tail"])
    if outcome["dropped"]:
        # Both were cut anywhere, also inside a character.
        head, tail = utf8.untorn(head), tail.lstrip(bytes(range(0x80, 0xC0)))
        head += f"\n[{outcome['dropped']} bytes are left out here]\n".encode()
        notes.append("the output is cut in the middle; send it to a file to read all of it")
    output = utf8.shown(head + tail, notes)
    if outcome["timed_out"]:
        notes.append(f"killed after {seconds} s, its timeout_seconds, with all that it had started")
    elif outcome["left_running"]:
        notes.append("what it left running in the background was ended with it")
    return {"exit_code": outcome["exit_code"], "output": output} | ({"note": "; ".join(notes)} if notes else {})
