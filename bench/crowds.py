"""Many shifts at once: at work on one worker or two, and waiting in a worker's memory."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle

from bench.processes import cpu_seconds, open_files, peak_bytes, polled, resident_bytes
from bench.samples import Crowd, Paused
from bench.shifts import begin, bench
from bench.subjects import BY_NAME, FLOOR, LONGSHIFT, WARM_UP, Subject
from longshift import contracts
from worker.child import Child

STEPS = 10
"""Of each shift."""
ASKED_AT_ONCE = 50
"""Shifts that the server is asked to start at the same moment; it takes no more in good time on two cores."""
CROWDS = ((FLOOR, 1), (LONGSHIFT, 1), (LONGSHIFT, 2))
"""Who, and with how many workers on one journal."""


async def measure_crowds(
    folder: Path, sizes: list[int], rounds: int, cap: float, tell: Callable[[Crowd], None]
) -> None:
    """So many shifts at once, for all of CROWDS in turn. Raises RuntimeError where a worker does not work."""
    for round_ in range(1, rounds + 1):
        for size in sizes:
            for name, workers in CROWDS:
                own = folder / f"crowd-{name}-{workers}-{size}-{round_}"
                tell(await _crowd(own, BY_NAME[name], workers, size, round_, cap))


async def _crowd(folder: Path, subject: Subject, workers: int, size: int, round_: int, cap: float) -> Crowd:
    async with bench(folder, subject) as (_, client, place):
        children = [await subject.start(place, [WARM_UP, STEPS], f"worker-{number}.log") for number in range(workers)]
        try:
            await polled(client, subject.name, *children)
            await asyncio.gather(*[(await begin(client, subject, WARM_UP)).result() for _ in range(2 * workers)])
            cpu, began = _cpu(children), time.perf_counter()
            asking = asyncio.Semaphore(ASKED_AT_ONCE)
            shifts = [asyncio.ensure_future(_shift(client, subject, asking)) for _ in range(size)]
            done, late = await asyncio.wait(shifts, timeout=cap)
            wall, cpu = time.perf_counter() - began, _cpu(children) - cpu
            peak = sum(peak_bytes(child.pid) for child in children)
        finally:
            await asyncio.gather(*[child.kill() for child in children])
        for shift in late:
            shift.cancel()
        seconds = [shift.result() for shift in done if shift.exception() is None]
        return Crowd(
            subject=subject.name,
            workers=workers,
            shifts=size,
            steps=STEPS,
            round=round_,
            wall=wall,
            cpu=cpu,
            peak=peak,
            slowest=max(seconds, default=0),
            failed=size - len(seconds),
        )


async def _shift(client: Client, subject: Subject, asking: asyncio.Semaphore) -> float:
    """Seconds of one shift."""
    began = time.perf_counter()
    async with asking:
        handle = await begin(client, subject, STEPS)
    await handle.result()
    return time.perf_counter() - began


def _cpu(children: list[Child]) -> float:
    return sum(cpu_seconds(child.pid) for child in children)


async def measure_paused(folder: Path, size: int, cap: float) -> Paused:
    """What so many waiting shifts of ours hold of a worker's memory.

    Raises RuntimeError where the worker does not work, TimeoutError where they do not all come to wait.
    """
    subject = BY_NAME[LONGSHIFT]
    async with bench(folder, subject) as (_, client, place):
        worker = await subject.start(place, [WARM_UP, STEPS])
        try:
            await polled(client, subject.name, worker)
            await (await begin(client, subject, WARM_UP)).result()
            started = resident_bytes(worker.pid)
            first = await asyncio.gather(*[begin(client, subject, STEPS) for _ in range(min(ASKED_AT_ONCE, size))])
            await asyncio.gather(*[shift.result() for shift in first])
            before = resident_bytes(worker.pid)
            limits: dict[str, int | str] = {"model_calls": STEPS, "on_limit": "wait"}
            async with asyncio.timeout(cap):
                for done in range(0, size, ASKED_AT_ONCE):
                    part = [begin(client, subject, STEPS, limits) for _ in range(min(ASKED_AT_ONCE, size - done))]
                    for handle in await asyncio.gather(*part):
                        await _waiting(handle)
            after, files = resident_bytes(worker.pid), open_files(worker.pid)
        finally:
            await worker.kill()
    return Paused(shifts=size, steps=STEPS, started=started, before=before, after=after, files=files)


async def _waiting(handle: WorkflowHandle[Any, Any]) -> None:
    while (await handle.query(contracts.STATE))["status"] != "WAITING":  # noqa: ASYNC110 - nothing tells us
        await asyncio.sleep(0.2)
