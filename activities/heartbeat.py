"""Signs of life: a dead worker is noticed within the heartbeat time-out, and a cancellation reaches a live one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from temporalio import activity

BEAT_SECONDS = 1.0
"""Seconds between heartbeats; a cancellation arrives with the next one."""


@contextmanager
def heartbeating() -> Iterator[None]:
    """Heartbeat while the body runs. A timer, not a task: most activities are over before the first beat."""
    loop = asyncio.get_running_loop()
    limit = activity.info().heartbeat_timeout
    pause = min(BEAT_SECONDS, limit.total_seconds() / 3) if limit else BEAT_SECONDS

    timers: list[asyncio.TimerHandle] = []

    def beat() -> None:
        activity.heartbeat()
        timers[:] = [loop.call_later(pause, beat)]

    timers.append(loop.call_later(pause, beat))
    try:
        yield
    finally:
        timers[0].cancel()
