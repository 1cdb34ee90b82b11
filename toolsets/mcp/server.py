"""A server of the configuration: reached when it is first needed, and again when it was lost."""

import asyncio
import importlib
import logging
import os
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from longshift.contracts import ToolServer
from longshift.tools import (
    Kind,
    Tool,
    ToolChanged,
    ToolContext,
    ToolError,
    ToolFatal,
    ToolOutcomeUnknown,
    ToolRefused,
    ToolSpec,
    ToolTransient,
)
from toolsets.mcp import results
from toolsets.mcp.arguments import SchemaArguments
from toolsets.mcp.config import EVERY, McpServerConfig
from toolsets.mcp.definitions import Definition, difference, digest_of_all, own_name, read_spec
from toolsets.mcp.errors import (
    BrokenOff,
    Declined,
    Forbidden,
    NotSent,
    RequestFailed,
    ServerAway,
    ServerUnfit,
    Unusable,
)
from toolsets.mcp.secrets import Secrets, handed_on

if TYPE_CHECKING:
    from toolsets.mcp.connection import Connection

OPERATION_ID = "longshift/operation_id"
"""Key in a call's `_meta`: stable for one effect, so that a server that knows it can do it once."""
REACHING = 0.5
"""Part of a call's time that reaching the server may take: what fails by then was surely not done."""
MAX_NOTES = 5
"""Tools that a run's notes name because no model can be offered them."""
MAX_KNOWN = 500
"""Characters of the list of a server's tools in an error."""

log = logging.getLogger("longshift.mcp")


@dataclass(frozen=True)
class FromServer:
    """What a server offers to a run that starts now."""

    tools: tuple[Tool[..., Any], ...]
    server: ToolServer
    notes: tuple[str, ...] = ()
    """Which of its tools no model can be offered, and why."""


