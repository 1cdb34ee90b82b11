"""Limits that `longshift lab budgets` proposes, put into the configuration, under the real workflow."""

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.run_activities import Activities
from client.shifts import Shifts
from endpoints.config import ReplayConfig
from endpoints.replay import ReplayEndpoint
from lab.budgets import propose
from longshift.agent import Agent
from longshift.contracts import RunResult
from longshift.run_input import RunInput
from longshift.status import Status
from store.journal import Journal
from store.runs import RunFigures
from tests.workflows.running import HEARTBEAT_SECONDS, PARROT, working
from worker.agents import load_agents
from worker.settings import load_settings

pytestmark = pytest.mark.asyncio(loop_scope="session")

RUNS, WITHIN = 36, 0.9
"""Runs, all alike, of which so large a share can be told without a shape."""
AGENT: Agent = PARROT.model_copy(
    update={"limits": PARROT.limits.changed({"wrap_up": True, "estimated_call_cents": 2, "output_tokens": 100})}
)
"""Its budget reserves far more for a call than one costs, and of its limits the last call is a wrap-up."""
CONFIGURATION = """
[endpoints.scripted]
kind = "replay"
price = { input_cents_per_million = 0, output_cents_per_million = 100 }
turns = [
  { output_tokens = 30, calls = [
    { id = "1", name = "echo", arguments = { text = "a" } },
    { id = "2", name = "shout", arguments = { text = "a" } },
  ] },
  { output_tokens = 30, calls = [{ id = "3", name = "shout", arguments = { text = "b" } }] },
  { output_tokens = 30, content = "Done." },
]

[agents.parrot]
use = "tests.workflows.test_proposed_limits:AGENT"
"""


async def worked(client: Client, queue: str, journal_url: str, file: Path, runs: int) -> list[RunResult]:
    """So many runs of the agent in the file's configuration."""
    settings = load_settings(file, {})
    config = settings.endpoints["scripted"]
    assert isinstance(config, ReplayConfig)
    journal, shifts = await Journal.open(journal_url), Shifts(client, queue, journal_url)
    endpoints = {"scripted": ReplayEndpoint("scripted", config)}
    activities = Activities(journal, load_agents(settings), endpoints, {"scripted": config}, HEARTBEAT_SECONDS)
    given = RunInput(agent="parrot", task="Say something.", limits={"seconds": 600.0})  # a slow machine is no finding
    try:
        async with working(client, queue, activities.all()):
            started = [await shifts.start(given) for _ in range(runs)]
            return await asyncio.gather(*(shifts.result(run_id) for run_id in started))
    finally:
        await journal.close()


async def figures(journal_url: str) -> list[RunFigures]:
    """What the journal holds of all runs."""
    journal = await Journal.open(journal_url)
    try:
        return await journal.figures(0.0)
    finally:
        await journal.close()


async def test_a_run_under_the_proposed_limits_completes_as_those_did_that_were_measured(
    client: Client, queue: str, journal_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "longshift.toml"
    file.write_text(CONFIGURATION, encoding="utf-8")
    before = await worked(client, queue, journal_url, file, RUNS)
    assert {one.status for one in before} == {Status.COMPLETED}

    proposal = propose("parrot", await figures(journal_url), WITHIN)
    file.write_text(f"{CONFIGURATION}\n{proposal.toml}\n", encoding="utf-8")
    limits = load_agents(load_settings(file, {}))["parrot"].limits
    assert (limits.model_calls, limits.tool_calls, limits.total_output_tokens) == (4, 3, 161)
    assert (limits.model_budget_cents, limits.wrap_up, limits.output_tokens) == (4.006, True, 100)

    (after,) = await worked(client, queue, journal_url, file, 1)
    assert (after.status, after.model_calls, after.tool_calls, after.answer) == (Status.COMPLETED, 3, 3, "Done.")
