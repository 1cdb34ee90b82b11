"""One JSON request over HTTP, and the only place that knows httpx.

It stands on httpx's transport and not on its client: what is below the client follows no redirect, keeps no cookie,
sends no request twice and reads neither proxies nor `.netrc` from the environment, so there is nothing to turn off.
"""

import asyncio
import json
import logging
import os
import re
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
from pydantic import JsonValue

from endpoints.answers import failure, read_json, refused, retry_after, without_body
from longshift.turns import CallFailed, ModelFailure

# At DEBUG httpcore writes response headers, and a server may repeat the key in one: no `--verbose` of ours may turn
# that on with the rest.
logging.getLogger("httpcore").setLevel(logging.INFO)


class BodyRefused(Exception):
    """A body that cannot be taken. Never leaves this file."""


class TooLarge(BodyRefused):
    """The decoded body passed the cap."""


class Cut(BodyRefused):
    """A compressed body that does not decode, has no end, or goes on after it."""


class UnknownCoding(BodyRefused):
    """A Content-Encoding that was not asked for."""


BEARER = ("Authorization", "Bearer ")
"""The header of a key and what stands before it there, unless a format has its own."""
KEY_REMOVED = "[key removed]"
"""Stands where a reply repeated the key."""
MIN_KEY_BYTES = 8
"""A key shorter than this is no secret, and may well be a word of the reply."""


class Transport:
    """Sends JSON to one URL. Holds the connections; close it when the worker ends."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        timeout_seconds: float,
        max_body_bytes: int,
        api_key_env: str | None,
        key_header: tuple[str, str] = BEARER,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Open no connection yet.

        Args:
            name: the endpoint's name, for errors.
            url: where every request goes.
            timeout_seconds: seconds for one whole operation: name look-up, connect, headers, every byte of the body.
            max_body_bytes: bytes of a decoded body, refused while being read when there are more.
            api_key_env: name of the variable that holds the key, read at each request; none: no key is sent.
            key_header: the header that the key is sent in, and what stands before it there.
            headers: further headers of every request.
        """
        self._name = name
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._max_body_bytes = max_body_bytes
        self._api_key_env = api_key_env
        self._key_header = key_header
        self._headers = dict(headers or {})
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)  # the worker bounds its calls itself
        self._http = httpx.AsyncHTTPTransport(trust_env=False, limits=limits)

    async def post_json(self, body: Mapping[str, Any]) -> JsonValue:
        """Send `body` once and return the JSON that came back with a 2xx status.

        Raises CallFailed for everything that goes wrong outside; asyncio.CancelledError passes through.
        """
        # A failure travels as a value until here, so that neither the traceback's frames nor a chained exception
        # holds a header or what the server wrote.
        content = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        request = self._request("POST", self._url, content)
        _, answer = (None, request) if isinstance(request, ModelFailure) else await self._exchange(request)
        if isinstance(answer, ModelFailure):
            raise CallFailed(answer)
        return answer

    async def get_json(self, url: str) -> tuple[int | None, JsonValue | ModelFailure]:
        """Ask for what is at `url`, with the same key: the HTTP status, where there was an answer, and its JSON, or why
        there is none."""
        request = self._request("GET", url)
        return (None, request) if isinstance(request, ModelFailure) else await self._exchange(request)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def _request(self, method: str, url: str, content: bytes | None = None) -> httpx.Request | ModelFailure:
        headers = {
            **({} if content is None else {"Content-Type": "application/json"}),
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": "longshift",
            **self._headers,
        }
        if self._api_key_env is not None:
            key = os.environ.get(self._api_key_env, "")
            if problem := key_problem(key):
                text = f"the environment variable {self._api_key_env} {problem}"
                return failure(self._name, "missing_key", text, transient=False)
            header, before = self._key_header
            headers[header] = before + key
        try:
            return httpx.Request(method, url, headers=headers, content=content)
        except httpx.InvalidURL as error:
            return failure_of(self._name, error)

    async def _exchange(self, request: httpx.Request) -> tuple[int | None, JsonValue | ModelFailure]:
        response: httpx.Response | None = None
        problem: ModelFailure | None = None
        body = b""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                response = await self._http.handle_async_request(request)
                try:
                    if response.status_code >= 400 or not self._head_problem(response):
                        body = await read_body(response, self._max_body_bytes)
                finally:
                    await response.aclose()
        except TimeoutError:
            text = (
                f"no whole answer within {self._timeout_seconds:g} s (timeout_seconds); "
                "it may have been answered and billed all the same"
            )
            problem = failure(self._name, "timeout", text, transient=True)
        except Exception as error:  # every other error, ours too, would carry the request and with it the key
            problem = failure_of(self._name, error)
        if response is not None:
            if response.status_code >= 300:  # the status says enough, whatever became of the body
                wait = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
                return response.status_code, refused(self._name, response.status_code, body, wait)
            problem = self._head_problem(response) or problem
        status = None if response is None else response.status_code
        if problem is not None:
            return status, problem
        body = body.replace(self._secret.encode(), KEY_REMOVED.encode()) if self._secret else body
        read = read_json(self._name, _content_type(response), body)
        return status, read if isinstance(read, ModelFailure) else self.without_key(read)

    def without_key(self, value: JsonValue) -> JsonValue:
        """JSON without the key, wherever it stands in it, however it was escaped: a reply that repeats it would put it
        into transcripts and journals."""
        key = self._secret
        return _replaced(value, key) if key else value

    @property
    def _secret(self) -> str:
        """The key; empty where there is none that could be told from words."""
        key = os.environ.get(self._api_key_env or "", "")
        return key if len(key.encode()) >= MIN_KEY_BYTES else ""

    def _head_problem(self, response: httpx.Response) -> ModelFailure | None:
        return without_body(self._name, response.status_code, _content_type(response))


