"""The demonstration: the opening shift of the shop, on a server and a worker that begin and end with it."""

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import JsonValue
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client

from client.local import KeptWorker, WorkerFailed, connect_to, isolated, journal_in
from client.shifts import Shifts
from client.story import StoryLine
from examples.shop.evidence import Evidence, check_drafts
from longshift.contracts import RunResult
from longshift.run_input import RunInput
from longshift.status import Status
from worker.child import KILL_SECONDS
from worker.dev_server import DevServer
from worker.settings import SHOP_TURNS, Settings

LIVE = "LONGSHIFT_ENDPOINTS__LIVE__"
"""Begins the variables of the endpoint of a live demonstration; those that the user has set count."""
LIVE_LIMITS: dict[str, JsonValue] = {"model_calls": 12, "seconds": 900, "total_output_tokens": 12_000}
"""What differs for a model that may be slow and need more than one try."""
CALL_TO_KILL = "model-2"
"""Id of the activity in which the worker is killed: the second model call."""
HELD_BACK_MS = 1500
"""Milliseconds that the second turn is held back when the worker is to be killed, so that it is killed in mid-call."""
CRASH_HEARTBEAT_SECONDS = 2
"""Seconds without a sign of life after which the killed worker's call is handed out again."""


PATIENCE_SECONDS = 60
"""Seconds for authored turns to be played; they take 1 to 6, and up to 15 where orders are placed."""


@dataclass(frozen=True)
class Live:
    """A real model in place of the authored turns."""

    url: str
    """Base URL of an OpenAI-compatible server."""
    model: str


@dataclass(frozen=True)
class Telling:
    """Whom to tell what happens, as it happens."""

    note: Callable[[str], None]
    """Gets what happens to processes."""
    step: Callable[[StoryLine], None]
    """Gets each step of the shift."""


@dataclass(frozen=True)
class Played:
    """What came of a shift that was played, and where to look at it."""

    result: RunResult
    address: str
    """Of the Temporal server."""
    journal: str
    """URL of the journal."""
    page: str
    """Address of the run's page in the Temporal UI."""

    def document(self) -> dict[str, Any]:
        """The outcome as `--json` prints it: the result's keys, and the page."""
        return self.result.document() | {"page": self.page}


@dataclass(frozen=True)
class Outcome(Played):
    """What came of the opening shift."""

    evidence: Evidence
    live: bool

    @property
    def good(self) -> bool:
        """Completed, and proved where the turns were authored; what a live model drafts is its own affair."""
        return self.result.status is Status.COMPLETED and (self.live or self.evidence.verdict)

    def document(self) -> dict[str, Any]:
        """The outcome as `--json` prints it, with the drafts and the verdict."""
        return super().document() | {
            "drafts": list(self.evidence.drafts),
            "drafts_cents": self.evidence.total_cents,
            "evidence": self.evidence.verdict,
            "evidence_detail": self.evidence.sentence,
        }


@dataclass(frozen=True)
class Stage:
    """A server and a worker that are up, and a client of them."""

    server: DevServer
    worker: KeptWorker
    client: Client
    shifts: Shifts
    journal: str
    """URL of the journal."""

    async def to_its_end(self, following: Coroutine[Any, Any, RunResult], seconds: float | None) -> RunResult:
        """Wait for a shift's end.

        Args:
            following: follows it, and returns how it ended.
            seconds: to wait at most; None: as long as it takes.

        Raises WorkerFailed, with the end of the worker's log, where it does not end.
        """
        try:
            return await asyncio.wait_for(self.worker.while_up(following), seconds)
        except TimeoutError:
            said = self.worker.said()
            raise WorkerFailed(f"the shift has not ended; the end of the worker's log:\n{said}") from None

    async def page(self, run_id: str) -> str:
        """The run's page in the UI, which has one for each run of a chain: the latest."""
        described = await self.client.get_workflow_handle(run_id).describe()
        return f"{self.server.ui_url}/namespaces/default/workflows/{quote(run_id)}/{described.run_id}/history"


