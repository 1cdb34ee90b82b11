"""All subjects in turn, each shift with a server and a worker process of its own."""

import asyncio
import contextlib
import json
import re
import shutil
import sqlite3
import time
from asyncio import Future
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError
from temporalio.worker import Replayer

from bench.floor import Floor, Naive
from bench.histories import Chain, fetch
from bench.model_server import model_server
from bench.processes import cpu_seconds, open_files, peak_bytes, polled, resident_bytes
from bench.samples import Gauge, Sample
from bench.stores import used_bytes
from bench.subjects import FLOOR, WARM_UP, Place, Subject
from longshift import contracts
from worker.child import Child
from worker.dev_server import DevServer
from worker.plugin import longshift_plugin
from workflows.agent_run import AgentRun

GAUGE_SECONDS = 0.5
"""Seconds between two looks at a worker."""
LOOKS = 10
"""Looks at a worker for one at the server, which costs the server something."""
ATTEMPTS = 4
"""Failed attempts at one thing after which a shift counts as stuck; Temporal would go on without end."""
LARGEST_STORE = 8 * 10**9
"""Bytes of a database at which a shift is ended: the disk is ours too."""
REPLAYED: Mapping[str, type] = {FLOOR: Floor, "naive": Naive, contracts.WORKFLOW: AgentRun}
"""The workflows whose code is in this environment."""
TOLD = 160
"""Characters told of a failure."""
LONG = 1000
"""Steps from which on a shift is measured once, not in every round."""


async def measure_shifts(
    folder: Path,
    subjects: Sequence[Subject],
    lengths: Sequence[int],
    rounds: int,
    cap: float,
    tell: Callable[[Sample], None],
) -> None:
    """Measure every subject at every length: all of a length in turn, and that so many times.

    A subject that fails at a length is not tried again there, nor at a longer one.

    Args:
        folder: for the servers' and the journals' files; should be on a real disk.
        subjects: in the order in which they take turns.
        lengths: steps of the shifts.
        rounds: how often each is measured.
        cap: seconds that a shift may take.
        tell: gets each sample as its shift ends.
    """
    failed: dict[str, int] = {}
    for round_ in range(1, rounds + 1):
        for steps in sorted(lengths):
            for subject in subjects:
                if steps >= failed.get(subject.name, steps + 1) or (round_ > 1 and steps >= LONG):
                    continue
                own = folder / f"{subject.name}-{steps}-{round_}"
                sample = await measure_shift(own, subject, steps, round_, cap)
                if sample.failure:
                    failed[subject.name] = steps
                tell(sample)
                shutil.rmtree(own)  # gigabytes, some of them


async def measure_shift(folder: Path, subject: Subject, steps: int, round_: int, cap: float) -> Sample:
    """Measure one shift. One that fails is a sample too, and so is a worker that does not work: others go on."""
    measure = _on_temporal if subject.model_call else _alone
    try:
        return await measure(folder, subject, steps, round_, cap)
    except (RuntimeError, OSError, TemporalError, ValueError) as error:
        nothing = Sample(
            subject=subject.name, steps=steps, round=round_, wall=0, cpu=0, peak=0, stored=0, began=[], gauges=[]
        )
        return nothing.model_copy(update={"failure": _short(f"{type(error).__name__}: {error}")})


@contextlib.asynccontextmanager
async def bench(folder: Path, subject: Subject) -> AsyncIterator[tuple[DevServer, Client, Place]]:
    """A server of its own for a subject on Temporal, a client for it, and a place for its workers."""
    async with DevServer(folder / "server", ui=False) as server:
        client = await Client.connect(server.address, plugins=[longshift_plugin()])
        with model_server() as url:
            yield server, client, Place(folder, server.address, url)


async def begin(
    client: Client, subject: Subject, steps: int, limits: Mapping[str, int | str] | None = None
) -> WorkflowHandle[Any, Any]:
    """Start one shift; limits are Longshift's."""
    name, asked = f"{subject.name}-{uuid4().hex[:12]}", subject.asked(steps, limits)
    return await client.start_workflow(subject.workflow, asked, id=name, task_queue=subject.name)


async def _on_temporal(folder: Path, subject: Subject, steps: int, round_: int, cap: float) -> Sample:
    assert subject.model_call is not None
    async with bench(folder, subject) as (server, client, place):
        worker = await subject.start(place, [WARM_UP, steps])
        try:
            await polled(client, subject.name, worker)
            async with asyncio.timeout(cap):
                await (await begin(client, subject, WARM_UP)).result()
            stored = used_bytes(place.store)
            cpu, server_cpu, began = cpu_seconds(worker.pid), cpu_seconds(server.pid), time.perf_counter()
            handle = await begin(client, subject, steps)
            result = asyncio.ensure_future(handle.result())
            gauges, failure = await _follow(result, worker, place, cap, lambda: _stuck(handle))
            wall = time.perf_counter() - began
            cpu, server_cpu = cpu_seconds(worker.pid) - cpu, cpu_seconds(server.pid) - server_cpu
            peak = peak_bytes(worker.pid)
            assert handle.first_execution_run_id is not None
            chain = await fetch(client, handle.id, handle.first_execution_run_id, subject.model_call)
        finally:
            await worker.kill()
        return Sample(
            subject=subject.name,
            steps=steps,
            round=round_,
            wall=wall,
            cpu=cpu,
            server_cpu=server_cpu,
            peak=peak,
            stored=used_bytes(place.store) - stored,
            history=chain.weigh(steps),
            replay=await _replay(subject, chain),
            began=chain.began(),
            gauges=gauges,
            failure=failure,
        )


