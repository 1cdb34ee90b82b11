"""A process of ours that does not outlive us: the server, and the workers of one machine."""

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

KILL_SECONDS = 5.0
"""Seconds after which a process that was told to end is killed, unless its caller gives it longer."""

_TIED = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]): sys.exit("its parent has ended")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Runs in the child before it becomes the command: PR_SET_PDEATHSIG (1) survives exec, and has the kernel send SIGTERM
when our process ends in any way. Done here and not between fork and exec, where threads of ours may hold locks."""


class Child:
    """A started process. Its output goes to a file; it has a session of its own, so that a Ctrl-C reaches us alone."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        """Use `start`."""
        self._process = process
        self.log = log
        """The file that holds what it prints."""

    @classmethod
    async def start(
        cls, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, keep_open: Sequence[int] = ()
    ) -> Self:
        """Start `command`. It gets SIGTERM when this process ends, or the thread that called this does.

        Args:
            command: absolute path of the program, and its arguments.
            log: file that its stdout and stderr are added to.
            env: its whole environment; none: ours.
            keep_open: file descriptors that it inherits.
        """
        tied = [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid())] if sys.platform == "linux" else []
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *tied,
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                pass_fds=keep_open,
                start_new_session=True,
            )
        return cls(process, log)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        """Wait until it ends; its exit code."""
        return await self._process.wait()

    async def stop(self, grace_seconds: float = KILL_SECONDS) -> int:
        """Ask it to end, kill it if it has not after `grace_seconds`; its exit code."""
        self._send(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_seconds):
                return await self.wait()
        except TimeoutError:
            return await self.kill()

    async def kill(self) -> int:
        """End it at once, as a crash would; its exit code."""
        self._send(signal.SIGKILL)
        return await self.wait()

    def last_lines(self, count: int = 8) -> str:
        """The end of what it printed."""
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            return "".join(deque(lines, count)).strip()

    def _send(self, number: signal.Signals) -> None:
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)
