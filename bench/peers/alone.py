"""A process that does one shift without a server, and measures itself."""

import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.stores import used_bytes

WARM_UP = 3
"""Steps of a shift before it, which do not count."""

Shift = Callable[[int, Callable[[], object]], Awaitable[str]]
"""Does so many steps, and calls the function as each model call begins."""


async def measure(shift: Shift, folder: Path, clock: Path, steps: int) -> None:
    """Do a shift and print, as the last line, what it took.

    Args:
        shift: what is measured.
        folder: of the databases.
        clock: file that gets a line with the time of day, in seconds, as each model call begins.
        steps: of the shift.
    """
    await shift(WARM_UP, lambda: None)
    stored = used_bytes(folder)
    with clock.open("w", encoding="utf-8", buffering=1) as lines:
        cpu, wall = time.process_time(), time.perf_counter()
        await shift(steps, lambda: lines.write(f"{time.time()}\n"))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    own = {"wall": wall, "cpu": cpu, "peak": _peak(), "stored": used_bytes(folder) - stored}
    sys.stdout.write(json.dumps(own) + "\n")
    sys.stdout.flush()


def _peak() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
