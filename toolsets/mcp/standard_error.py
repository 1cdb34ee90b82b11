"""What a server says on its standard error, line by line in the worker's log."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TextIO

MAX_LINE = 4096
"""Bytes of a line; a longer one is logged in pieces."""
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
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            self._say(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self._say(self._rest)
        self.ended.set()

    def _say(self, line: bytes) -> None:
        text = line[: 4 * MAX_LINE].decode("utf-8", errors="replace")
        printable = "".join(character if character.isprintable() else " " for character in text).strip()
        if printable:
            self._log(printable)
