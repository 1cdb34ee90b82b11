"""A worker that is killed half-way, and how long the next one waits before it goes on."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle

from bench.histories import Chain, fetch
from bench.processes import polled
from bench.samples import Resume
from bench.shifts import begin, bench
from bench.subjects import BY_NAME, FLOOR, LONGSHIFT, WARM_UP, Subject

STEPS = 50
"""Of the shift; its worker is killed as half of them have begun."""


async def measure_resumes(folder: Path, rounds: int, tell: Callable[[Resume], None]) -> None:
    """Kill and go on, the floor and Longshift in turn. Raises RuntimeError where a worker does not work."""
    for round_ in range(1, rounds + 1):
        for name in (FLOOR, LONGSHIFT):
            tell(await _resume(folder / f"resume-{name}-{round_}", BY_NAME[name], round_))


async def _resume(folder: Path, subject: Subject, round_: int) -> Resume:
    assert subject.model_call is not None
    async with bench(folder, subject) as (_, client, place):
        lengths = [WARM_UP, STEPS]
        first = await subject.start(place, lengths)
        try:
            await polled(client, subject.name, first)
            await (await begin(client, subject, WARM_UP)).result()
            handle = await begin(client, subject, STEPS)
            await _half_way(handle, subject.model_call)
        finally:
            await first.kill()
        chain = await _chain(client, handle, subject.model_call)
        started = time.time()
        second = await subject.start(place, lengths, "second.log")
        try:
            await handle.result()
        finally:
            await second.kill()
        completed = (await _chain(client, handle, subject.model_call)).completed()
        return Resume(
            subject=subject.name,
            steps=STEPS,
            round=round_,
            seconds=next(at for at in completed if at > started) - started,
            heartbeat=chain.heartbeat(),
        )


async def _half_way(handle: WorkflowHandle[Any, Any], model_call: str) -> None:
    counted = Chain([], model_call)
    begun = 0
    async for event in handle.fetch_history_events(wait_new_event=True):
        begun += counted.begins_step(event)
        if begun == STEPS // 2:
            return


async def _chain(client: Client, handle: WorkflowHandle[Any, Any], model_call: str) -> Chain:
    assert handle.first_execution_run_id is not None
    return await fetch(client, handle.id, handle.first_execution_run_id, model_call)
