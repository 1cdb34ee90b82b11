"""The transport against a real server on this machine, byte by byte."""

import asyncio
import gzip
import inspect
import json
import tracemalloc
import zlib

import httpx
import pytest

from endpoints.transport import Transport, failure_of
from longshift.turns import CallFailed
from tests.endpoints.posting import CAP, failed, post
from tests.endpoints.raw_server import Answer, raw, raw_server, reply

pytestmark = pytest.mark.asyncio


async def test_json_goes_out_and_json_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "key-123")
    async with raw_server(reply('{"ok": "ja"}')) as server:
        assert await post(server, key_env="SHOP_KEY") == {"ok": "ja"}
    line, headers, body = server.requests[0]
    assert line == "POST /v1 HTTP/1.1"
    assert json.loads(body) == {"text": "grüß"}
    assert headers["authorization"] == "Bearer key-123"
    assert headers["content-type"] == "application/json"


async def test_without_a_key_variable_no_key_is_sent() -> None:
    async with raw_server(reply("{}")) as server:
        await post(server)
    assert "authorization" not in server.requests[0][1]


async def test_the_key_is_read_at_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(reply("{}")) as server:
        transport = Transport("shop", server.url, timeout_seconds=5, max_body_bytes=CAP, api_key_env="SHOP_KEY")
        for key in ("old", "new"):
            monkeypatch.setenv("SHOP_KEY", key)
            await transport.post_json({})
        await transport.close()
    assert [headers["authorization"] for _, headers, _ in server.requests] == ["Bearer old", "Bearer new"]


