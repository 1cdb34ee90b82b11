"""Threads of the tools' own: what hangs in them holds up nothing else."""

import asyncio
import contextvars
import socket
import threading

import pytest

from worker.threads import ToolThreads

pytestmark = pytest.mark.asyncio

CALL = contextvars.ContextVar("CALL", default="none")


async def test_tools_that_hang_in_every_thread_hold_up_no_name_look_up() -> None:
    threads, go_on = ToolThreads(2), threading.Event()

    def hang() -> str:
        go_on.wait()
        return "late"

    hung = [asyncio.create_task(threads.run(hang)) for _ in range(40)]
    await asyncio.sleep(0)
    found = await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)
    go_on.set()

    assert found
    assert await asyncio.gather(*hung) == ["late"] * 40
    threads.leave()


async def test_a_tool_in_a_thread_sees_the_context_of_its_call() -> None:
    threads = ToolThreads(1)
    CALL.set("the call")
    assert await threads.run(CALL.get) == "the call"
    threads.leave()