class McpServer:
    """One server, with at most one session, which all runs of the worker share."""

    def __init__(self, name: str, config: McpServerConfig, environ: Mapping[str, str] = os.environ) -> None:
        """Nothing is started yet.

        Raises ValueError for a variable that is to be handed on and is not set, naming it and the remedy.
        """
        self.name = name
        self._config = config
        variables = handed_on(config.env_from, "env_from", environ)
        headers = handed_on(config.headers_from.values(), "headers_from", environ)
        bad = [name for name, value in headers.items() if not value.isascii() or not value.isprintable()]
        if bad:
            raise ValueError(f"the environment variable {bad[0]} is no header's value; it must be printable ASCII")
        self._handed_on = variables or {header: headers[name] for header, name in config.headers_from.items()}
        self._secrets = Secrets(self._handed_on.values())
        self._opening: asyncio.Task[Connection] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._seen: str | None = None

    async def offered(self) -> FromServer:
        """What it offers now, of what the configuration allows.

        Raises ServerAway when it cannot be reached, and ServerUnfit when it does not offer what is allowed.
        """
        try:
            connection, listing = await self._reach(self._config.timeout_seconds)
        except RequestFailed as error:
            raise ServerAway(f"the MCP server {self.name} is away: {self._secrets.hide(str(error))}") from None
        every = self._config.allow == (EVERY,)
        tools: list[Tool[..., Any]] = []
        problems: list[str] = []
        for name in listing if every else self._config.allow:
            if name not in listing:
                known = ", ".join(sorted(listing)) or "none"
                problems.append(f"the server offers no tool {name}; its tools are {known[:MAX_KNOWN]}")
                continue
            try:
                tools.append(self._tool(name, read_spec(self.name, listing[name], self._config)))
            except Unusable as error:
                problems.append(f"the tool {name[:120]} of the server {self.name} cannot be offered: {error}")
        if problems and not every:
            raise ServerUnfit(problems)
        server = ToolServer(
            name=self.name,
            version=self._secrets.hide(connection.version)[:200],
            tools_sha256=digest_of_all(listing),
        )
        notes = problems[:MAX_NOTES]
        if len(problems) > MAX_NOTES:
            notes.append(f"{len(problems) - MAX_NOTES} more tools of the server {self.name} cannot be offered")
        return FromServer(tuple(tools), server, tuple(notes))

    def tool(self, recorded: ToolSpec) -> Tool[..., Any] | None:
        """The tool that a run recorded when it started; None where it is none of this server's, or none that the
        configuration allows now."""
        name = own_name(self.name, recorded.name)
        if name is None or not self._config.allows(name):
            return None
        return self._tool(name, recorded)

    async def close(self) -> None:
        """End the session, and the program."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
            if not self._opening.cancelled() and self._opening.exception() is None:
                self._drop(self._opening.result())
        if self._closing:
            await asyncio.wait(self._closing)

    def _tool(self, name: str, recorded: ToolSpec) -> Tool[..., Any]:
        async def call(arguments: dict[str, Any], context: ToolContext) -> JsonValue:
            return await self._call(name, recorded, arguments, context)

        return Tool(recorded, call, SchemaArguments(recorded.parameters))

    async def _call(self, name: str, recorded: ToolSpec, arguments: dict[str, Any], context: ToolContext) -> JsonValue:
        try:
            connection, listing = await self._reach(recorded.timeout_seconds * REACHING)
        except RequestFailed as error:
            raise self._said(ToolFatal if isinstance(error, Forbidden) else ToolTransient, error) from None
        changed = difference(recorded, listing.get(name))
        if changed is not None:
            log.warning("%s: the tool %s was not run, since a run began: %s", self.name, name, changed)
            raise ToolChanged(f"{recorded.name} was not run: since this run began, {changed}; use other tools")
        try:
            result = await connection.call(name, arguments, {OPERATION_ID: context.operation_id})
        except RequestFailed as error:
            raise self._said(_meaning(error, recorded.kind), error) from None
        try:
            value: JsonValue = self._secrets.hidden(results.value(result))
        except ToolRefused as refused:
            raise ToolRefused(self._secrets.hide(str(refused))) from None
        return value

    def _said(self, kind: type[ToolError], error: RequestFailed) -> ToolError:
        return kind(f"the MCP server {self.name}: {self._secrets.hide(str(error))}")

    async def _reach(self, seconds: float) -> "tuple[Connection, dict[str, Definition]]":
        """A session that answers, and what the server offers now.

        The list is asked for anew each time: it shows that the server still lives before anything is asked of it, and
        that its tools are still what the run knows, whether or not it tells of changes. A session that was lost since
        is made anew, once.

        Raises RequestFailed.
        """
        connection: Connection | None = None
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connected()
                try:
                    listing = await connection.list_tools()
                except RequestFailed as error:
                    if isinstance(error, Forbidden):
                        raise
                    self._log(f"connecting again: {error}")
                    self._drop(connection)
                    connection = await self._connected()
                    listing = await connection.list_tools()
        except TimeoutError:
            if connection is not None and not connection.busy:
                self._drop(connection, at_once=True)
            raise NotSent(f"it did not answer within {seconds:g} seconds") from None
        listing = self._secrets.hidden(listing)
        self._compare(digest_of_all(listing))
        return connection, listing

    def _compare(self, digest: str) -> None:
        if self._seen is not None and digest != self._seen:
            log.warning("%s: the server changed its list of tools; runs under way keep theirs", self.name)
        self._seen = digest

    async def _connected(self) -> "Connection":
        """The session, or the one that is being opened: a call whose time is up does not end what others wait for.

        Raises RequestFailed.
        """
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.create_task(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> "Connection":
        # In a thread: the import takes a second or more, and the loop has other runs to serve.
        module: Any = await asyncio.to_thread(importlib.import_module, "toolsets.mcp.connection")
        connection: Connection = module.Connection(self._config, self._handed_on, self._log)
        seconds = self._config.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                await connection.ready()
        except BaseException as error:
            self._in_background(connection.close(at_once=True))
            if isinstance(error, TimeoutError):
                raise NotSent(f"it did not answer within {seconds:g} seconds") from None
            raise
        return connection

    def _log(self, line: str) -> None:
        """A line in the log: without keys, and without what would move a terminal's cursor."""
        hidden = self._secrets.hide(line)
        text = " ".join("".join(character if character.isprintable() else " " for character in hidden).split())
        if text:
            log.info("%s: %s", self.name, text)

    def _drop(self, connection: "Connection", *, at_once: bool = False) -> None:
        """Forget a session that is lost, and end what is left of it."""
        opened = self._opening
        if opened is not None and opened.done() and opened.exception() is None and opened.result() is connection:
            self._opening = None
            self._in_background(connection.close(at_once=at_once))

    def _in_background(self, ending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(ending)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _meaning(error: RequestFailed, kind: Kind) -> type[ToolError]:
    """What a call that brought no result means to the run."""
    if isinstance(error, BrokenOff):
        return ToolTransient if kind == "read" else ToolOutcomeUnknown
    if isinstance(error, NotSent):
        return ToolTransient
    if isinstance(error, Forbidden):
        return ToolFatal
    return ToolRefused if isinstance(error, Declined) else ToolError
