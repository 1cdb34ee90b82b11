"""One session with a server, by the official SDK. Importing this takes a second or more: only a server that is reached
needs it."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.session import IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from pydantic import TypeAdapter, ValidationError

from toolsets.mcp import http
from toolsets.mcp.config import McpServerConfig
from toolsets.mcp.definitions import TOLD, Definition
from toolsets.mcp.errors import BrokenOff, Declined, Failed, Forbidden, NotSent, RequestFailed
from toolsets.mcp.standard_error import lines_to

Result = TypeVar("Result")

MAX_PAGES = 100
"""Pages of a list of tools that are read."""
MAX_TOOLS = 1000
"""Tools of a server that are read."""
UNREADABLE = "its answer is not what the protocol says"
CLOSE_SECONDS = 8.0
"""Seconds a server gets to end once it is told to; the SDK kills the program after four."""

_RESULT: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_DECLINED = (types.METHOD_NOT_FOUND, types.INVALID_PARAMS)
_BROKEN_OFF = (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT)


class Connection:
    """A session that is open. It lives in a task of its own: the SDK's task groups belong to the task that enters them,
    and one session serves the calls of many."""

    def __init__(self, config: McpServerConfig, handed_on: Mapping[str, str], log: Callable[[str], None]) -> None:
        """Start the program, or connect to the URL, and agree on a version of the protocol.

        Args:
            config: which server.
            handed_on: values of the variables that it gets: environment variables of a program, headers of a URL.
            log: takes the lines of a program's standard error, and what else there is to say.
        """
        self._config = config
        self._handed_on = handed_on
        self._log = log
        self._settled = asyncio.Event()
        self._ending = asyncio.Event()
        self._scope = anyio.CancelScope()
        self._client: Client | None = None
        self._failure: RequestFailed | None = None
        self._task = asyncio.create_task(self._live())
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def ready(self) -> None:
        """Wait until the session is open. Raises RequestFailed, saying why it cannot be."""
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure

    async def close(self, *, at_once: bool = False) -> None:
        """End the session, and the program, once no request is under way, or at once."""
        if at_once:
            self._scope.cancel()
        else:
            await self._idle.wait()
        self._ending.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.shield(self._task)
                return
        self._scope.cancel()
        await asyncio.wait([self._task], timeout=CLOSE_SECONDS)

    @property
    def busy(self) -> bool:
        """Whether a request has no answer yet."""
        return not self._idle.is_set()

    @property
    def version(self) -> str:
        """What the server says of its own name and version."""
        info = self._client.server_info if self._client else None
        return f"{info.name} {info.version}" if info else ""

    async def list_tools(self) -> dict[str, Definition]:
        """All tools that the server offers now, by its own names for them. Raises RequestFailed."""
        assert self._client is not None
        found: dict[str, Definition] = {}
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._answer(self._client.list_tools(cursor=cursor))
            for tool in page.tools:
                whole = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
                found[tool.name] = {key: whole[key] for key in TOLD if key in whole}
            if len(found) > MAX_TOOLS:
                break
            cursor = page.next_cursor
            if cursor is None:
                return found
        raise Failed(f"its list of tools does not end after {MAX_PAGES} pages or {MAX_TOOLS} tools")

    async def call(self, tool: str, arguments: dict[str, Any], meta: Mapping[str, str]) -> types.CallToolResult:
        """Call a tool once. A call that is cancelled here is cancelled at the server. Raises RequestFailed."""
        assert self._client is not None
        params = types.CallToolRequestParams.model_validate({"name": tool, "arguments": arguments, "_meta": dict(meta)})
        # Not by the client's own `call_tool`: that raises for a result that does not fit the tool's output schema, and
        # what an effect returned must not be lost.
        request = types.CallToolRequest(params=params)
        result = await self._answer(self._client.session.send_request(request, _RESULT))
        if isinstance(result, types.InputRequiredResult):
            raise Declined("it asks for a person's input, which a run cannot give")
        return result

    async def _answer(self, request: Awaitable[Result]) -> Result:
        self._in_flight += 1
        self._idle.clear()
        try:
            return await request
        except MCPError as error:
            raise _failure(error) from None
        except ValidationError:
            raise BrokenOff(UNREADABLE) from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError) as error:
            raise BrokenOff(f"the session ended ({type(error).__name__})") from None
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def _live(self) -> None:
        try:
            async with contextlib.AsyncExitStack() as stack:
                stack.enter_context(self._scope)
                transport = await self._transport(stack)
                client = Client(transport, cache=None, message_handler=self._notice)
                self._client = await stack.enter_async_context(client)
                self._settled.set()
                await self._ending.wait()
        except Exception as error:
            self._failure = _why(error)
            if self._settled.is_set() and not self._ending.is_set():
                self._log(f"the session broke off: {self._failure}")
        finally:
            if not self._settled.is_set() and self._failure is None:
                self._failure = NotSent("it was given up before it answered")
            self._settled.set()

    async def _transport(self, stack: contextlib.AsyncExitStack) -> Any:
        config = self._config
        if config.url is not None:
            client = await stack.enter_async_context(http.client(self._handed_on))
            return streamable_http_client(config.url, http_client=client, max_sse_event_size=http.MAX_BODY_BYTES)
        assert config.command is not None
        errors = await stack.enter_async_context(lines_to(self._log))
        folder = config.cwd or os.curdir
        # The SDK adds HOME, LOGNAME, PATH, SHELL, TERM and USER, and nothing else of ours.
        program = StdioServerParameters(
            command=config.command, args=list(config.args), env={**config.env, **self._handed_on}, cwd=folder
        )
        return stdio_client(program, errlog=errors)

    async def _notice(self, message: IncomingMessage) -> None:
        if isinstance(message, Exception):
            self._log("it sent something that is no message of the protocol, such as a print to standard output")


def _failure(error: MCPError) -> RequestFailed:
    ours = http.meaning(error.data)
    if ours is not None:
        return ours(error.message)
    if error.code in _DECLINED:
        return Declined(error.message)
    if error.code == types.PARSE_ERROR:
        # The SDK's words repeat parts of the answer, cut and escaped, in which no key would be found.
        return BrokenOff(UNREADABLE)
    return BrokenOff(error.message) if error.code in _BROKEN_OFF else Failed(error.message)


def _why(error: BaseException) -> RequestFailed:
    """Why a session could not begin, or ended."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        failure = _failure(error)
        if error.code == types.CONNECTION_CLOSED:
            return NotSent("it ended before it answered; what it said on its standard error is in the worker's log")
        return failure if isinstance(failure, Forbidden) else NotSent(str(failure))
    if isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
        return NotSent(f"it cannot be started: {error.strerror} ({error.filename})")
    return NotSent(f"{type(error).__name__} while it was reached")