def _replaced(value: JsonValue, key: str) -> JsonValue:
    if isinstance(value, str):
        return value.replace(key, KEY_REMOVED)
    if isinstance(value, list):
        return [_replaced(item, key) for item in value]
    if isinstance(value, dict):
        return {name.replace(key, KEY_REMOVED): _replaced(item, key) for name, item in value.items()}
    return value


async def read_body(response: httpx.Response, cap: int) -> bytes:
    """The decoded body, of `cap` bytes at most.

    Decodes gzip itself: httpx would inflate a whole network chunk, a thousandfold, before its length can be looked
    at, and takes a gzip body without its end for a complete one.

    Raises BodyRefused, or what httpx raises.
    """
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip"):
        raise UnknownCoding
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16) if "gzip" in coding else None
    body = bytearray()
    async for chunk in response.aiter_raw():
        if inflate is None:
            body += chunk
        else:
            try:
                body += inflate.decompress(chunk, cap + 1 - len(body))
            except zlib.error:
                raise Cut from None
            if inflate.unused_data:
                raise Cut
        if len(body) > cap:
            raise TooLarge
    if inflate is not None and not inflate.eof:
        raise Cut
    return bytes(body)


def failure_of(name: str, error: Exception) -> ModelFailure:
    """The failure that an exception of the transport is. Uses the exception's class and nothing of its text."""
    match error:
        case TooLarge():
            text = "the reply is larger than max_body_bytes"
            return failure(name, "too_large", text, transient=False)
        case UnknownCoding():
            text = "the body has a Content-Encoding that was not asked for; only gzip is understood"
            return failure(name, "broken_body", text, transient=False)
        case httpx.TooManyRedirects():
            return failure(name, "redirect", "redirects are never followed", transient=False)
        case httpx.InvalidURL() | httpx.UnsupportedProtocol():
            return failure(name, "connect", "its url cannot be used; check it", transient=False)
        case httpx.TimeoutException():
            return failure(name, "timeout", "the connection timed out", transient=True)
        case httpx.ConnectError() | httpx.ProxyError():
            text = "no connection (name look-up, refused, or TLS); check its url and that the server runs"
            return failure(name, "connect", text, transient=True)
        case Cut() | httpx.DecodingError():
            return failure(name, "broken_body", "the body does not decode, or is cut", transient=True)
        case httpx.LocalProtocolError():
            return failure(name, "internal", "Longshift made a request that is no valid HTTP", transient=False)
        case httpx.RequestError():
            text = "the connection broke before the whole answer was there"
            return failure(name, "broken_body", text, transient=True)
        case _:
            return failure(name, "internal", f"an unexpected {type(error).__name__}", transient=False)


def _content_type(response: httpx.Response | None) -> str:
    return "" if response is None else str(response.headers.get("content-type", ""))


def key_problem(key: str) -> str | None:
    """What is wrong with a key, in words that do not hold it; None when it can be sent."""
    if not key.strip():
        return "is not set on this worker; it must hold the endpoint's API key"
    if not re.fullmatch(r"[!-~]+", key):
        return "holds a blank, a line break or another character that no key has; set it to the bare key"
    return None
