"""What ends a command that serves until it is told."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from client.commands.session import until_told

pytestmark = pytest.mark.asyncio

TOLD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Every test leaves the signals as they were."""
    before = {number: signal.getsignal(number) for number in (*TOLD, signal.SIGUSR1)}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def waiting() -> asyncio.Task[None]:
    """A wait that has begun."""
    task = asyncio.create_task(until_told())
    await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("number", TOLD)
async def test_each_of_three_signals_ends_the_wait(number: signal.Signals) -> None:
    wait = await waiting()
    os.kill(os.getpid(), number)
    await wait


async def test_a_hangup_that_is_ignored_as_by_nohup_ends_nothing() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    wait, later = await waiting(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, later.set)
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGUSR1)
    await later.wait()  # whatever came before it has been taken too
    await asyncio.sleep(0)
    assert not wait.done()
    os.kill(os.getpid(), signal.SIGTERM)
    await wait


async def test_an_interrupt_ends_what_a_script_started_in_the_background_where_shells_ignore_it() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wait = await waiting()
    os.kill(os.getpid(), signal.SIGINT)
    await wait
