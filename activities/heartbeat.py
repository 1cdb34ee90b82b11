"""Signs of life: a dead worker is noticed within the heartbeat time-out, and a cancellation reaches a live one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity

BEAT_SECONDS = 1.0
"""Seconds between heartbeats; a cancellation arrives with the next one."""


@asynccontextmanager
async def heartbeating() -> AsyncIterator[None]:
    """Heartbeat while the body runs."""
    task = asyncio.create_task(_beat())
    try:
        yield
    finally:
        task.cancel()


async def _beat() -> None:
    limit = activity.info().heartbeat_timeout
    pause = min(BEAT_SECONDS, limit.total_seconds() / 3) if limit else BEAT_SECONDS
    while True:
        await asyncio.sleep(pause)
        activity.heartbeat()
