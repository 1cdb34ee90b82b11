"""A real HTTP server of which a test scripts every byte."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
"""Writes one answer; the connection is closed after it."""


@dataclass
class RawServer:
    """What the server heard, and where it listens."""

    url: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list, repr=False)
    """Request line, headers in lower case, body; in order of arrival."""

    def sent_json(self, index: int = 0) -> Any:
        """The JSON body of a request."""
        return json.loads(self.requests[index][2])


@asynccontextmanager
async def raw_server(answer: Answer) -> AsyncIterator[RawServer]:
    """Serve on a free port of 127.0.0.1; every request gets `answer`."""
    server = RawServer()
    handlers: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *rest = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            server.requests.append((line, headers, body))
            await answer(writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, as it should in these tests, or the test is over
        finally:
            writer.close()
            handlers.discard(task)

    listener = await asyncio.start_server(handle, "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()
    server.url = f"http://{host}:{port}/v1"
    try:
        yield server
    finally:
        listener.close()
        for task in list(handlers):
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
        await listener.wait_closed()


def raw(text: bytes) -> Answer:
    """An answer of exactly these bytes."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(text)

    return write


def reply(
    body: bytes | str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    content_type: str = "application/json",
) -> Answer:
    """A well-formed answer."""
    data = body.encode() if isinstance(body, str) else body
    lines = {"Content-Type": content_type, "Content-Length": str(len(data)), "Connection": "close", **(headers or {})}
    head = f"HTTP/1.1 {status} Status\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return raw(head.encode() + b"\r\n" + data)


def completion(**changes: Any) -> dict[str, Any]:
    """A good chat completion; `changes` are to its message, but for `usage` and `finish_reason`."""
    usage = changes.pop("usage", {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10})
    reason = changes.pop("finish_reason", "tool_calls" if changes.get("tool_calls") else "stop")
    message = {"role": "assistant", "content": "Done.", **changes}
    return {"id": "c-1", "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}