@asynccontextmanager
async def stage(note: Callable[[str], None], variables: Mapping[str, str]) -> AsyncIterator[Stage]:
    """Have server, UI and worker up until the context is left; their folder is gone afterwards.

    Args:
        note: is told what happens to processes.
        variables: the worker's configuration, beyond what is built in.

    Raises ServerFailed, with the reason.
    """
    with tempfile.TemporaryDirectory(prefix="longshift-demo-") as name:
        folder = Path(name)
        async with DevServer(folder) as server:
            note(f"server up at {server.address}, its UI at {server.ui_url}")
            env = isolated(server, folder, variables)
            async with KeptWorker(env, folder / "worker.log", grace_seconds=KILL_SECONDS, tell=note) as worker:
                note(f"worker started, process {worker.pid}")
                client, journal = await connect_to(server), journal_in(folder)
                shifts = Shifts(client, Settings.model_fields["task_queue"].default, journal)
                yield Stage(server, worker, client, shifts, journal)


@asynccontextmanager
async def played(telling: Telling, *, crash: bool = False, live: Live | None = None) -> AsyncIterator[Outcome]:
    """Play the opening shift; server, UI and worker are up until the context is left.

    Args:
        telling: is told what happens.
        crash: kill the worker with SIGKILL in the middle of the shift.
        live: a model in place of the authored turns.

    Raises:
        ServerFailed, WorkerFailed: with the reason.
    """
    async with stage(telling.note, _variables(crash, live)) as up:
        run_id = await up.shifts.start(_given(live))
        if crash:
            killing = asyncio.create_task(_kill(up.client, run_id, up.worker, telling.note))
        following = _followed(up.shifts, run_id, telling.step)
        result = await up.to_its_end(following, None if live else PATIENCE_SECONDS)
        if crash:
            await killing
        evidence = check_drafts(await up.shifts.transcript(run_id))
        page = await up.page(run_id)
        yield Outcome(result, up.server.address, up.journal, page, evidence, live is not None)


def _given(live: Live | None) -> RunInput:
    task = json.loads(SHOP_TURNS.read_text(encoding="utf-8"))["task"]
    if live is None:
        return RunInput(agent="shop", task=task)
    return RunInput(agent="shop", task=task, endpoint="live", limits=LIVE_LIMITS)


def _variables(crash: bool, live: Live | None) -> dict[str, str]:
    """The configuration of the worker, beyond what is built in. JSON, so that a model called `1` stays text."""
    variables: dict[str, str] = {}
    if crash:
        variables["LONGSHIFT_WORKER__HEARTBEAT_SECONDS"] = str(CRASH_HEARTBEAT_SECONDS)
    if live:
        variables |= {name: value for name, value in os.environ.items() if name.startswith(LIVE)}
        variables |= {f"{LIVE}KIND": "openai", f"{LIVE}URL": json.dumps(live.url)}
        variables[f"{LIVE}MODEL"] = json.dumps(live.model)
    elif crash:
        turns = json.loads(SHOP_TURNS.read_text(encoding="utf-8"))["turns"]
        turns[1]["delay_ms"] = HELD_BACK_MS
        variables["LONGSHIFT_ENDPOINTS__AUTHORED"] = json.dumps({"kind": "replay", "turns": turns})
    return variables


async def _followed(shifts: Shifts, run_id: str, step: Callable[[StoryLine], None]) -> RunResult:
    async for line in shifts.follow(run_id):
        step(line)
    return await shifts.result(run_id)


async def _kill(client: Client, run_id: str, worker: KeptWorker, note: Callable[[str], None]) -> None:
    """Kill the worker once it is at work on the second model call; nothing where the shift ends before."""
    handle = client.get_workflow_handle(run_id)
    while True:
        described = (await handle.describe()).raw_description
        if described.workflow_execution_info.HasField("close_time"):
            return
        for activity in described.pending_activities:
            if (
                activity.activity_id == CALL_TO_KILL
                and activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
            ):
                note(f"kill -9 {worker.pid}: the worker dies in the middle of model call 2")
                await worker.kill()
                return
        await asyncio.sleep(0.02)
