"""Trials: runs of the real workflow, each with a scripted model, on one server and one worker that begin and end with
them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from client.cases import Case
from client.local import WorkerFailed
from client.replay import AT_ONCE, Play, Stage, open_stage
from endpoints.base import Endpoint, Reply, Request
from endpoints.config import ReplayConfig
from endpoints.replay import ReplayEndpoint
from lab.models import Model
from longshift.agent import Agent
from longshift.contracts import RunResult
from longshift.messages import Message
from longshift.run_input import RunInput

PATIENT: Mapping[str, JsonValue] = {"seconds": 600}
"""Limits of every trial: none is about time, and the machine may be busy."""


@dataclass(frozen=True)
class Trial:
    """One run, as it is declared."""

    agent: Agent
    task: str
    model: Model
    limits: Mapping[str, JsonValue] = field(default_factory=dict)
    """Limits that differ from the agent's."""


@dataclass(frozen=True)
class Came:
    """What came of it."""

    result: RunResult
    transcript: tuple[Message, ...]
    """Its messages, whole and proved by the chain."""
    sent: tuple[tuple[Message, ...], ...]
    """The messages that each model call was sent, as the endpoint read them."""


class Scripted:
    """An endpoint that lets a model decide each turn by what it is sent, and plays that as a replay does."""

    def __init__(self, name: str, model: Model) -> None:
        self._name, self._model = name, model
        self.sent: list[tuple[Message, ...]] = []

    async def send(self, request: Request) -> Reply:
        """Answer with the model's turn; see endpoints.base.Endpoint."""
        messages = tuple(await request.messages())
        self.sent.append(messages)
        turn = self._model(messages, [tool.name for tool in request.tools])
        playing = ReplayEndpoint(self._name, ReplayConfig(turns=(turn,)))
        return await playing.send(replace(request, reply=1))

    async def close(self) -> None:
        """Nothing to close."""


class _TrialPlay(Play):
    """A trial at play."""

    def __init__(self, run_id: str, name: str, trial: Trial) -> None:
        given = RunInput(agent=trial.agent.name, task=trial.task, limits={**PATIENT, **trial.limits})
        super().__init__(run_id, Case(name, given, turns=(), send=(), expect={}))
        self._scripted = Scripted(name, trial.model)

    def endpoint(self) -> Endpoint:
        """The scripted model."""
        return self._scripted

    async def come(self, stage: Stage) -> Came:
        """Play it to its end.

        Raises WorkerFailed where it does not come to one.
        """
        outcome = await self.run(stage)
        if outcome.result is None or outcome.mismatches:
            raise WorkerFailed(f"{self.case.name}: {'; '.join(outcome.mismatches)}")
        return Came(outcome.result, outcome.transcript, tuple(self._scripted.sent))


async def conduct(trials: Mapping[str, Trial]) -> dict[str, Came]:
    """Run trials, several at a time; what came of each, by name.

    Raises:
        ServerFailed: the server does not start.
        WorkerFailed: a run did not come to its end.
    """
    plays = {
        f"trial-{number}": _TrialPlay(f"trial-{number}", name, trial)
        for number, (name, trial) in enumerate(trials.items(), start=1)
    }
    agents = {trial.agent.name: trial.agent for trial in trials.values()}
    places = asyncio.Semaphore(AT_ONCE)
    async with open_stage(plays, agents) as stage:

        async def one(play: _TrialPlay) -> Came:
            async with places:
                return await play.come(stage)

        came: Sequence[Came] = await asyncio.gather(*map(one, plays.values()))
    return dict(zip(trials, came, strict=True))
