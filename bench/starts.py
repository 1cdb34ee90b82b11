"""How long processes take to start: a worker to its first poll, the command line's help, the demonstration."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from temporalio.client import Client

from bench.processes import environment, polled
from bench.samples import Starts
from worker.child import Child
from worker.dev_server import DevServer

HELPS, WORKERS, DEMOS = 15, 5, 3
"""How often each is started."""


async def measure_starts(folder: Path, tell: Callable[[str], None]) -> Starts:
    """Start everything, as often as it is said above.

    Raises RuntimeError where a worker does not work, CalledProcessError where a command fails.
    """
    longshift = str(Path(sys.executable).parent / "longshift")
    interpreter, help_ = [], []
    for _ in range(HELPS):
        interpreter.append(_seconds([sys.executable, "-c", "pass"]))
        help_.append(_seconds([longshift, "--help"]))
    tell(f"longshift --help: {statistics.median(help_):.3f} s")
    workers = await _workers(folder)
    tell(f"a worker polls after {statistics.median(workers):.2f} s")
    demos = [_seconds([longshift, "demo"]) for _ in range(DEMOS)]
    tell(f"longshift demo: {statistics.median(demos):.1f} s")
    return Starts(interpreter=interpreter, help=help_, worker=workers, demo=demos)


def _seconds(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=environment({}), stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.perf_counter() - began


async def _workers(folder: Path) -> list[float]:
    config = folder / "nothing.toml"
    config.touch()
    seconds = []
    async with DevServer(folder / "starts", ui=False) as server:
        client = await Client.connect(server.address)
        for number in range(WORKERS):
            queue = f"start-{number}"
            variables = {
                "LONGSHIFT_CONFIG": str(config),
                "LONGSHIFT_TASK_QUEUE": queue,
                "LONGSHIFT_JOURNAL__URL": f"sqlite:///{folder / f'start-{number}.db'}",
                "TEMPORAL_ADDRESS": server.address,
            }
            began = time.perf_counter()
            worker = await Child.start([sys.executable, "-m", "worker"], folder / "start.log", environment(variables))
            await polled(client, queue, worker)
            seconds.append(time.perf_counter() - began)
            await worker.stop()
    return seconds
