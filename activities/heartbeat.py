"""Signs of life: a dead worker is noticed within the heartbeat time-out, and a cancellation reaches a live one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from temporalio import activity

BEAT_SECONDS = 1.0
"""Seconds between heartbeats; a cancellation arrives with the next one."""

_news: ContextVar[list[str]] = ContextVar("news")


@contextmanager
def heartbeating() -> Iterator[None]:
    """Heartbeat while the body runs. A timer, not a task: most activities are over before the first beat."""
    loop = asyncio.get_running_loop()
    limit = activity.info().heartbeat_timeout
    pause = min(BEAT_SECONDS, limit.total_seconds() / 3) if limit else BEAT_SECONDS
    timers: list[asyncio.TimerHandle] = []
    news: list[str] = []
    _news.set(news)

    def beat() -> None:
        activity.heartbeat(*news)
        timers[:] = [loop.call_later(pause, beat)]

    timers.append(loop.call_later(pause, beat))
    try:
        yield
    finally:
        timers[0].cancel()


def say(*words: str) -> None:
    """What the next heartbeats of this activity tell whoever looks at it while it is pending; nothing: all is well."""
    _news.get()[:] = words
