"""All runs that have not ended, on a terminal or as lines: a list that follows."""

import asyncio
from collections import deque
from dataclasses import dataclass

from rich.console import Console, RenderableType

from client.errors import NoSuchRun
from client.shifts import Listed, Shifts
from client.watch import picture
from client.watch.looks import EVERY_SECONDS, Looks
from client.watch.screen import Screen

AT_MOST = 100
"""Runs listed, the latest."""
PACE_SECONDS = 3.0
"""Seconds between two looks: each asks the server about every run."""
ENDED = 5
"""Runs shown that ended meanwhile, the latest."""


@dataclass(frozen=True)
class Overview:
    """What is seen at once."""

    runs: tuple[Listed, ...]
    """At work or waiting, those that began last first."""
    ended: tuple[Listed, ...]
    """Ended since the watch began, the latest last."""


class Overviews:
    """Looks at all runs. No worker is asked."""

    def __init__(self, shifts: Shifts) -> None:
        self._shifts = shifts
        self._known: tuple[Listed, ...] = ()
        self._ended: deque[Listed] = deque(maxlen=ENDED)

    async def look(self) -> Overview:
        """How all stand now. Raises NoServer."""
        found = await self._shifts.list(AT_MOST, open_only=True)
        listed = {run.run_id for run in found}
        gone = await asyncio.gather(*(self._end(run.run_id) for run in self._known if run.run_id not in listed))
        self._known = tuple(run for run in found if run.closed_at is None)
        told = {run.run_id for run in self._ended}
        closed = (*(run for run in gone if run), *found)
        self._ended.extend(run for run in closed if run.closed_at is not None and run.run_id not in told)
        return Overview(self._known, tuple(self._ended))

    async def _end(self, run_id: str) -> Listed | None:
        try:
            return await self._shifts.state(run_id)
        except NoSuchRun:
            return None


async def watch(shifts: Shifts, console: Console) -> None:
    """Show all runs on the terminal of `console` until the person leaves."""
    overviews = Overviews(shifts)
    looks = Looks(overviews.look, await overviews.look(), PACE_SECONDS)

    def shown(keys: str, height: int | None) -> RenderableType:
        cut = f"these are the latest {AT_MOST} only" if len(looks.latest.runs) >= AT_MOST else ""
        foot = picture.Foot(looks.away_since, cut, keys=keys)
        return picture.every(looks.latest.runs, looks.latest.ended, foot, console.width, height)

    with Screen(console) as screen:

        async def look() -> None:
            while True:
                await looks.again()
                screen.wake()

        looking = asyncio.create_task(look())
        try:
            while not looking.done() and screen.pressed() != "q":
                screen.draw(shown(picture.LEAVE if screen.has_keys else "", console.height))
                await screen.changed(EVERY_SECONDS)
        finally:
            looking.cancel()
            await asyncio.wait({looking})
    if not looking.cancelled():
        looking.result()
    console.print(shown("", None))
