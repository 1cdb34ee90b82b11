"""Looking at the server again and again: at a bounded pace, and on through the times when it does not answer."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from client.shifts import Shifts
from client.story import StoryLine
from worker.connection import NoServer

EVERY_SECONDS = 1.0
"""Seconds between two looks at least."""
IDLE_SECONDS = 5.0
"""Seconds between two looks at most, where the run's story tells when there is something to see."""
LATE_SECONDS = 5.0
"""Seconds after which a look that has no answer is told: a worker that is away takes two of them."""

T = TypeVar("T")


class Looks(Generic[T]):
    """The looks at one thing."""

    def __init__(self, look: Callable[[], Awaitable[T]], first: T, idle_seconds: float = IDLE_SECONDS) -> None:
        """Begin after a first look.

        Args:
            look: looks once; may raise NoServer.
            first: what was seen.
            idle_seconds: the longest time between two looks.
        """
        self.latest = first
        """What was seen last."""
        self._look = look
        self._wait = max(0.0, idle_seconds - EVERY_SECONDS)
        self._news = asyncio.Event()
        self._asked_at: float | None = None

    def hasten(self) -> None:
        """There is something new: look as soon as the pace allows."""
        self._news.set()

    @property
    def away_since(self) -> float | None:
        """When the server was asked that has not answered since, in seconds since the epoch; None while it answers."""
        asked_at = self._asked_at
        return asked_at if asked_at is not None and time.time() - asked_at >= LATE_SECONDS else None

    async def again(self) -> T:
        """What is seen next, at the pace; otherwise as `once`."""
        await asyncio.sleep(EVERY_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._wait):
                await self._news.wait()
        self._news.clear()
        return await self.once()

    async def once(self) -> T:
        """What is seen now. Where the server is away, looks until it is back."""
        self._asked_at = time.time()
        while True:
            try:
                self.latest = await self._look()
            except NoServer:
                await asyncio.sleep(EVERY_SECONDS)
            else:
                self._asked_at = None
                return self.latest


async def story(shifts: Shifts, run_id: str) -> AsyncIterator[StoryLine]:
    """A run's story until it has ended, each line once, also where the server was away in between."""
    told = 0
    while True:
        number = 0
        try:
            async for line in shifts.follow(run_id):
                number += 1
                if number > told:
                    told = number
                    yield line
        except NoServer:
            await asyncio.sleep(EVERY_SECONDS)
        else:
            return
