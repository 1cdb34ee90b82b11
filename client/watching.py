"""Watching runs: live pictures on a terminal, else plain lines or documents."""

import asyncio
import contextlib
import functools
from typing import Any, NoReturn

from rich.console import Console

from client import show
from client.shifts import Shifts, Snapshot
from client.watch import one, overview, picture
from client.watch.looks import EVERY_SECONDS, Looks, story
from client.watch.overview import PACE_SECONDS, Overview, Overviews


async def watch(shifts: Shifts, run_id: str, as_json: bool) -> str | None:
    """Watch a run until it has ended, on stdout; its last status, or None where the person left before.

    On a terminal one picture that changes, else a line for each step and change; with `as_json` a document for each
    change. A server that does not answer any more is waited for.
    """
    found = await shifts.state(run_id)
    if as_json:
        return await _documents(shifts, found)
    console = Console()
    if _is_screen(console):
        return await one.watch(shifts, found, console)
    return await _lines(shifts, found)


async def watch_all(shifts: Shifts, as_json: bool) -> None:
    """Watch all runs that have not ended until the person leaves, on stdout.

    On a terminal a list that changes, else a line whenever one of them changes; with `as_json` a document of all.
    """
    console = Console()
    if not as_json and _is_screen(console):
        await overview.watch(shifts, console)
        return
    overviews = Overviews(shifts)
    looks = Looks(overviews.look, await overviews.look(), PACE_SECONDS)
    await (_document_all(looks) if as_json else _tell_all(looks))


def _is_screen(console: Console) -> bool:
    """Whether a picture can be drawn and drawn again; TERM=dumb says that it cannot."""
    return console.is_terminal and not console.is_dumb_terminal


async def _documents(shifts: Shifts, found: Snapshot) -> str:
    looks = Looks(functools.partial(shifts.state, found.run_id), found, EVERY_SECONDS)
    shown = None
    while True:
        document = show.described(looks.latest)
        if document != shown:
            show.document(document)
            shown = document
        if looks.latest.closed_at:
            return looks.latest.status
        await _again(looks)


async def _lines(shifts: Shifts, found: Snapshot) -> str:
    looks = Looks(functools.partial(shifts.state, found.run_id), found)
    telling = asyncio.create_task(_tell_budgets(looks))
    try:
        async for line in story(shifts, found.run_id):
            show.step(line)
            looks.hasten()
    finally:
        telling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await telling
    return (await looks.once()).status


async def _tell_budgets(looks: Looks[Snapshot]) -> None:
    """A line whenever the budgets or what the run waits for have changed."""
    shown = ""
    while not looks.latest.closed_at:
        text = show.summary(looks.latest)
        if text != shown:
            show.line(text)
            shown = text
        await _again(looks)


async def _tell_all(looks: Looks[Overview]) -> NoReturn:
    """A line for each run, and whenever one has changed or ended."""
    shown: dict[str, str] = {}
    while True:
        for run in (*reversed(looks.latest.runs), *looks.latest.ended):
            text = picture.in_words(run)
            if shown.get(run.run_id) != text:
                show.line(text)
                shown[run.run_id] = text
        await _again(looks)


async def _document_all(looks: Looks[Overview]) -> NoReturn:
    shown = None
    while True:
        document = [show.described(run) for run in (*looks.latest.runs, *looks.latest.ended)]
        if document != shown:
            show.document(document)
            shown = document
        await _again(looks)


async def _again(looks: Looks[Any]) -> None:
    """Look again; say on stderr when the server does not answer any more, and when it does."""
    looking = asyncio.create_task(looks.again())
    told = False
    try:
        while not looking.done():
            await asyncio.wait({looking}, timeout=EVERY_SECONDS)
            if not told and looks.away_since is not None:
                show.note(picture.away_words(looks.away_since))
                told = True
    finally:
        looking.cancel()
    looking.result()
    if told:
        show.note("the Temporal server answers again")
