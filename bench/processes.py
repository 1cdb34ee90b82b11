"""Workers as processes of their own, so that what is measured of one is its own. What they use is read from
/proc: Linux only."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from worker.child import Child

PATIENCE = 60.0
"""Seconds a worker may take to poll before it counts as broken."""
TICKS = os.sysconf("SC_CLK_TCK")
"""Ticks a second in which the kernel counts CPU time."""


def cpu_seconds(pid: int) -> float:
    """User and system CPU time of a process with all its threads; its children do not count."""
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / TICKS  # utime and stime, the 14th and 15th of the line


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM."""
    return _status(pid, "VmRSS")


def peak_bytes(pid: int) -> int:
    """The most memory of a process that ever was in RAM."""
    return _status(pid, "VmHWM")


def _status(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0  # an ended process has none


def open_files(pid: int) -> int:
    """File handles of a process, sockets and pipes too."""
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - the entries vanish while one looks at them


async def polled(client: Client, queue: str, *children: Child) -> None:
    """Wait until these workers poll `queue` for workflow tasks.

    Raises RuntimeError with the end of its log where it ends or does not.
    """
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            while len((await client.workflow_service.describe_task_queue(request)).pollers) < len(children):
                for child in children:
                    if child.code is not None:
                        raise RuntimeError(f"a worker ended with code {child.code}:\n{child.last_lines()}")
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise RuntimeError(f"no worker polls {queue}:\n{children[0].last_lines()}") from None


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Our environment with none of the user's settings of Longshift or Temporal, and with `given`."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("LONGSHIFT_", "TEMPORAL_"))}
    return ours | dict(given)
