"""`longshift lab budgets`: limits for an agent, from what its runs took."""

import asyncio
import time
from pathlib import Path

import click

from client import show
from client.commands.given import UNITS, BadInput, since_seconds
from client.commands.session import json_option
from client.ending import open_journal
from lab.budgets import propose
from longshift.agent import AGENT_NAME
from store.runs import RunFigures
from worker.settings import load_settings

SINCE = "30d"
"""How far back runs are looked at, unless it is said."""
WITHIN = 0.99
"""The share of runs that shall finish, unless it is said."""


@click.command("budgets", short_help="Propose limits for an agent from the runs that it made.")
@click.option("--agent", required=True, metavar="NAME", help="The agent whose runs are measured.")
@click.option(
    "--since", callback=since_seconds, default=SINCE, metavar="TIME", help=f"How far back, such as 12h; else {SINCE}."
)
@click.option(
    "--within", type=float, default=WITHIN, metavar="SHARE", help=f"The share of runs that shall finish; else {WITHIN}."
)
@json_option
@click.pass_obj
def budgets_command(config: Path | None, agent: str, since: int, within: float, as_json: bool) -> None:
    """Propose limits for an agent from the runs that it made, as a section of the configuration.

    Reads the journal: model calls, tool calls, output tokens, cost and seconds of each run. A run that did not complete
    counts as cut off where it ended: it would have needed more. Each limit comes with its 95 % interval and the way it
    was found, Kaplan-Meier's curve or a geometric fit, whichever the data support. Where they are too few, that is
    said, with how many it takes; exit code 2 where nothing can be proposed. Needs Longshift's
    extra lab.

    \b
    Examples:
      longshift lab budgets --agent shop
      longshift lab budgets --agent shop --since 7d --within 0.95
    """
    problems = []
    if not AGENT_NAME.fullmatch(agent):
        problems.append("--agent: give an agent's name: lower-case letters, digits or -, beginning with a letter")
    if not 0 < within < 1:
        problems.append("--within: give a share above 0 and below 1, such as 0.99")
    if problems:
        raise BadInput(problems)
    runs = asyncio.run(_runs(config, time.time() - since))
    mine = sum(run.agent == agent for run in runs)
    if not mine:
        known = ", ".join(sorted({run.agent for run in runs})) or "none"
        days = f"{since / UNITS['d']:.3g} days"
        raise BadInput([f"--agent: the journal holds no run of {agent} in the last {days}; it has runs of: {known}"])
    proposal = propose(agent, runs, within)
    if proposal.refusal is not None:
        raise BadInput([proposal.refusal])
    if as_json:
        show.document(proposal.document())
        return
    for line in proposal.toml.splitlines():
        show.line(line)


async def _runs(config: Path | None, since: float) -> list[RunFigures]:
    async with open_journal(load_settings(config).journal.url) as journal:
        return await journal.figures(since)
