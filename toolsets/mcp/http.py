"""HTTP as a session survives it, and as our failures need it told.

The SDK ends a whole session, with every call in flight on it, when one request cannot connect; and it tells no 401 from
a 500. Here what went wrong with one request becomes the JSON-RPC error of that request, with a mark of ours.
"""

import json
import secrets
from collections.abc import AsyncIterator, Mapping

import httpx2
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from pydantic import JsonValue

from toolsets.mcp.errors import BrokenOff, Forbidden, NotSent, RequestFailed

CONNECT_SECONDS = 10.0
MAX_BODY_BYTES = 4 * 1024 * 1024
"""Bytes of a reply that are read; an event of a stream may have as many."""

CODE = 9001
"""Code of our own errors. Servers may use it, too: what tells ours is the mark in their `data`."""
_MARK = secrets.token_hex(16)
"""Known to this process alone, so that no server can speak in our name."""
_MEANINGS = {f"{_MARK} {kind.__name__}": kind for kind in (NotSent, Forbidden, BrokenOff)}

FORBIDDEN_STATUS = frozenset({401, 403})
TURNED_AWAY_STATUS = frozenset({404, 425, 429})
"""The server turned the request away unread: it is busy, or knows our session no longer."""
UNCLEAR_STATUS = frozenset({408, 409})
"""Like a 5xx, which a proxy may send after it passed the request on, these leave it open whether it was done."""
SETTLED_CODES = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR})
"""Errors that say what became of the request, also beside a status that leaves it open."""


def meaning(data: object) -> type[RequestFailed] | None:
    """What an error with this `data` means, where it is one of ours."""
    return _MEANINGS.get(data) if isinstance(data, str) else None


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
            return _failed(NotSent, f"no connection ({type(error).__name__})")
        except httpx2.TransportError as error:
            return _failed(BrokenOff, f"the connection broke off ({type(error).__name__})")
        if "content-encoding" in response.headers:
            await response.aclose()
            return _failed(BrokenOff, "the reply is compressed, which was not asked for")
        if response.status_code in FORBIDDEN_STATUS:
            await response.aclose()
            return _failed(Forbidden, f"it refused the credentials (HTTP {response.status_code})")
        kind = response.headers.get("content-type", "").lower()
        if request.method == "POST" and response.status_code >= 400:
            return await _refused(response)
        if _wants_answer(request) and not _answers(response.status_code, kind):
            await response.aclose()
            return _failed(BrokenOff, f"HTTP {response.status_code} of type {kind or 'unknown'} is no answer")
        if not kind.startswith("text/event-stream"):
            response.stream = _Capped(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _wants_answer(request: httpx2.Request) -> bool:
    """Whether it asks for something; notifications and our own answers are told 202."""
    if request.method != "POST":
        return False
    message = json.loads(request.content)
    return "method" in message and message.get("id") is not None


def _answers(status: int, kind: str) -> bool:
    """Whether this can be an answer. Of a redirect, only these two say that the request was not looked at."""
    if status in (307, 308):
        return True
    return 200 <= status < 300 and status != 202 and kind.startswith(("application/json", "text/event-stream"))


async def _refused(response: httpx2.Response) -> httpx2.Response:
    """A refusal: the server's own JSON-RPC error, where it means more than the status; else the status."""
    status = response.status_code
    unclear = status >= 500 or status in UNCLEAR_STATUS
    otherwise = BrokenOff if unclear else NotSent
    response.stream = _Capped(response.stream)
    try:
        body = json.loads(await response.aread())
        code, message = int(body["error"]["code"]), str(body["error"]["message"])
        of_protocol = body.get("jsonrpc") == "2.0"
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, httpx2.HTTPError, httpx2.StreamError):
        return _failed(otherwise, f"HTTP {status}")
    finally:
        await response.aclose()
    if status in TURNED_AWAY_STATUS:
        # An unknown method or tool is a 404 with that error; any other 404 is a session that it no longer knows.
        by_status = code != METHOD_NOT_FOUND
    else:
        by_status = code not in SETTLED_CODES if unclear else code == CONNECTION_CLOSED
    if by_status or not of_protocol:
        return _failed(otherwise, f"HTTP {status}: {message}")
    return _reply({"code": code, "message": message})


def _failed(kind: type[RequestFailed], message: str) -> httpx2.Response:
    return _reply({"code": CODE, "message": message, "data": f"{_MARK} {kind.__name__}"})


def _reply(error: Mapping[str, JsonValue]) -> httpx2.Response:
    """A reply that the SDK takes as the error of the request. Servers' own ones often lack what it looks for."""
    return httpx2.Response(500, json={"jsonrpc": "2.0", "id": None, "error": dict(error)})


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
