"""Watching a run: its story as it comes, its budgets every second."""

import asyncio
import contextlib
from collections import deque

from rich.console import Console
from rich.live import Live

from client import show
from client.shifts import Shifts, Snapshot
from client.story import StoryLine

EVERY_SECONDS = 1.0
"""Seconds between two looks at the budgets."""
STEPS = 8
"""Latest steps shown below the bars."""


async def watch(shifts: Shifts, run_id: str, as_json: bool) -> str:
    """Watch a run until it has ended, on stdout; its last status.

    On a terminal one picture that changes, else a line for each step and change; with `as_json` a document for each
    change.
    """
    found = await shifts.state(run_id)
    if as_json:
        return await _documents(shifts, found)
    console = Console()
    if console.is_terminal:
        return await _picture(shifts, found, console)
    return await _lines(shifts, found)


async def _documents(shifts: Shifts, found: Snapshot) -> str:
    shown = None
    while True:
        document = show.described(found)
        if document != shown:
            show.document(document)
            shown = document
        if found.closed_at:
            return found.status
        await asyncio.sleep(EVERY_SECONDS)
        found = await shifts.state(found.run_id)


async def _lines(shifts: Shifts, found: Snapshot) -> str:
    looking = asyncio.create_task(_tell_budgets(shifts, found))
    try:
        async for line in shifts.follow(found.run_id):
            show.step(line)
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
    return (await shifts.state(found.run_id)).status


async def _tell_budgets(shifts: Shifts, found: Snapshot) -> None:
    """A line whenever the budgets or what the run waits for have changed."""
    shown = ""
    while not found.closed_at:
        text = show.summary(found)
        if text != shown:
            show.line(text)
            shown = text
        await asyncio.sleep(EVERY_SECONDS)
        found = await shifts.state(found.run_id)


async def _picture(shifts: Shifts, found: Snapshot, console: Console) -> str:
    steps: deque[StoryLine] = deque(maxlen=STEPS)

    async def collect() -> None:
        async for line in shifts.follow(found.run_id):
            steps.append(line)

    collecting = asyncio.create_task(collect())
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                over = collecting.done()
                found = await shifts.state(found.run_id)
                live.update(show.picture(found, tuple(steps), console.width), refresh=True)
                if over:
                    collecting.result()
                    return found.status
                await asyncio.wait({collecting}, timeout=EVERY_SECONDS)
    finally:
        collecting.cancel()