@pytest.mark.parametrize("key", [None, "", "  "])
async def test_a_missing_key_names_its_variable_and_sends_nothing(
    monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.delenv("SHOP_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("SHOP_KEY", key)
    async with raw_server(reply("{}")) as server:
        with pytest.raises(CallFailed, match="SHOP_KEY is not set on this worker") as caught:
            await post(server, key_env="SHOP_KEY")
    assert (caught.value.failure.kind, caught.value.failure.transient) == ("missing_key", False)
    assert server.requests == []


async def test_cookies_are_not_kept() -> None:
    async with raw_server(reply("{}", headers={"Set-Cookie": "a=b; Path=/"})) as server:
        await post(server, times=2)
    assert len(server.requests) == 2
    assert all("cookie" not in headers for _, headers, _ in server.requests)


async def test_proxies_and_netrc_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    netrc = tmp_path_factory.mktemp("home") / ".netrc"
    netrc.write_text("machine 127.0.0.1 login someone password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with raw_server(reply("{}")) as server:
        assert await post(server) == {}
    assert "authorization" not in server.requests[0][1]


@pytest.mark.parametrize(
    ("status", "transient"),
    [
        (400, False),
        (401, False),
        (402, False),
        (403, False),
        (404, False),
        (408, True),
        (409, True),
        (422, False),
        (429, True),
        (500, True),
        (502, True),
        (503, True),
        (504, True),
        (529, True),
    ],
)
async def test_an_error_status_is_judged_by_its_number(status: int, transient: bool) -> None:
    failure = await failed(reply('{"error": {"message": "no"}}', status, {"Retry-After": "1.5"}))
    assert (failure.kind, failure.transient) == ("status", transient)
    assert failure.retry_after == (1.5 if transient else None)
    assert str(status) in failure.message


async def test_the_body_of_an_error_tells_a_spent_quota() -> None:
    failure = await failed(reply('{"error": {"code": "insufficient_quota"}}', 429))
    assert not failure.transient


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_refused_and_nothing_is_sent_to_its_target(status: int) -> None:
    async with raw_server(reply("{}")) as other:
        failure = await failed(reply("", status, {"Location": other.url}))
    assert (failure.kind, failure.transient) == ("redirect", False)
    assert other.requests == []


async def test_a_body_of_the_cap_is_taken_and_one_byte_more_is_refused() -> None:
    body = json.dumps("x" * (CAP - 2))
    async with raw_server(reply(body)) as server:
        assert len(await post(server)) == CAP - 2
    failure = await failed(reply(body + " "))
    assert (failure.kind, failure.transient) == ("too_large", False)


async def test_an_endless_body_is_refused_in_the_middle() -> None:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while True:
            writer.write(b" " * 1024)
            await writer.drain()

    assert (await failed(write)).kind == "too_large"


async def test_a_gzip_body_is_decoded() -> None:
    data = gzip.compress(b'{"ok": 1}', mtime=0)
    async with raw_server(reply(data, headers={"Content-Encoding": "gzip"})) as server:
        assert await post(server) == {"ok": 1}


async def test_a_gzip_bomb_is_refused_in_the_middle() -> None:
    # 64 MiB of blanks in 64 KiB; the server keeps the connection open, so the refusal cannot come from the end.
    bomb = gzip.compress(b" " * (64 << 20), mtime=0)

    async def write(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
        writer.write(head.encode() + bomb[: len(bomb) // 2])
        await writer.drain()
        await asyncio.Event().wait()

    tracemalloc.start()
    try:
        assert (await failed(write)).kind == "too_large"
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("body", "coding", "transient"),
    [
        (gzip.compress(b'{"ok": 1}', mtime=0)[:-8], "gzip", True),  # the JSON is whole, its end mark is not
        (gzip.compress(b'{"ok": 1}', mtime=0)[:12], "gzip", True),
        (b"", "gzip", True),
        (gzip.compress(b'{"ok": 1}', mtime=0) + b"more", "gzip", True),
        (gzip.compress(b'{"ok": 1}', mtime=0)[:-8] + b"\0" * 8, "gzip", True),  # wrong checksum
        (b'{"ok": 1}', "gzip", True),  # not compressed at all
        (zlib.compress(b'{"ok": 1}'), "deflate", False),
        (b'{"ok": 1}', "br", False),
    ],
)
async def test_a_body_that_does_not_decode_whole_is_broken(body: bytes, coding: str, transient: bool) -> None:
    failure = await failed(reply(body, headers={"Content-Encoding": coding}))
    assert (failure.kind, failure.transient) == ("broken_body", transient)


@pytest.mark.parametrize(
    "answer",
    [
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"),
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"),
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}"),
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}"),
        raw(b"HTTP/1.1 200 OK\r\n\r\n{"),
        raw(b"HTTP/1.1 200 OK\r\nContent-Le"),
        raw(b"not HTTP at all\r\n\r\n"),
        raw(b""),
        reply(b'{"text": "\xff"}'),
        reply('{"n": NaN}'),
        reply(""),
    ],
    ids=[
        "short",
        "no last chunk",
        "cut chunk",
        "bad chunk",
        "cut json",
        "cut head",
        "no http",
        "nothing",
        "latin",
        "nan",
        "empty",
    ],
)
async def test_an_answer_that_is_cut_or_no_json_is_broken_and_transient(answer: Answer) -> None:
    failure = await failed(answer)
    assert (failure.kind, failure.transient) == ("broken_body", True)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (reply("<html></html>", content_type="text/html"), "base URL"),
        (raw(b"HTTP/1.1 204 No Content\r\n\r\n"), "HTTP 204"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\r\n\r\n"), "event stream"),
    ],
)
async def test_an_answer_of_another_sort_is_final_and_says_which(answer: Answer, words: str) -> None:
    failure = await failed(answer)
    assert (failure.kind, failure.transient) == ("broken_body", False)
    assert words in failure.message


async def test_an_event_stream_without_end_is_not_waited_for() -> None:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        await writer.drain()
        await asyncio.Event().wait()

    assert "event stream" in (await failed(write, seconds=60)).message


EXPECTED = {
    "CloseError": ("broken_body", True),
    "ConnectError": ("connect", True),
    "ConnectTimeout": ("timeout", True),
    "CookieConflict": ("internal", False),
    "DecodingError": ("broken_body", True),
    "HTTPError": ("internal", False),
    "HTTPStatusError": ("internal", False),
    "InvalidURL": ("connect", False),
    "LocalProtocolError": ("internal", False),
    "NetworkError": ("broken_body", True),
    "PoolTimeout": ("timeout", True),
    "ProtocolError": ("broken_body", True),
    "ProxyError": ("connect", True),
    "ReadError": ("broken_body", True),
    "ReadTimeout": ("timeout", True),
    "RemoteProtocolError": ("broken_body", True),
    "RequestError": ("broken_body", True),
    "RequestNotRead": ("internal", False),
    "ResponseNotRead": ("internal", False),
    "StreamClosed": ("internal", False),
    "StreamConsumed": ("internal", False),
    "StreamError": ("internal", False),
    "TimeoutException": ("timeout", True),
    "TooManyRedirects": ("redirect", False),
    "TransportError": ("broken_body", True),
    "UnsupportedProtocol": ("connect", False),
    "WriteError": ("broken_body", True),
    "WriteTimeout": ("timeout", True),
}
"""Every exception of httpx, with what it means here. Those that are `internal` are never raised by what is used of it,
or would be a fault of ours."""


async def test_every_exception_of_httpx_is_mapped() -> None:
    classes = {name: one for name, one in vars(httpx).items() if inspect.isclass(one) and issubclass(one, Exception)}
    assert classes.keys() == EXPECTED.keys(), "httpx has gained or lost an exception: decide what it means"
    for name, one in classes.items():
        error = one.__new__(one)  # not constructed: they differ in what they take
        failure = failure_of("shop", error)
        assert (failure.kind, failure.transient) == EXPECTED[name], name


async def test_an_error_of_another_sort_is_internal_and_keeps_its_text_to_itself() -> None:
    failure = failure_of("shop", RuntimeError("Bearer key-123"))
    assert failure.kind == "internal"
    assert failure.message == "endpoint 'shop': an unexpected RuntimeError"
