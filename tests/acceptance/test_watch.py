"""`watch` as a person has it: a real terminal, whose screen is read, and a shell that stops it and lets it go on."""

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pyte
import pytest

from client.shifts import Shifts
from client.watch.picture import ANSWERS, KEYS, LEAVE
from longshift.jsontext import canonical, sha256
from longshift.run_input import RunInput
from longshift.status import Status
from tests.acceptance import warm
from tests.acceptance.commands import LONGSHIFT, clean_environment, longshift
from tests.acceptance.shift_house import PATIENCE, House

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

TOOLS = '''
from longshift import tool


@tool(needs_approval=True)
def order(sku: str, remark: str = "") -> str:
    """Order."""
    return f"ordered {sku}"
'''
REMARK = "very cold " * 300
"""Longer than a question shows, and than a screen."""
LONG = {"remark": REMARK, "sku": "SKU-1\x1b[2J"}


def turn(*, call_id: str, arguments: Mapping[str, str]) -> str:
    """A turn that orders."""
    given = ", ".join(f'{name} = "{text}"' for name, text in arguments.items()).replace("\x1b", "\\u001b")
    return (
        '[[endpoints.ordering.turns]]\ncontent = ""\noutput_tokens = 2\n'
        f'calls = [{{id = "{call_id}", name = "order", arguments = {{{given}}}}}]\n'
    )


CONFIG = (
    """
[agents.buyer]
system = "Buy."
endpoint = "ordering"
tools = ["buying:order"]

[agents.buyer.limits]
seconds = 900

[endpoints.ordering]
kind = "replay"
"""
    + turn(call_id="order-1", arguments=LONG)
    + turn(call_id="order-2", arguments={"sku": "SKU-2"})
    + turn(call_id="order-3", arguments={"sku": "SKU-3"})
)


class Terminal:
    """A terminal with somebody in front of it."""

    def __init__(self, columns: int, lines: int) -> None:
        self._ours, self.its_end = pty.openpty()
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        """All that was ever written to it."""
        self._more = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._ours, self._read)
        self.resize(columns, lines)

    def resize(self, columns: int, lines: int) -> None:
        """Drag it to another size."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)
        self.screen.erase_in_display(2)

    def types(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    @property
    def text(self) -> str:
        """What stands on its screen."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    async def shows(self, *words: str) -> None:
        """Wait until all of these stand on its screen at once."""
        await self._until(lambda: all(word in self.text for word in words), words)

    async def prompts(self) -> None:
        """Wait until the shell waits for a command."""
        await self._until(lambda: self.text.rstrip().endswith("\n$") or self.text.strip() == "$", "prompt")

    async def gone(self, words: str) -> None:
        """Wait until this does not stand on its screen any more."""
        await self._until(lambda: words not in self.text, f"screen without {words}")

    async def was_told(self, words: str) -> None:
        """Wait until this was written to it, wherever its lines broke."""
        await self._until(lambda: "".join(words.split()) in _unbroken(self.raw), words)

    async def _until(self, condition: Callable[[], bool], what: object) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            raise AssertionError(f"no {what} on:\n{self.text}") from None

    def modes(self) -> list[object]:
        """How it treats what is typed."""
        return termios.tcgetattr(self.its_end)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)
        os.close(self.its_end)

    def _read(self) -> None:
        data = os.read(self._ours, 65536)
        self.raw += data
        for other_screen in (b"\x1b[?1049h", b"\x1b[?1049l"):  # pyte has one screen only
            data = data.replace(other_screen, b"\x1b[2J\x1b[H")
        self._stream.feed(data)
        self._more.set()


