"""What a server says on its standard error, line by line in the worker's log."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TextIO

MAX_LINE = 16_384
"""Bytes of a line; of a longer one only its size is logged, for in pieces of it a key at a seam would not be found."""
LAST_WORDS_SECONDS = 1.0
"""Seconds in which a server that has ended may still be read."""


@asynccontextmanager
async def lines_to(log: Callable[[str], None]) -> AsyncIterator[TextIO]:
    """A file to give to a process as its standard error. Each line of it goes to `log`, until the body ends."""
    reading, writing = os.pipe()
    lines = _Lines(log)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: lines, os.fdopen(reading, "rb"))
    try:
        with os.fdopen(writing, "w") as file:
            yield file
        async with asyncio.timeout(LAST_WORDS_SECONDS):
            await lines.ended.wait()
    except TimeoutError:
        pass  # a process that the server left behind holds it open
    finally:
        transport.close()


class _Lines(asyncio.Protocol):
    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._rest = b""
        self._left_out = 0
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._say(line)
        if self._left_out or len(self._rest) > MAX_LINE:
            self._left_out += len(self._rest)
            self._rest = b""

    def connection_lost(self, exc: Exception | None) -> None:
        self._say(self._rest)
        self.ended.set()

    def _say(self, line: bytes) -> None:
        size = self._left_out + len(line)
        self._left_out = 0
        long = size > MAX_LINE
        self._log(f"[a line of {size} bytes, not shown]" if long else line.decode("utf-8", errors="replace"))
