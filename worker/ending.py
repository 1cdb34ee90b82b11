"""How a worker ends: the steps in flight have their grace, and whatever else holds Temporal's worker a few seconds.

That worker has no bound of its own. It waits for every poll that the server holds, and a server that misses one while
the worker says goodbye holds it for a minute or more; and it waits for every activity, also for one that heeds no
cancellation. Whoever told the worker to end would have to kill it.
"""

import asyncio
from typing import Any

from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Worker

LEAVE_SECONDS = 3.0
"""Seconds past its last step or its grace that a worker has to report outcomes and to take leave of the server."""
CLOSE_SECONDS = 1.0
"""Seconds that a worker which something holds has to close what it opened. With the above less than the five that `up`
gives a worker past its grace before it kills it."""


class StepsAtWork(Interceptor):
    """Counts the activities at work in one worker."""

    def __init__(self) -> None:
        """None yet."""
        self.count = 0
        """How many there are."""
        self._none = asyncio.Event()
        self._none.set()

    async def none(self) -> None:
        """Return once none is at work."""
        await self._none.wait()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Count an activity while it is at work."""
        return _Counted(next, self)

    def began(self) -> None:
        """One more is at work."""
        self.count += 1
        self._none.clear()

    def ended(self) -> None:
        """One less is at work."""
        self.count -= 1
        if not self.count:
            self._none.set()


class _Counted(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, steps: StepsAtWork) -> None:
        super().__init__(next)
        self._steps = steps

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        self._steps.began()
        try:
            return await super().execute_activity(input)
        finally:
            self._steps.ended()


async def end(worker: Worker, steps: StepsAtWork, grace_seconds: float) -> bool:
    """End a worker that runs.

    Args:
        worker: the worker.
        steps: one of its interceptors, which counts the activities at work.
        grace_seconds: what they have to finish.

    Returns:
        Whether it has ended. Where it has not, something holds it, and only the end of the process ends it.
    """
    loop = asyncio.get_running_loop()
    over = loop.time() + grace_seconds
    ending = asyncio.create_task(worker.shutdown())
    while True:
        idle = asyncio.create_task(steps.none())
        await asyncio.wait([ending, idle], timeout=max(0, over - loop.time()), return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()
        await asyncio.wait([ending], timeout=LEAVE_SECONDS)
        # A step that was on its way as the worker was told to end has the grace too.
        if ending.done() or not steps.count or loop.time() >= over:
            break
    ending.cancel()
    return worker.is_shutdown