def _unbroken(raw: bytes) -> str:
    return "".join(re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", raw).decode(errors="replace").split())


@asynccontextmanager
async def terminal(columns: int = 100, lines: int = 40) -> AsyncIterator[Terminal]:
    """A terminal, until it is closed."""
    opened = Terminal(columns, lines)
    try:
        yield opened
    finally:
        opened.close()


def environment(house: House) -> dict[str, str]:
    """What the commands' environment holds, on a terminal."""
    kept = {name: text for name, text in clean_environment().items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    at_home = {"HOME": str(house.folder), "LONGSHIFT_CONFIG": str(house.folder / "longshift.toml")}
    where = {"TEMPORAL_ADDRESS": house.server.address, "PATH": f"{LONGSHIFT.parent}:{os.environ['PATH']}"}
    return kept | at_home | where | {"TERM": "xterm-256color", "LANG": "C.UTF-8"}


async def started(house: House) -> Shifts:
    """A worker, and a run that asks."""
    (house.folder / "buying.py").write_text(TOOLS, encoding="utf-8")
    with (house.folder / "longshift.toml").open("a", encoding="utf-8") as config:
        config.write(CONFIG)
    await house.worker()
    shifts = await house.shifts()
    await shifts.start(RunInput(agent="buyer", task="Buy."), run_id=house.run_id)
    return shifts


def on(seen: Terminal, env: Mapping[str, str], *words: str) -> ForkServerProcess:
    """A command whose terminal this is."""
    return warm.start(LONGSHIFT, words, env, None, (seen.its_end,) * 3)


async def code_of(process: ForkServerProcess) -> int | None:
    """Wait for a command's end; its exit code."""
    await asyncio.to_thread(process.join, PATIENCE)
    return process.exitcode


def shell(seen: Terminal, env: Mapping[str, str], folder: Path) -> subprocess.Popen[bytes]:
    """A shell that controls jobs."""
    words = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
    code = f"import fcntl, os, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp('bash', {words!r})"
    command = [sys.executable, "-S", "-c", code]
    return subprocess.Popen(
        command,
        env={**env, "PS1": "$ "},
        cwd=folder,
        start_new_session=True,
        stdin=seen.its_end,
        stdout=seen.its_end,
        stderr=seen.its_end,
    )


async def test_a_person_watches_a_shift_pauses_it_answers_it_and_stops_it_and_has_the_terminal_back(
    house: House,
) -> None:
    shifts, env = await started(house), environment(house)
    run_id = house.run_id
    async with terminal() as seen:
        process = shell(seen, env, house.folder)
        try:
            await seen.prompts()
            seen.types(f"stty -g > before; longshift watch {run_id}\n")
            await seen.shows("model calls   [━", "1 / 8", f"longshift approve {run_id} order-1", ANSWERS + KEYS)
            await pauses_and_goes_on(seen, run_id)
            await is_stopped_and_brought_back_by_the_shell(seen)
            await is_narrow(seen)
            await approves_what_was_shown_whole(seen, shifts, run_id)
            await denies_with_a_reason(seen)
            await outlives_the_server(seen, house)
            await stops_it_once_it_is_sure(seen)
            await seen.shows("STOP_REQUESTED")
            await seen.prompts()
            seen.types("echo code $?; stty -g > after\n")
            await seen.shows("code 1\n")
            await seen.prompts()
            seen.types("exit\n")
            await asyncio.to_thread(process.wait, PATIENCE)
        finally:
            process.kill()
            process.wait()
        assert b"\x1b[?25h" in seen.raw.split(b"\x1b[?25l")[-1], "the cursor is back"
        assert b"\x1b[?1049l" in seen.raw.split(b"\x1b[?1049h")[-1], "and the ordinary screen"
    modes = [(house.folder / name).read_text(encoding="utf-8") for name in ("before", "stopped", "after")]
    assert modes[0] == modes[1] == modes[2] != ""
    result = await house.result()
    assert result.status == Status.STOP_REQUESTED
    observed = [message.content for message in await house.messages() if message.role == "tool"]
    assert "ordered SKU-1" in observed[0]
    assert "too many" in observed[1]
    assert len(observed) == 2


async def pauses_and_goes_on(seen: Terminal, run_id: str) -> None:
    seen.types("p")
    await seen.shows("told to pause", "paused: resume it, or stop it", f"go on with   longshift resume {run_id}")
    seen.types("r")
    await seen.shows("told to go on", "approval of order")


async def is_stopped_and_brought_back_by_the_shell(seen: Terminal) -> None:
    seen.types("\x1a")
    await seen.shows("Stopped", "longshift watch")
    await seen.prompts()
    seen.types("stty -g > stopped; fg\n")
    await seen.shows("model calls   [━", KEYS)


async def is_narrow(seen: Terminal) -> None:
    seen.resize(40, 24)
    await seen.shows("model calls   [━", "q:leave")
    assert all(len(line) <= 40 for line in seen.text.splitlines())
    seen.resize(100, 40)
    await seen.shows("model calls   [━━━", KEYS)


async def approves_what_was_shown_whole(seen: Terminal, shifts: Shifts, run_id: str) -> None:
    whole = canonical(LONG)
    seen.types("a")
    await seen.was_told(f"order {whole} SHA-256 of the arguments: {sha256(whole)} Approve exactly this?")
    seen.types("n")
    await seen.shows("not approved; nothing was sent")
    question = (await shifts.state(run_id)).question
    assert question is not None
    assert question.call_id == "order-1"
    seen.types("a")
    await seen.shows("SHA-256 of the arguments", "Approve exactly this?")
    seen.types("y")
    await seen.shows("approved", "order-2")


async def denies_with_a_reason(seen: Terminal) -> None:
    seen.types("d")
    await seen.shows("Why is it denied?")
    seen.types("\n")
    await seen.shows("not denied; nothing was sent")
    seen.types("d")
    await seen.shows("Why is it denied?")
    seen.types("too may\x7f\x7fany\n")
    await seen.shows("denied", "order-3")


async def outlives_the_server(seen: Terminal, house: House) -> None:
    await house.server.kill()
    await seen.shows("the Temporal server has not answered since")
    seen.types("p")
    await seen.shows("the Temporal server does not answer")
    await house.server.restart()
    await seen.gone("has not answered since")


async def stops_it_once_it_is_sure(seen: Terminal) -> None:
    seen.types("s")
    await seen.shows("Stop it before its next step?")
    assert seen.text.count("denied order-2, since: too many") == 1, "the story is not told again"
    seen.types("n")
    await seen.shows("not stopped; nothing was sent")
    seen.types("s")
    await seen.shows("Stop it before its next step?")
    seen.types("y")


async def test_all_shifts_are_followed_without_colours_and_whatever_ends_it_gives_the_terminal_back(
    house_on_shared_server: House,
) -> None:
    house = house_on_shared_server
    shifts, env = await house.shifts(), environment(house)
    await shifts.start(RunInput(agent="buyer", task="Buy."), run_id=house.run_id)
    for how, code in ((signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), ("q", 0)):
        async with terminal(60, 60) as seen:
            modes = seen.modes()
            process = on(seen, env | {"NO_COLOR": "1"}, "watch", "--all")
            await seen.shows(f"RUNNING  {house.run_id}", "  Buy.", LEAVE)
            assert seen.modes() != modes
            if isinstance(how, signal.Signals):
                assert process.pid
                os.kill(process.pid, how)
            else:
                await (await house.workflow()).terminate()
                await seen.shows(f"ended: TERMINATED  {house.run_id}")
                seen.types(how)
            assert await code_of(process) == code
            assert seen.modes() == modes
            await seen.was_told(house.run_id)
            assert not re.search(rb"\x1b\[[0-9;]*3[0-9]", seen.raw), "no colours"
            assert seen.raw.count(b"\x1b[?1049h") == seen.raw.count(b"\x1b[?1049l") == 1


async def test_a_terminal_that_cannot_draw_gets_lines_one_without_a_worker_says_so_and_a_run_or_all_must_be_named(
    house_on_shared_server: House,
) -> None:
    house = house_on_shared_server
    shifts, env = await house.shifts(), environment(house)
    await shifts.start(RunInput(agent="buyer", task="Buy."), run_id=house.run_id)
    async with terminal() as seen:
        process = on(seen, env | {"TERM": "dumb"}, "watch", "--all")
        await seen.shows(f"{house.run_id}  RUNNING: Buy.")
        assert b"\x1b" not in seen.raw
        process.kill()
        process.join()
    async with terminal(40, 24) as seen:
        process = on(seen, env, "watch", house.run_id)
        await seen.shows("status  NO_WORKER", "no worker answers", "p:pause")
        seen.types("p")
        await seen.shows("told to pause; no worker answers now")
        seen.types("q")
        assert await code_of(process) == 130
        await seen.shows("status  NO_WORKER", "told to pause")
        assert LEAVE not in seen.text
    for words in (("watch",), ("watch", "x", "--all")):
        longshift(*words, env=env).refused("RUN: give a shift's id, or --all")
