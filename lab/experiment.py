"""An experiment conducted: a server, a journal and a worker in a folder that stays, the shifts, and their grades.

Interrupted, by Ctrl-C or by a crash, it goes on where it was when it is conducted again in the same folder.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pydantic import ValidationError
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError
from temporalio.worker import Worker

from activities.run_activities import Activities
from client.local import connect_to
from client.shifts import Shifts
from endpoints.base import Endpoint
from endpoints.config import EndpointConfig
from lab.fan_out import PROGRESS, SHARE, WORKFLOW, FanOut, Reliability
from lab.plan import Plan, Planned, runs_of
from lab.stock import AGENTS, Grade, grade
from longshift.contracts import RunResult
from longshift.evidence import Trajectory
from store.journal import Journal
from worker.dev_server import DevServer
from workflows.agent_run import AgentRun

QUEUE = "reliability"
PLAN = "plan.json"
"""In the experiment's folder: what it is of."""
HEARTBEAT_SECONDS = 5.0
"""Seconds without a sign of life after which a step of a worker that was killed is done again."""
LOOK_SECONDS = 1.0
"""Seconds between looks at how far it is."""
QUERY_SECONDS = timedelta(seconds=10)


class ExperimentRefused(Exception):
    """The experiment cannot be conducted so. The text names what is wrong and the remedy."""


@dataclass(frozen=True)
class Graded:
    """One run of the experiment, with what came of it."""

    planned: Planned
    result: RunResult
    grade: Grade
    seconds: float | None
    """Wall time; None where the journal does not have it."""


@dataclass(frozen=True)
class Progress:
    """How far an experiment is."""

    ended: int
    runs: int
    left: float | None
    """Seconds that the rest takes at the pace since it was begun or went on; None where there is no pace yet."""


async def conduct(
    plan: Plan,
    folder: Path,
    endpoint: Endpoint,
    config: EndpointConfig,
    told: Callable[[Progress], None] = lambda progress: None,
    share: int = SHARE,
) -> list[Graded]:
    """Run a plan's shifts, as far as they have not been run yet, and grade all.

    Args:
        plan: what to run.
        folder: keeps the server's data, the journal and the plan; made if need be.
        endpoint: what is measured.
        config: as the operator described it.
        told: called every second or so.
        share: shifts of one run of the workflow.

    Raises:
        ExperimentRefused: the folder holds another experiment.
        ServerFailed: the server does not start, or another one works in the folder.
        Refused: the shifts are refused.
    """
    keep(plan, folder)
    async with _laboratory(folder, {plan.endpoint: endpoint}, {plan.endpoint: config}) as (client, journal, shifts):
        await _run(client, FanOut(plan=plan, share=share), told)
        return [await _graded(journal, shifts, planned) for planned in runs_of(plan)]


def refuse_other(plan: Plan, folder: Path) -> None:
    """Raises ExperimentRefused where the folder is of something else."""
    file = folder / PLAN
    if file.exists() and (text := file.read_text(encoding="utf-8")) != _text(plan):
        raise ExperimentRefused(f"--output: {folder} {_difference(text, plan, file)}")


def _difference(text: str, plan: Plan, file: Path) -> str:
    """What a folder's own plan has that this one has not, and the remedy."""
    with contextlib.suppress(ValidationError):
        kept = Plan.model_validate_json(text)
        if [name for name in Plan.model_fields if getattr(kept, name) != getattr(plan, name)] == ["endpoint_sha256"]:
            if kept.endpoint_sha256 is None:
                return "was made by a version that did not keep which endpoint it measured; give another folder"
            other = "holds an experiment whose endpoint has another address or other settings"
            return f"{other}; give those to go on with it, or another folder"
    return f"holds an experiment with other options, see {file}; give those to go on with it, or another folder"


def keep(plan: Plan, folder: Path) -> None:
    """Write down what the folder is of, or find it written. Raises ExperimentRefused where it is of something else."""
    refuse_other(plan, folder)
    write_whole(folder / PLAN, _text(plan))


def _text(plan: Plan) -> str:
    return plan.model_dump_json(indent=1) + "\n"


def write_whole(file: Path, text: str) -> None:
    """Write a file, and its folder, that is there with all of its text or not at all, whenever this is killed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)


@asynccontextmanager
async def _laboratory(
    folder: Path, endpoints: Mapping[str, Endpoint], configs: Mapping[str, EndpointConfig]
) -> AsyncIterator[tuple[Client, Journal, Shifts]]:
    url = f"sqlite:///{(folder / 'journal.db').absolute()}"
    async with DevServer(folder / "server", ui=False) as server:
        client = await connect_to(server)
        journal = await Journal.open(url)
        worker = Worker(
            client,
            task_queue=QUEUE,
            workflows=[AgentRun, Reliability],
            activities=Activities(journal, AGENTS, endpoints, configs, HEARTBEAT_SECONDS).all(),
            max_heartbeat_throttle_interval=timedelta(seconds=1),
        )
        try:
            async with worker:
                yield client, journal, Shifts(client, QUEUE, url)
        finally:
            await journal.close()


async def _run(client: Client, given: FanOut, told: Callable[[Progress], None]) -> None:
    """Have the workflow see all shifts to their ends."""
    with contextlib.suppress(WorkflowAlreadyStartedError):  # it has ended
        await client.start_workflow(
            Reliability.run,
            given,
            id=WORKFLOW,
            task_queue=QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,  # terminated by hand, it goes on
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
    waiting = asyncio.ensure_future(client.get_workflow_handle_for(Reliability.run, WORKFLOW).result())
    first: tuple[float, int] | None = None
    try:
        while not (await asyncio.wait({waiting}, timeout=LOOK_SECONDS))[0]:
            ended = await _ended(client)
            if ended is None:
                continue
            first = first or (time.monotonic(), ended)
            since, done = time.monotonic() - first[0], ended - first[1]
            told(Progress(ended, given.plan.runs, since / done * (given.plan.runs - ended) if done else None))
        await waiting
    finally:
        waiting.cancel()


async def _ended(client: Client) -> int | None:
    """How many shifts have ended; None where the workflow does not say just now."""
    try:
        found: int = await client.get_workflow_handle(WORKFLOW).query(
            PROGRESS, result_type=int, rpc_timeout=QUERY_SECONDS
        )
    except (RPCError, WorkflowQueryFailedError):
        return None
    return found


async def _graded(journal: Journal, shifts: Shifts, planned: Planned) -> Graded:
    result = await shifts.result(planned.run_id)
    row = await journal.run(planned.run_id)
    messages = await journal.transcript(planned.run_id, result.head) if result.messages else ()
    trajectory = Trajectory(result, tuple(messages))
    seconds = row.closed_at - row.opened_at if row is not None and row.closed_at is not None else None
    return Graded(planned, result, grade(planned.task, planned.condition, trajectory), seconds)
