"""Fifty runs at once on one fund: real activities, several workers, and nothing granted that is not there."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.run_activities import Activities
from endpoints.base import Reply, Request
from endpoints.config import Price, ReplayConfig, ReplayError, ReplayTurn, highest_cost
from endpoints.replay import ReplayEndpoint
from longshift.agent import Agent
from longshift.contracts import CallModel, Entry, OpenRun
from longshift.funds import Fund
from longshift.messages import UserMessage
from longshift.run_input import RunInput
from longshift.state import RunState
from longshift.turns import ModelFailure
from store.journal import Journal

pytestmark = pytest.mark.asyncio

RUNS, WORKERS, CALLS = 50, 5, 4
ALLOWED = 100
PRICE = Price(input_cents_per_million=300, output_cents_per_million=1500)
MODEL = ReplayConfig(
    price=PRICE,
    turns=(
        ReplayTurn(content="One.", output_tokens=9, input_tokens=40),
        ReplayTurn(error=ReplayError(status=503)),
        ReplayTurn(content="Two.", output_tokens=ALLOWED, input_tokens=900),
        ReplayTurn(content="Three.", input_tokens=60),
    ),
)
AGENT = Agent(name="parrot", system="Repeat.", endpoint="authored", fund="research")
BUDGET = 20 * (highest_cost(PRICE, context_bytes=0, allowed=ALLOWED) or 0)
"""Micro-USD; not enough for half of the runs to have a call out at once."""
REFUSALS = 5
"""Times that a run asks again for a call that the fund did not grant, before it ends."""


class Watched(ReplayEndpoint):
    """An authored model that looks at the fund while each call is out."""

    def __init__(self, journal: Journal, seen: list[Fund]) -> None:
        super().__init__("authored", MODEL)
        self._journal, self._seen = journal, seen

    async def send(self, request: Request) -> Reply:
        """Answer one model call."""
        self._seen += await self._journal.funds()
        return await super().send(request)


async def drive(worker: Activities, run_id: str) -> int:
    """One run, as its workflow drives it, until it has made its calls or the fund grants none. Returns how often it was
    refused."""
    environment = ActivityEnvironment()
    state = RunState(run_id=run_id, started_at=1.0)
    given = RunInput(agent="parrot", task="Say something.")
    opened = await environment.run(worker.open_run, OpenRun(run_id=run_id, started_at=1.0, given=given))
    for recorded in opened.opening:
        state.append_recorded(recorded, Entry())
    state.journaled(len(state.entries), 0)
    refused = 0
    while state.model_calls < CALLS and refused < REFUSALS:
        request = CallModel(
            run_id=run_id,
            number=state.model_calls + 1,
            reply=state.replies + 1,
            head=state.head,
            entries=tuple(state.entries),
            output_tokens=ALLOWED,
            context_bytes=state.context_bytes,
        )
        try:
            turn = (await environment.run(worker.call_model, request)).turn
        except ApplicationError as error:
            failure = error.details[0]
            assert isinstance(failure, ModelFailure)
            if failure.kind == "fund":
                refused += 1
                continue
            state.begin_model_call()
            state.settle_failure(failure, 0, ALLOWED)
            state.journaled(len(request.entries), 0)
        else:
            number = state.begin_model_call()
            state.settle_turn(turn, 0)
            state.journaled(len(request.entries), 0)
            state.append_recorded(turn.reply, Entry(turn=number))
            state.append_message(UserMessage(content="Go on."))
    return refused


async def test_fifty_runs_at_once_never_overshoot_their_fund(url: str) -> None:
    async with AsyncExitStack() as stack:
        journals = [await Journal.open(url) for _ in range(WORKERS)]
        for journal in journals:
            stack.push_async_callback(journal.close)
        await journals[0].set_fund("research", BUDGET)
        seen: list[Fund] = []
        workers = [
            Activities(
                journal,
                {"parrot": AGENT},
                {"authored": Watched(journal, seen)},
                {"authored": MODEL},
                heartbeat_seconds=5,
            )
            for journal in journals
        ]
        refused = await asyncio.gather(*(drive(workers[n % WORKERS], f"run-{n}") for n in range(RUNS)))

        rows = [row for n in range(RUNS) for row in await journals[0].model_calls(f"run-{n}")]
        (fund,) = await journals[0].funds()

    assert [at for at in [*seen, fund] if at.spent + at.reserved > BUDGET] == []
    assert len(seen) == len(rows), "the fund was seen while each call was out"
    assert fund.spent == sum(row.cost for row in rows if row.cost is not None)
    assert fund.reserved == sum(row.reserved or 0 for row in rows if row.cost is None)
    assert {row.state for row in rows} == {"answered", "failed"}
    assert sum(refused) > 0, "there was not enough for all"