async def _alone(folder: Path, subject: Subject, steps: int, round_: int, cap: float) -> Sample:
    place = Place(folder)
    child = await subject.start(place, [steps])
    began = time.perf_counter()
    try:
        ended = asyncio.ensure_future(child.wait())
        gauges, failure = await _follow(ended, child, place, cap)
        wall = time.perf_counter() - began
        own = {"wall": wall, "cpu": 0, "stored": used_bytes(place.store)}
        own["peak"] = max((gauge.resident for gauge in gauges), default=0)
        if child.code is None:
            own["cpu"] = cpu_seconds(child.pid)
        elif child.code:
            failure = _short(child.last_lines(1)) or f"its process ended with code {child.code}"
        else:
            own = json.loads(child.last_lines(1))
    finally:
        await child.kill()
    clock = place.clock.read_text(encoding="utf-8").split() if place.clock.exists() else []
    return Sample(
        subject=subject.name,
        steps=steps,
        round=round_,
        **own,
        began=[float(line) for line in clock],
        gauges=gauges,
        failure=failure,
    )


async def _follow(
    result: Future[Any],
    worker: Child,
    place: Place,
    cap: float,
    stuck: Callable[[], Awaitable[str | None]] | None = None,
) -> tuple[list[Gauge], str | None]:
    """Look at a worker until the result is there, or there will be none; what was seen, and why there is none.

    Raises RuntimeError where a worker of a server ends.
    """
    gauges: list[Gauge] = []
    deadline = time.perf_counter() + cap
    failure: str | None = None
    while not failure:
        await asyncio.wait([result], timeout=GAUGE_SECONDS)
        if result.done():
            return gauges, _failure(result)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, sqlite3.OperationalError):  # it ends now
            stored = used_bytes(place.store)
            gauges.append(
                Gauge(at=time.time(), resident=resident_bytes(worker.pid), files=open_files(worker.pid), stored=stored)
            )
            if stored > LARGEST_STORE:
                failure = f"its database has {stored / 1e9:.1f} GB"
        if stuck and worker.code is not None:  # one without a server ends with its shift
            raise RuntimeError(f"its worker ended with code {worker.code}: {worker.last_lines(1)}")
        if time.perf_counter() > deadline:
            failure = f"not done after {cap:g} s"
        elif stuck and len(gauges) % LOOKS == 0:
            failure = await stuck()
    result.cancel()
    return gauges, failure


def _failure(result: Future[Any]) -> str | None:
    error = result.exception()
    if error is None:
        return None
    if not isinstance(error, WorkflowFailureError):
        return _short(f"{type(error).__name__}: {error}")
    cause: BaseException = error.cause
    while isinstance(cause.__cause__, BaseException):
        cause = cause.__cause__
    return _short(f"the workflow failed: {cause}")


async def _replay(subject: Subject, chain: Chain) -> float | None:
    workflow = REPLAYED.get(subject.workflow)
    if workflow is None:
        return None
    replayer = Replayer(workflows=[workflow], plugins=[longshift_plugin()])
    for _ in range(2):  # the first one imports what it needs
        began = time.perf_counter()
        await replayer.replay_workflow(chain.longest())
    return time.perf_counter() - began


async def _stuck(handle: WorkflowHandle[Any, Any]) -> str | None:
    """What a shift is stuck at, if it is."""
    try:
        raw = (await handle.describe()).raw_description
    except RPCError as error:
        return _short(f"the server answers: {error.message}")
    for activity in raw.pending_activities:
        if activity.attempt >= ATTEMPTS:
            text = f"{activity.activity_type.name} fails without end: {activity.last_failure.message}"
            return _short(text)
    if raw.pending_workflow_task.attempt >= ATTEMPTS:
        return _short(f"its workflow task fails without end: {await _task_failure(handle)}")
    return None


async def _task_failure(handle: WorkflowHandle[Any, Any]) -> str:
    text = "no reason is told"
    async for event in handle.fetch_history_events():
        if event.HasField("workflow_task_failed_event_attributes"):
            failed = event.workflow_task_failed_event_attributes
            text = failed.failure.message or str(failed.cause)
    return text


def _short(text: str) -> str:
    return re.sub(r"\s+", " ", text)[:TOLD]
