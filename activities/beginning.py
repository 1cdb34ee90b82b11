"""When the handler of an effect may begin: within its tool's time, and not once the run gave the dispatch up."""

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial

from temporalio import activity

from longshift import observations
from longshift.observations import InThread

NOT_BEGUN = observations.error("not_begun", "no thread was free in time")
"""Stands for what a handler would have brought. The model never reads it: the ledger has the effect made anew."""


class Beginning:
    """The one beginning of an effect's handler. Whoever comes first, the thread that would run the handler or the one
    who gives it up, keeps the other from it."""

    def __init__(self, seconds: float) -> None:
        """The time for it runs from now on."""
        self.at = time.time()
        self.began = time.monotonic()
        self.missed = False
        """The handler did not begin, and now never does."""
        self._seconds = seconds
        self._once = threading.Lock()

    def left(self) -> float:
        """Seconds for it to begin and be done. One clock stands still with the machine, the other may be set back."""
        return self._seconds - max(time.time() - self.at, time.monotonic() - self.began)

    def over(self) -> bool:
        """Whether it may not begin any more: the run has given it up, or has asked for that."""
        return self.left() <= 0 or activity.is_cancelled()

    async def in_thread(self, in_thread: InThread, work: Callable[[], str]) -> str:
        """Run a sync handler in a thread. Where tools hang in all of them, it waits for one: past its time it must not
        begin when one is free at last, since a person may have said meanwhile that it did not happen."""
        waiting = asyncio.ensure_future(in_thread(partial(self._begin, work)))
        timer = asyncio.get_running_loop().call_later(max(0.0, self.left()), self._give_up, waiting)
        try:
            return await waiting
        except asyncio.CancelledError:  # by the timer, or by a worker that ends
            self._give_up(waiting)
            if not self.missed:
                raise
            return NOT_BEGUN
        finally:
            timer.cancel()

    def _begin(self, work: Callable[[], str]) -> str:
        if not self._once.acquire(blocking=False):
            return NOT_BEGUN
        if self.over():  # this process may have stood still, its timer with it
            self.missed = True
            return NOT_BEGUN
        return work()

    def _give_up(self, waiting: "asyncio.Future[str]") -> None:
        if self._once.acquire(blocking=False):
            self.missed = True
            waiting.cancel()
