"""What the tests of this folder share: a workspace with its tools, called as a model calls them."""

import asyncio
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longshift.testing import call
from toolsets.workspace import workspace

HOLDS = "exec 3>alive; echo begun >&3;"
"""Beginning of a command that, with all that inherits descriptor 3, can be seen to live: see `Alive`."""

PR_CAPBSET_DROP = 24
CAPABILITIES = range(64)
WORKER = """
import asyncio, json, sys
from pathlib import Path
from longshift.testing import call
from toolsets.workspace import workspace

root, name, arguments = sys.argv[1:]
tools = {tool.spec.name: tool for tool in workspace(Path(root))}
print(json.dumps(asyncio.run(call(tools[name], json.loads(arguments)))), flush=True)
"""
"""A process that does one call as a worker does, and prints the observation."""


def worker(
    root: Path, name: str, arguments: dict[str, Any], variables: Mapping[str, str] = {}, *, root_as_others: bool = False
) -> subprocess.Popen[str]:
    """Such a process.

    Args:
        root: the workspace.
        name: the tool.
        arguments: the call's.
        variables: added to its environment.
        root_as_others: take from root what it may do beyond any other user.
    """
    drop = ctypes.CDLL(None).prctl if root_as_others and sys.platform == "linux" else None
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(root), name, json.dumps(arguments)],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=drop and (lambda: [drop(PR_CAPBSET_DROP, number, 0, 0, 0) for number in CAPABILITIES]),
    )


class Tools:
    """The tools of one workspace."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.all = {tool.spec.name: tool for tool in workspace(root)}
        self.seen: list[dict[str, Any]] = []
        """All observations so far."""

    async def observe(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The observation of one call."""
        self.seen.append(await call(self.all[name], arguments))
        return self.seen[-1]

    async def value(self, name: str, **arguments: Any) -> dict[str, Any]:
        """What a call returned."""
        observation = await self.observe(name, **arguments)
        assert observation["ok"], observation
        value: dict[str, Any] = observation["value"]
        return value

    async def refusal(self, name: str, **arguments: Any) -> tuple[str, str]:
        """Kind and message of a call that failed."""
        observation = await self.observe(name, **arguments)
        assert not observation["ok"], observation
        return observation["error"]["kind"], observation["error"]["message"]


class Alive:
    """A pipe in the workspace that stays open as long as anything lives that a command with HOLDS started."""

    def __init__(self, root: Path) -> None:
        os.mkfifo(root / "alive")
        self._reading = os.open(root / "alive", os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(self._reading, True)

    async def begun(self) -> None:
        """Wait until the command has begun."""
        readable = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._reading, readable.set)
        await readable.wait()
        loop.remove_reader(self._reading)
        assert os.read(self._reading, 100) == b"begun\n"

    async def gone(self) -> None:
        """Wait until nothing of it lives any more."""
        assert await asyncio.to_thread(os.read, self._reading, 100) == b""
        os.close(self._reading)
