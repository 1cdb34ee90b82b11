"""Floor and Longshift in turn, on one server, each in a worker process of its own."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import uuid4

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from bench import material
from bench.histories import Weighed, weigh
from bench.processes import cpu_seconds, environment, polled
from longshift.contracts import WORKFLOW, RunInput
from worker.child import Child
from worker.dev_server import DevServer
from worker.plugin import longshift_plugin

Subject = Literal["floor", "longshift"]

PATIENCE = 2.0
"""Seconds a step may take on average before the shift counts as stuck; it takes a tenth of one."""


@dataclass(frozen=True)
class Sample:
    """One shift, measured."""

    subject: Subject
    steps: int
    wall: float
    """Seconds from asking for the start of the workflow to having its result."""
    cpu: float
    """Seconds of the worker's CPU."""
    server_cpu: float
    """Seconds of the server's CPU."""
    history: Weighed


@dataclass(frozen=True)
class _Bench:
    """One subject, its worker at work."""

    subject: Subject
    client: Client
    worker: Child
    server_pid: int

    async def measure(self, steps: int) -> Sample:
        """Run one shift of so many steps.

        Raises RuntimeError with the end of the worker's log where it does not end.
        """
        workflow, given = ("floor", steps) if self.subject == "floor" else (WORKFLOW, _given(steps))
        cpu, server_cpu, began = cpu_seconds(self.worker.pid), cpu_seconds(self.server_pid), time.perf_counter()
        handle = await self.client.start_workflow(
            workflow, given, id=f"{self.subject}-{uuid4().hex[:12]}", task_queue=self.subject
        )
        try:
            async with asyncio.timeout(PATIENCE * steps):
                await handle.result()
        except TimeoutError:
            raise RuntimeError(f"{handle.id} goes on without end:\n{self.worker.last_lines()}") from None
        wall = time.perf_counter() - began
        cpu, server_cpu = cpu_seconds(self.worker.pid) - cpu, cpu_seconds(self.server_pid) - server_cpu
        assert handle.first_execution_run_id is not None
        history = await weigh(self.client, handle.id, handle.first_execution_run_id, steps)
        return Sample(self.subject, steps, wall, cpu, server_cpu, history)


async def measure_shifts(
    folder: Path, lengths: Sequence[int], repetitions: int, long: int | None, tell: Callable[[str], None]
) -> list[Sample]:
    """Measure both subjects at every length, in turn, after one round that does not count.

    Args:
        folder: for the server's and the journal's files; should be on a real disk.
        lengths: steps of the shifts.
        repetitions: how often each is measured.
        long: steps of one more shift of each, measured once, for the weight of its history.
        tell: gets a line as each shift ends.

    Raises:
        RuntimeError: a worker does not work.
    """
    samples: list[Sample] = []
    async with DevServer(folder / "server", ui=False) as server:
        floor, longshift = (
            await _floor(server, folder),
            await _longshift(server, folder, [*lengths, *filter(None, [long])]),
        )
        try:
            for round_ in range(repetitions + 1):
                for steps in lengths:
                    for bench in (floor, longshift):
                        sample = await bench.measure(steps)
                        tell(_line(sample, "warm-up" if round_ == 0 else f"{round_} of {repetitions}"))
                        if round_:
                            samples.append(sample)
            if long:
                for bench in (floor, longshift):
                    samples.append(await bench.measure(long))
                    tell(_line(samples[-1], "once"))
        finally:
            await asyncio.gather(floor.worker.kill(), longshift.worker.kill())
    return samples


async def _floor(server: DevServer, folder: Path) -> _Bench:
    command = [sys.executable, "-m", "bench.floor", server.address, "floor"]
    worker = await Child.start(command, folder / "floor.log", environment({}))
    client = await Client.connect(server.address, data_converter=pydantic_data_converter)
    await polled(client, "floor", worker)
    return _Bench("floor", client, worker, server.pid)


async def _longshift(server: DevServer, folder: Path, lengths: Sequence[int]) -> _Bench:
    """The worker as people run it: `python -m worker`, its configuration in a file, its journal in SQLite."""
    endpoints = {}
    for steps in lengths:
        file = folder / f"turns-{steps}.json"
        material.write_turns(file, steps)
        endpoints[_endpoint(steps)] = {"kind": "replay", "file": str(file)}
    config = folder / "longshift.toml"
    config.touch()
    variables = {
        "LONGSHIFT_CONFIG": str(config),
        "LONGSHIFT_TASK_QUEUE": "longshift",
        "LONGSHIFT_JOURNAL__URL": f"sqlite:///{folder / 'journal.db'}",
        "LONGSHIFT_ENDPOINTS": json.dumps(endpoints),
        "LONGSHIFT_AGENTS__BENCH": json.dumps({"use": "bench.material:agent"}),
        "TEMPORAL_ADDRESS": server.address,
    }
    worker = await Child.start([sys.executable, "-m", "worker"], folder / "longshift.log", environment(variables))
    client = await Client.connect(server.address, plugins=[longshift_plugin()])
    await polled(client, "longshift", worker)
    return _Bench("longshift", client, worker, server.pid)


def _endpoint(steps: int) -> str:
    return f"steps-{steps}"


def _given(steps: int) -> RunInput:
    return RunInput(agent=material.agent.name, task=material.TASK, endpoint=_endpoint(steps))


def _line(sample: Sample, which: str) -> str:
    per_step = (f"{1000 * seconds / sample.steps:.1f} ms" for seconds in (sample.wall, sample.cpu))
    wall, cpu = per_step
    return f"{sample.subject:9} {sample.steps:5} steps, {which}: {wall} wall, {cpu} worker CPU a step"
