"""Processes that start warm: forked by one that has imported Longshift, which is most of what a start costs.

Each is a process of its own all the same: it has its own id, session, environment, folder and streams, it runs the
module or the installed command that it is named, from its first line to its exit code, and it can be killed. What a
cold start adds is shown where a test starts `python -m worker` or the command by itself.
"""

import asyncio
import ctypes
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, cast

from worker.child import Child

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.acceptance.warm_imports"])
_PR_SET_PDEATHSIG = 1


def start(
    program: str | Path, arguments: Sequence[str], env: Mapping[str, str], cwd: Path | None, streams: Sequence[int]
) -> ForkServerProcess:
    """Start a process.

    Args:
        program: a module, run as by `python -m`; or the path of a script in Python.
        arguments: of the program.
        env: its whole environment.
        cwd: its folder; None: ours.
        streams: file descriptors for its stdin, stdout and stderr.
    """
    become: Any = _Program(program, arguments, env, cwd or Path.cwd(), streams)
    process = _CONTEXT.Process(target=become, daemon=True)
    process.start()
    return process


async def start_child(module: str, arguments: Sequence[str], log: Path, env: Mapping[str, str]) -> Child:
    """Start a module as `Child.start` starts a command: tied to us, with its output added to `log`."""
    with log.open("ab") as output:
        nothing = os.open(os.devnull, os.O_RDONLY)
        process = start(module, arguments, env, None, (nothing, output.fileno(), output.fileno()))
        os.close(nothing)
    return Child(cast(Any, _Awaited(process)), log)


class _Program:
    """What a new process becomes; made here, and called there."""

    def __init__(
        self, program: str | Path, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, streams: Sequence[int]
    ) -> None:
        self._program = program
        self._arguments = list(arguments)
        self._env = dict(env)
        self._cwd = cwd
        self._streams = list(streams)

    def __reduce__(self) -> tuple[Any, ...]:
        streams = [DupFd(stream) for stream in self._streams]
        return _Received, (self._program, self._arguments, self._env, self._cwd, streams)


class _Received:
    """The same in the new process, where the descriptors have arrived."""

    def __init__(
        self, program: str | Path, arguments: list[str], env: dict[str, str], cwd: Path, streams: list[Any]
    ) -> None:
        self._program = program
        self._arguments = arguments
        self._env = env
        self._cwd = cwd
        self._streams = [stream.detach() for stream in streams]

    def __call__(self) -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # the forking process ends when the tests do
        os.setsid()
        for number, stream in enumerate(self._streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115
        os.environ.clear()
        os.environ.update(self._env)
        os.chdir(self._cwd)
        sys.argv = [str(self._program), *self._arguments]
        if isinstance(self._program, Path):
            runpy.run_path(str(self._program), run_name="__main__")
        else:
            runpy.run_module(self._program, run_name="__main__", alter_sys=True)


class _Awaited:
    """As much of asyncio's own processes as a `Child` needs."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(process.sentinel, self._collect)

    def _collect(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._ended.set()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def wait(self) -> int:
        await self._ended.wait()
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode
