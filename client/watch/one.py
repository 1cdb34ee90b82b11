"""One run on a terminal: its picture, and what the keys do."""

import asyncio
import functools
from collections import deque

from rich.console import Console, RenderableType

from client import show
from client.errors import ClientError
from client.shifts import Shifts, Snapshot
from client.story import StoryLine
from client.watch import picture
from client.watch.looks import EVERY_SECONDS, Looks, story
from client.watch.screen import Screen
from longshift.questions import Question
from worker.connection import NoServer

KEPT = 200
"""Latest steps kept, of which a picture shows what fits."""


async def watch(shifts: Shifts, found: Snapshot, console: Console) -> str | None:
    """Show a run on the terminal of `console` until it has ended, and heed keys.

    Args:
        found: how it stands.

    Returns: its last status; None where the person left before its end.
    """
    with Screen(console) as screen:
        run = _Watch(shifts, found, screen, console)
        status = await run.follow()
    console.print(run.last_picture())
    return status


class _Watch:
    def __init__(self, shifts: Shifts, found: Snapshot, screen: Screen, console: Console) -> None:
        self._shifts, self._run_id = shifts, found.run_id
        self._screen, self._console = screen, console
        self._looks = Looks(functools.partial(shifts.state, found.run_id), found)
        self._steps: deque[StoryLine] = deque(maxlen=KEPT)
        self._notice = self._prompt = ""
        self._doing: asyncio.Task[None] | None = None
        """What the latest key began; until it is over no key is heeded but those that it asks for."""

    async def follow(self) -> str | None:
        telling = asyncio.create_task(self._tell())
        looking = asyncio.create_task(self._look(telling))
        try:
            while not looking.done():
                self._draw()
                await self._screen.changed(EVERY_SECONDS)
                if telling.done():
                    telling.result()
                if self._doing is not None and self._doing.done():
                    self._doing.result()
                    self._doing = None
                if self._doing is None and (key := self._screen.pressed()):
                    if key == "q":
                        return None
                    self._doing = asyncio.create_task(self._act(key))
            looking.result()
            return self._looks.latest.status
        finally:
            tasks = [task for task in (telling, looking, self._doing) if task]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def last_picture(self) -> RenderableType:
        """What stays on the ordinary screen."""
        foot = picture.Foot(self._looks.away_since, self._notice)
        return picture.one(self._looks.latest, tuple(self._steps), foot, self._console.width)

    def _draw(self) -> None:
        keys = ""
        if self._screen.has_keys and not self._prompt:
            keys = (picture.ANSWERS if self._approval() else "") + picture.KEYS
        foot = picture.Foot(self._looks.away_since, self._notice, self._prompt, keys)
        width, height = self._console.size
        self._screen.draw(picture.one(self._looks.latest, tuple(self._steps), foot, width, height))

    async def _tell(self) -> None:
        async for line in story(self._shifts, self._run_id):
            self._steps.append(line)
            self._looks.hasten()
            self._screen.wake()

    async def _look(self, telling: asyncio.Task[None]) -> None:
        """Look until the run has ended, and once more when its story is told."""
        over = False
        while not over:
            over = telling.done()
            await self._looks.again()
            self._screen.wake()

    def _approval(self) -> Question | None:
        """What the run asks to have approved."""
        question = self._looks.latest.question
        return question if question is not None and question.kind == "approval" else None

    async def _act(self, key: str) -> None:
        """Do what a key is for; tell what came of it."""
        try:
            self._notice = await self._done(key)
            self._looks.hasten()
        except (ClientError, NoServer) as error:
            self._notice = str(error)
        finally:
            self._prompt = ""
            self._screen.forget()
            self._screen.wake()

    async def _done(self, key: str) -> str:
        question = self._approval()
        if key == "p":
            await self._shifts.pause(self._run_id)
            return f"told to pause{self._later()}; the deadline still runs"
        if key == "r":
            await self._shifts.resume(self._run_id)
            return f"told to go on{self._later()}"
        if key == "s":
            return await self._stop()
        if key == "a" and question is not None:
            return await self._approve(question)
        if key == "d" and question is not None:
            return await self._deny(question)
        return ""

    async def _stop(self) -> str:
        """Stop the run, once the person has confirmed it; at once, where it was told to stop before."""
        view = self._looks.latest.view
        now = view is not None and view.stop is not None
        how = "at once, cancelling a call in flight" if now else "before its next step"
        self._prompt = f"Stop it {how}? y yes, any other key no"
        self._screen.forget()
        self._draw()
        if await self._screen.key() != "y":
            return "not stopped; nothing was sent"
        await self._shifts.stop(self._run_id, mode="now" if now else "graceful")
        return f"told to stop {'at once' if now else 'before its next step'}{self._later()}"

    async def _approve(self, question: Question) -> str:
        """Approve one question, once its whole arguments were shown, and the person confirmed those."""
        try:
            arguments = await self._shifts.arguments(self._run_id, question)
        except ClientError as error:
            return f"the whole arguments cannot be shown, so they are not approved: {error}; nothing was sent"
        with self._screen.aside():
            self._screen.forget()
            self._ask(question, arguments)
            show.line("Approve exactly this? y yes, any other key no")
            if await self._screen.key() != "y":
                return "not approved; nothing was sent"
        return (await self._shifts.approve(self._run_id, question)).told("approve")

    async def _deny(self, question: Question) -> str:
        """Deny one question, with the reason that the person types."""
        try:
            arguments = await self._shifts.arguments(self._run_id, question)
        except ClientError as error:
            arguments = f"{question.arguments} (cut here; {error})"
        with self._screen.aside():
            self._screen.forget()
            self._ask(question, arguments)
            show.line("Why is it denied? The model reads it. An empty line: it is not denied.")
            reason = await self._screen.line()
        if not reason:
            return "not denied; nothing was sent"
        return (await self._shifts.deny(self._run_id, question, reason=reason)).told("deny")

    def _ask(self, question: Question, arguments: str) -> None:
        """Show what is asked, on the ordinary screen, whole however long it is."""
        show.line(f"{self._run_id} asks about call {question.call_id}: {question.why}")
        show.line(f"{question.name} {arguments}")
        show.line(f"SHA-256 of the arguments: {question.arguments_sha256}")

    def _later(self) -> str:
        return show.LATER if self._looks.latest.status == "NO_WORKER" else ""
