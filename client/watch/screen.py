"""The terminal of a watch: a screen of its own and keys one at a time, given back whatever ends or stops the watch."""

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.live import Live

GIVING_BACK = (signal.SIGTSTP, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that act as ever, once the terminal is given back. Ctrl-C comes as a cancellation."""


def one_key(data: bytes) -> str | None:
    """The key that was pressed, in lower case; None for what is no single key.

    The sequence of an arrow key holds letters that would be keys, and so does a text that is pasted.
    """
    text = data.decode("utf-8", "ignore")
    return text[0].lower() if len(set(text)) == 1 else None


class Screen:
    """The terminal, inside `with`. Where stdin is no terminal it has no keys; in the background it waits."""

    def __init__(self, console: Console) -> None:
        """Use the terminal of `console`, and the one at stdin."""
        self._console = console
        self._stdin = sys.stdin.fileno() if sys.stdin and sys.stdin.isatty() else None
        self._modes: list[Any] | None = None
        """The terminal's own, once they were changed."""
        self._taken = self._aside = self._by_line = False
        self._live: Live | None = None
        self._typed: asyncio.Queue[str] = asyncio.Queue()
        self._changed = asyncio.Event()

    @property
    def has_keys(self) -> bool:
        """Whether keys can be pressed."""
        return self._stdin is not None

    def __enter__(self) -> Self:
        """Heed the signals; the first `draw` takes the terminal."""
        self._loop = asyncio.get_running_loop()
        self._heeded = [number for number in GIVING_BACK if signal.getsignal(number) is signal.SIG_DFL]
        self._loop.add_signal_handler(signal.SIGCONT, self._go_on)
        self._loop.add_signal_handler(signal.SIGWINCH, self._changed.set)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back."""
        self._give_back()
        for number in (signal.SIGCONT, signal.SIGWINCH, *self._heeded):
            self._loop.remove_signal_handler(number)

    def draw(self, picture: RenderableType) -> None:
        """Show this and nothing else. Nothing is drawn in the background, or while the screen is left aside."""
        if not self._taken:
            self._take()
        if not self._taken or self._aside:
            return
        if self._live is None:
            self._live = Live(console=self._console, screen=True, auto_refresh=False)
            self._live.start()
        self._live.update(picture, refresh=True)

    def wake(self) -> None:
        """There is something new to draw."""
        self._changed.set()

    async def changed(self, seconds: float) -> None:
        """Wait until there is something to draw, a key to take, or so many seconds have passed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()

    def pressed(self) -> str | None:
        """The key that was pressed, if one was."""
        return None if self._typed.empty() else self._typed.get_nowait()

    async def key(self) -> str:
        """Wait for a key."""
        return await self._typed.get()

    async def line(self) -> str:
        """Wait for a line, typed with the terminal's own editing; blanks around it are left out. Empty: nothing was
        given, also by Ctrl-D."""
        self._by_line = True
        self._set_modes()
        try:
            return (await self._typed.get()).strip()
        finally:
            self._by_line = False
            if self._taken:
                self._set_modes()

    def forget(self) -> None:
        """Drop what was typed before it could be an answer to what is asked next."""
        if self._stdin is not None:
            with contextlib.suppress(termios.error):
                termios.tcflush(self._stdin, termios.TCIFLUSH)
        while not self._typed.empty():
            self._typed.get_nowait()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """The ordinary screen meanwhile, where what is longer than the screen can be scrolled back to."""
        self._aside = True
        self._end_picture()
        try:
            yield
        finally:
            self._aside = False

    def _take(self) -> None:
        if not self._in_front():
            return
        for number in self._heeded:
            self._loop.add_signal_handler(number, self._act_as_ever, number)
        if self._stdin is not None:
            if self._modes is None:
                self._modes = termios.tcgetattr(self._stdin)
            self._set_modes()
            self._loop.add_reader(self._stdin, self._read)
        self._taken = True

    def _give_back(self) -> None:
        taken, self._taken = self._taken, False
        self._end_picture()
        if not taken or self._stdin is None:
            return
        self._loop.remove_reader(self._stdin)
        if self._modes is not None and self._in_front():
            with contextlib.suppress(termios.error):  # the terminal can be gone
                termios.tcflush(self._stdin, termios.TCIFLUSH)  # keys meant for the watch are none of the shell's
                termios.tcsetattr(self._stdin, termios.TCSANOW, self._modes)

    def _end_picture(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            with contextlib.suppress(OSError):
                live.stop()

    def _set_modes(self) -> None:
        if self._stdin is None or self._modes is None:
            return
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._stdin, termios.TCSANOW, self._modes)
            if not self._by_line:
                tty.setcbreak(self._stdin, termios.TCSANOW)

    def _in_front(self) -> bool:
        """Whether the terminal is ours now: a job in the background that changes it would be stopped."""
        try:
            return os.tcgetpgrp(sys.stdout.fileno() if self._stdin is None else self._stdin) == os.getpgrp()
        except OSError:  # it controls no jobs
            return True

    def _act_as_ever(self, number: signal.Signals) -> None:
        """Give the terminal back, then let a signal stop or end the process as if it were not heeded."""
        self._give_back()
        self._loop.remove_signal_handler(number)
        os.kill(os.getpid(), number)

    def _go_on(self) -> None:
        """After a stop: by SIGTSTP the terminal was given back, by SIGSTOP it was not."""
        self._give_back()
        self._changed.set()

    def _read(self) -> None:
        assert self._stdin is not None
        try:
            data = os.read(self._stdin, 4096)
        except OSError:
            data = b""
        if self._by_line:
            self._typed.put_nowait(data.decode("utf-8", "replace"))
        elif not data:
            self._loop.remove_reader(self._stdin)  # the terminal is gone
        elif key := one_key(data):
            self._typed.put_nowait(key)
        self._changed.set()
