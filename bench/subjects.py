"""Who does the shift: how the worker of each is started, and what it is asked for."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench import material, script
from bench.processes import environment
from longshift import contracts
from longshift.run_input import RunInput
from worker.child import Child

CHECKOUT = Path(__file__).resolve().parents[1]
PEERS_PYTHON = CHECKOUT / ".bench-peers" / "bin" / "python"
"""The interpreter of the peers' environment."""
FLOOR, LONGSHIFT = "floor", "longshift"
WARM_UP = 3
"""Steps of a shift before the one that counts: a worker's first is slower."""


@dataclass(frozen=True)
class Place:
    """Where a subject works."""

    folder: Path
    """Its own, for logs and files; `store` in it holds what it stores itself."""
    address: str = ""
    """Of the Temporal server, where it needs one."""
    model_url: str = ""
    """Base URL of the model server, for who asks over HTTP."""

    @property
    def store(self) -> Path:
        """The folder of its database."""
        return self.folder / "store"

    @property
    def clock(self) -> Path:
        """The file in which a peer without a server notes when each model call begins."""
        return self.folder / "clock"


@dataclass(frozen=True)
class Subject:
    """One that does the shift."""

    name: str
    """Also its task queue, and the type of its workflow but for Longshift's."""
    told: str
    """Its name in the table; docs/performance.md says what it is."""
    python: Path
    module: str
    model_call: str | None = None
    """The activity that is its model call; None: it is not on Temporal, and its process does one shift and ends."""
    endpoint: Literal["replay", "http"] | None = None
    """Longshift only: where its turns come from."""

    @property
    def workflow(self) -> str:
        """The type of its workflow."""
        return contracts.WORKFLOW if self.endpoint else self.name

    def asked(self, steps: int, limits: Mapping[str, int | str] | None = None) -> RunInput | int:
        """What a shift of so many steps is started with. Limits are Longshift's, and others have none."""
        if self.endpoint is None:
            return steps
        endpoint = _endpoint(steps) if self.endpoint == "replay" else self.endpoint
        return RunInput(
            agent=material.agent.name, task=script.task(steps), endpoint=endpoint, limits=dict(limits or {})
        )

    async def start(self, place: Place, lengths: Sequence[int], log: str = "worker.log") -> Child:
        """Start its worker for shifts of these lengths; of one that is not on Temporal, its one shift."""
        place.store.mkdir(parents=True, exist_ok=True)
        if self.endpoint:
            arguments, variables = [], _longshift_variables(place, lengths, self.name)
        elif self.model_call:
            arguments, variables = [place.address, self.name], {}
        else:
            arguments, variables = [str(place.store), str(place.clock), str(lengths[0])], {}
        command = [str(self.python), "-m", self.module, *arguments]
        return await Child.start(command, place.folder / log, environment({"PYTHONPATH": str(CHECKOUT)} | variables))


def _endpoint(steps: int) -> str:
    return f"steps-{steps}"


def _longshift_variables(place: Place, lengths: Sequence[int], queue: str) -> dict[str, str]:
    """The worker as people run it, its journal in SQLite."""
    endpoints: dict[str, dict[str, str]] = {}
    for steps in lengths:
        file = place.folder / f"turns-{steps}.json"
        material.write_turns(file, steps)
        endpoints[_endpoint(steps)] = {"kind": "replay", "file": str(file)}
    if place.model_url:
        endpoints["http"] = {"kind": "openai", "url": place.model_url, "model": "scripted"}
    config = place.folder / "longshift.toml"
    config.touch()
    return {
        "LONGSHIFT_CONFIG": str(config),
        "LONGSHIFT_TASK_QUEUE": queue,
        "LONGSHIFT_JOURNAL__URL": f"sqlite:///{place.store / 'journal.db'}",
        "LONGSHIFT_ENDPOINTS": json.dumps(endpoints),
        "LONGSHIFT_AGENTS__BENCH": json.dumps({"use": "bench.material:agent"}),
        "TEMPORAL_ADDRESS": place.address,
    }


def _own(
    name: str, told: str, module: str, model_call: str, endpoint: Literal["replay", "http"] | None = None
) -> Subject:
    return Subject(name, told, Path(sys.executable), module, model_call, endpoint)


def _peer(name: str, told: str, model_call: str | None = None) -> Subject:
    return Subject(name, told, PEERS_PYTHON, f"bench.peers.{name}", model_call)


OURS = (
    _own(FLOOR, "floor", "bench.floor", "call_model"),
    _own(LONGSHIFT, "Longshift", "worker", contracts.CALL_MODEL, "replay"),
    _own("longshift_http", "Longshift over HTTP", "worker", contracts.CALL_MODEL, "http"),
    _own("naive", "naive", "bench.floor", "ask_model"),
)
"""What runs in Longshift's own environment. The floor comes first: the ratios are to it."""
PEERS = (
    _peer("pydantic_ai", "pydantic-ai on Temporal", "agent__bench__model_request"),
    _peer("openai_agents", "OpenAI Agents SDK on Temporal", "invoke_model_activity"),
    _peer("langgraph", "LangGraph, SQLite"),
    _peer("dbos", "DBOS, SQLite"),
)
"""What runs in the peers' environment."""
BY_NAME = {subject.name: subject for subject in (*OURS, *PEERS)}
