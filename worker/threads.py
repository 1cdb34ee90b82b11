"""The threads that run synchronous tools."""

import asyncio
import contextvars
import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

NAME = "tool"
"""Begins the name of each of these threads."""

log = logging.getLogger("longshift.worker")


class ToolThreads:
    """Threads of the tools' own. A tool that outlives its time-out keeps its thread, and the event loop's threads look
    up the names of model endpoints: in one pool, enough such tools would hold back every model call."""

    def __init__(self, most: int) -> None:
        """Start none yet.

        Args:
            most: threads at once.
        """
        self._executor = ThreadPoolExecutor(most, NAME)

    async def run(self, function: Callable[[], str]) -> str:
        """Run `function`, which raises nothing, in a thread that sees the caller's context."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._executor, context.run, function)

    def leave(self) -> None:
        """End the process where a tool outlived its grace: Python would wait for its thread without end."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        threads = [thread for thread in threading.enumerate() if thread.name.startswith(f"{NAME}_")]
        for thread in threads:
            thread.join(timeout=0.1)
        if stuck := sum(thread.is_alive() for thread in threads):
            log.warning("%d tool threads were still at work and are left", stuck)
            sys.stderr.flush()
            os._exit(0)
