"""A worker beside the embedded server, a process of its own that is kept up: for `up` and `demo`."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from temporalio.client import Client
from temporalio.runtime import Runtime, TelemetryConfig

from worker.child import Child
from worker.dev_server import DevServer
from worker.plugin import longshift_plugin
from worker.settings import FILE_VARIABLE, PREFIX, key_variables

T = TypeVar("T")

MISTAKE = 2
"""Exit code with which a worker says that it cannot begin as it is configured: another start would not help."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a worker that died is started again; doubled as long as it keeps dying young."""
FAILED, FAILED_PAUSE = 1, 2.0
"""Exit code with which a worker says that it cannot work now, such as without its journal, and the shortest pause then,
in seconds."""
YOUNG = 60.0
"""Seconds of life below which a worker died young."""


class WorkerFailed(Exception):
    """A worker cannot begin, or does not do its work. The text says why."""


async def connect_to(server: DevServer) -> Client:
    """A client of `server`, whatever Temporal profiles and variables say of others."""
    runtime = Runtime(telemetry=TelemetryConfig(logging=None))  # Temporal's core would log to stdout, among the results
    return await Client.connect(server.address, plugins=[longshift_plugin()], runtime=runtime)


def environment(server: DevServer, folder: Path) -> dict[str, str]:
    """Our environment, but for a worker that works on `server` and no other.

    Args:
        server: a running one.
        folder: gets a file with the Temporal profile of the server.
    """
    return _others("TEMPORAL_") | _connection(server, folder)


def isolated(server: DevServer, folder: Path, given: Mapping[str, str]) -> dict[str, str]:
    """The same, with none of the user's configuration.

    Args:
        server: a running one.
        folder: gets an empty configuration file, the profile, and the journal.
        given: the variables that count, such as LONGSHIFT_ENDPOINTS__LIVE__URL; the keys that they name come along.
    """
    nothing = folder / "longshift.toml"
    nothing.touch()
    ours = {FILE_VARIABLE: str(nothing), f"{PREFIX}JOURNAL__URL": journal_in(folder)}
    keys = key_variables({}, given)
    keys_like_ours = {name: key for name, key in os.environ.items() if name in keys and name.startswith(PREFIX)}
    return keys_like_ours | _others("TEMPORAL_", PREFIX) | _connection(server, folder) | ours | dict(given)


def _others(*prefixes: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def _connection(server: DevServer, folder: Path) -> dict[str, str]:
    profiles = folder / "temporal.toml"
    profiles.write_text(f'[profile.local]\naddress = "{server.address}"\nnamespace = "default"\n', encoding="utf-8")
    return {f"{PREFIX}TEMPORAL__PROFILE": "local", f"{PREFIX}TEMPORAL__CONFIG_FILE": str(profiles)}


def journal_in(folder: Path) -> str:
    """URL of the journal that `isolated` has kept in `folder`."""
    return f"sqlite:///{folder / 'journal.db'}"


async def keep_server(server: DevServer, tell: Callable[[str], None]) -> NoReturn:
    """Start `server` again whenever it ends by itself, until cancelled.

    Raises ServerFailed where it cannot be started again.
    """
    while True:
        code = await server.wait()
        tell(f"the server ended with code {code} and is started again; its log: {server.log}")
        await asyncio.sleep(FIRST_PAUSE)
        await server.restart()


class KeptWorker:
    """A worker process, up inside `async with`: started again whenever it dies, ended in order on the way out."""

    def __init__(
        self,
        env: Mapping[str, str],
        log: Path,
        *,
        config: Path | None = None,
        grace_seconds: float = 30,
        tell: Callable[[str], None],
    ) -> None:
        """Describe a worker; entering starts it.

        Args:
            env: its whole environment.
            log: file that what it prints is added to.
            config: the configuration file, where one is named.
            grace_seconds: for how long its steps in flight may go on once it is told to end.
            tell: called with a sentence whenever it is started again.
        """
        named = ["--config", str(config.absolute())] if config else []
        self._command = [sys.executable, "-P", "-m", "worker", *named]  # a file here must not hide ours
        self._env, self._grace_seconds, self._tell = env, grace_seconds, tell
        self._child: Child | None = None
        self.log = log

    async def __aenter__(self) -> Self:
        """Start it."""
        self._child = await Child.start(self._command, self.log, self._env)
        self._keeping = asyncio.create_task(self._keep(self._child))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it; killed where it outstays its grace by more than a little."""
        self._keeping.cancel()
        with contextlib.suppress(asyncio.CancelledError, WorkerFailed):
            await self._keeping
        if self._child:
            await self._child.stop(self._grace_seconds + 5)

    @property
    def pid(self) -> int:
        """Process id of the worker that was started last."""
        assert self._child is not None, "the worker is up only inside `async with`"
        return self._child.pid

    def said(self) -> str:
        """The end of its log."""
        return self._child.last_lines() if self._child else ""

    async def kill(self) -> None:
        """End the worker as a crash would, with SIGKILL; it is dead when this returns, and is started again."""
        assert self._child is not None, "the worker is up only inside `async with`"
        await self._child.kill()

    async def while_up(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work`.

        Raises:
            WorkerFailed: the worker cannot begin; then the work is given up.
        """
        doing = asyncio.ensure_future(work)
        try:
            await asyncio.wait({doing, self._keeping}, return_when=asyncio.FIRST_COMPLETED)
            if self._keeping.done():
                self._keeping.result()
            return await doing
        finally:
            doing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({doing})

    async def _keep(self, child: Child) -> None:
        """Start it again whenever it dies, without end."""
        pause = FIRST_PAUSE
        while True:
            began = asyncio.get_running_loop().time()
            code = await child.wait()
            if code == MISTAKE:
                raise WorkerFailed(f"the worker cannot begin:\n{child.last_lines()}")
            if asyncio.get_running_loop().time() - began >= YOUNG:
                pause = FIRST_PAUSE
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            if code == FAILED:
                pause = max(pause, FAILED_PAUSE)
            why = f" ({child.last_lines(1)})" if code == FAILED else ""
            self._tell(f"the worker {how} and is started again in {pause:g} s{why}; its log: {self.log}")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            self._child = child = await Child.start(self._command, self.log, self._env)
