"""How long the transport waits, for a connection and for an answer, and what it says where none comes."""

import asyncio
import socket
import threading

import pytest

from longshift.turns import CallFailed
from tests.endpoints.posting import CAP, failed, post
from tests.endpoints.raw_server import Answer, RawServer, raw_server, reply

pytestmark = pytest.mark.asyncio


async def _stall_before_headers(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _stall_in_body(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{")
    await writer.drain()
    await asyncio.Event().wait()


async def _drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


async def _drip_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-More: 1\r\n")
        await writer.drain()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("answer", [_stall_before_headers, _stall_in_body, _drip, _drip_headers])
async def test_one_deadline_holds_over_the_whole_answer(answer: Answer) -> None:
    failure = await failed(answer, seconds=0.3)
    assert (failure.kind, failure.transient) == ("timeout", True)
    assert "0.3 s" in failure.message


async def test_the_deadline_holds_over_the_connect_too() -> None:
    with socket.socket() as full:  # listens and never accepts; its queue is filled, so a further connect hangs
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = []
        try:
            for _ in range(4):
                one = socket.socket()
                one.setblocking(False)
                one.connect_ex(full.getsockname())
                waiting.append(one)
            server = RawServer(url=f"http://127.0.0.1:{full.getsockname()[1]}/v1")
            with pytest.raises(CallFailed) as caught:
                await post(server, seconds=0.3)
        finally:
            for one in waiting:
                one.close()
    assert caught.value.failure.kind == "timeout"


async def test_an_error_status_is_told_although_its_body_never_ends() -> None:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 10\r\n\r\n")
        await writer.drain()
        await asyncio.Event().wait()

    failure = await failed(write, seconds=0.3)
    assert (failure.kind, failure.transient) == ("status", False)
    assert "401" in failure.message


async def test_an_error_status_is_told_although_its_body_is_too_large() -> None:
    failure = await failed(reply("x" * (CAP * 2), 503))
    assert (failure.kind, failure.transient) == ("status", True)


async def test_the_deadline_holds_over_the_name_look_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: over.wait())
    try:
        with pytest.raises(CallFailed) as caught:
            await post(RawServer(url="http://slow-name.test/v1"), seconds=0.3)
    finally:
        over.set()
    assert caught.value.failure.kind == "timeout"


async def test_a_name_that_does_not_resolve_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "unknown name")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(CallFailed) as caught:
        await post(RawServer(url="http://no-name.test/v1"))
    assert (caught.value.failure.kind, caught.value.failure.transient) == ("connect", True)


async def test_a_refused_connection_is_transient() -> None:
    with socket.socket() as taken:  # bound and not listening: the port refuses
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(CallFailed) as caught:
            await post(RawServer(url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1"))
    assert (caught.value.failure.kind, caught.value.failure.transient) == ("connect", True)


async def test_tls_to_a_server_without_it_is_no_connection() -> None:
    async def answer_at_once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer_at_once, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises(CallFailed) as caught:
            await post(RawServer(url=f"https://127.0.0.1:{port}/v1"))
    assert caught.value.failure.kind == "connect"


async def test_a_url_that_cannot_be_used_is_final() -> None:
    with pytest.raises(CallFailed) as caught:
        await post(RawServer(url="http://\u2603.example/v1"))
    assert (caught.value.failure.kind, caught.value.failure.transient) == ("connect", False)


async def test_a_cancellation_passes_through() -> None:
    arrived = asyncio.Event()

    async def write(writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await asyncio.Event().wait()

    async with raw_server(write) as server:
        task = asyncio.create_task(post(server))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
