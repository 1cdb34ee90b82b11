"""HTTP as a session survives it, and as our failures need it told.

The SDK ends a whole session, with every call in flight on it, when one request cannot connect; and it tells no 401 from
a 500. Here what went wrong with one request becomes the JSON-RPC error of that request, under a code of ours.
"""

import json
from collections.abc import AsyncIterator, Mapping

import httpx2
from mcp_types import CONNECTION_CLOSED, METHOD_NOT_FOUND

from toolsets.mcp.errors import BrokenOff, Forbidden, NotSent, RequestFailed

CONNECT_SECONDS = 10.0
MAX_BODY_BYTES = 4 * 1024 * 1024
"""Bytes of a reply that are read; an event of a stream may have as many."""

CODES: Mapping[int, type[RequestFailed]] = {9001: NotSent, 9002: Forbidden, 9003: BrokenOff}
"""Codes of ours, outside of JSON-RPC's and MCP's, and what they mean."""
NOT_SENT, FORBIDDEN, BROKEN_OFF = CODES

FORBIDDEN_STATUS = frozenset({401, 403})
NEVER_DONE_STATUS = frozenset({404, 425, 429, 503, 529})
"""The server turned the request away: it is busy, or knows our session no longer."""


def client(headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """A client that sends these headers to one server: no proxy or `.netrc` of the environment, no redirects."""
    return httpx2.AsyncClient(
        headers={**headers, "Accept-Encoding": "identity"},
        # A call may take as long as its tool's time-out says; what is too long is cancelled from above.
        timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
        transport=_Transport(httpx2.AsyncHTTPTransport()),
        trust_env=False,
        follow_redirects=False,
    )


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return _told(NOT_SENT, f"no connection ({type(error).__name__})")
        except httpx2.TransportError as error:
            return _told(BROKEN_OFF, f"the connection broke off ({type(error).__name__})")
        if "content-encoding" in response.headers:
            await response.aclose()
            return _told(BROKEN_OFF, "the reply is compressed, which was not asked for")
        if response.status_code in FORBIDDEN_STATUS:
            await response.aclose()
            return _told(FORBIDDEN, f"it refused the credentials (HTTP {response.status_code})")
        if request.method == "POST" and response.status_code >= 400:
            return await _refused(response)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _Capped(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _refused(response: httpx2.Response) -> httpx2.Response:
    """A refusal: the server's own JSON-RPC error, where it means more than the status; else the status."""
    status = response.status_code
    never_done = status in NEVER_DONE_STATUS or (status < 500 and status != 408)
    otherwise = NOT_SENT if never_done else BROKEN_OFF
    response.stream = _Capped(response.stream)
    try:
        error = json.loads(await response.aread())["error"]
        code, message = int(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError, RecursionError, httpx2.HTTPError, httpx2.StreamError):
        return _told(otherwise, f"HTTP {status}")
    finally:
        await response.aclose()
    # An unknown method or tool is a 404 with that error; any other 404 is a session that it no longer knows.
    if code == CONNECTION_CLOSED or (status in NEVER_DONE_STATUS and code != METHOD_NOT_FOUND):
        return _told(otherwise, f"HTTP {status}: {message}")
    return _told(code, message)


def _told(code: int, message: str) -> httpx2.Response:
    """A reply that the SDK takes as the error of the request. Servers' own ones often lack what it looks for."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(500, json=error)


class _Capped(httpx2.AsyncByteStream):
    """A body of at most MAX_BODY_BYTES."""

    def __init__(self, inner: object) -> None:
        assert isinstance(inner, httpx2.AsyncByteStream)
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_BODY_BYTES
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise httpx2.StreamError(f"the reply has more than {MAX_BODY_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
