"""A client for the time of one command, and the options that commands share."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import click

from client.commands.given import usable_runs
from client.shifts import Shifts
from longshift.status import Status
from worker.connection import connect
from worker.settings import load_settings

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

COMPLETED, ENDED_OTHERWISE = 0, 1
"""Exit codes of a shift that ended."""


def json_option(function: Function) -> Function:
    """The option `--json`, as `as_json`."""
    text = "Print JSON, one document, or one a line where it is live, and nothing else on stdout."
    return click.option("--json", "as_json", is_flag=True, help=text)(function)


def run_argument(function: Function) -> Function:
    """The argument RUN, as `run_id`."""
    return click.argument("run_id", metavar="RUN", callback=usable_runs)(function)


class Session:
    """A connected client. Awaitable things are done one after the other, so that Ctrl-C has a place to land between.

    Raises SettingsRefused and NoServer.
    """

    def __init__(self, config: Path | None) -> None:
        self.settings = load_settings(config)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self.client = self.do(connect(self.settings))
        self.shifts = Shifts(self.client, self.settings.task_queue, self.settings.journal.url)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end; Ctrl-C cancels it and raises KeyboardInterrupt."""
        return self._runner.run(work)


def exit_code(status: str) -> int:
    """The exit code for a run that ended with `status`."""
    return COMPLETED if status == Status.COMPLETED else ENDED_OTHERWISE


async def until_told() -> None:
    """Wait for Ctrl-C, or for SIGTERM or SIGHUP; a second one ends the process without order.

    A SIGHUP that is ignored stays so: `nohup` asks for that. A SIGINT counts always: a shell ignores it for all that a
    script starts in the background, and what serves there is to end with the script.
    """
    told, loop = asyncio.Event(), asyncio.get_running_loop()

    def tell(number: signal.Signals) -> None:
        told.set()
        loop.remove_signal_handler(number)

    hangup = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    for number in (signal.SIGINT, signal.SIGTERM, *hangup):
        loop.add_signal_handler(number, tell, number)
    await told.wait()
