"""Judge shifts by evidence."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from client import show
from client.commands.given import BadInput, usable_runs
from client.commands.session import Session, json_option
from client.evaluating import Evaluated, evaluate_cases, evaluate_run
from longshift.evidence import EvidenceCheck
from worker.agents import load_agents
from worker.settings import load_settings

PASS, FAIL = 0, 1
"""Exit codes: every check of every shift passed, or one did not."""


@click.command("eval")
@click.argument("run_ids", nargs=-1, metavar="[RUN...]", callback=usable_runs)
@click.option(
    "--cases",
    multiple=True,
    metavar="FILE_OR_FOLDER",
    type=click.Path(path_type=Path),
    help="Play these cases and judge them, instead of runs; may be given often.",
)
@json_option
@click.pass_obj
def eval_command(config: Path | None, run_ids: tuple[str, ...], cases: tuple[Path, ...], as_json: bool) -> int:
    """Judge shifts that have ended by the checks that their agents declare.

    A status says how the exchange ended, not that the answer is right. A check reads what tools observed, says whether
    that is as it should be, what it looked at, and what it cannot know. Exit codes: 0 all passed, 1 one failed, 2 a
    shift cannot be judged.

    \b
    Examples:
      longshift eval shop-20300101-090000-1f2e
      longshift eval --cases tests/cases/opening-shift.json --json
    """
    if bool(run_ids) == bool(cases):
        raise BadInput(["RUN: give the ids of shifts that have ended, or cases with --cases FILE_OR_FOLDER; not both"])
    with contextlib.redirect_stdout(sys.stderr):  # a user's check or tool may print, and its module while imported
        if cases:
            logging.getLogger("temporalio.activity").setLevel(logging.ERROR)  # a case may be about a step that fails
            found = asyncio.run(evaluate_cases(cases, load_agents(load_settings(config))))
        else:
            found = _runs(config, run_ids)
    for one in found:
        if as_json:
            show.document(one.document())
        else:
            _tell(one)
    if not as_json:
        _explain(found)
    return PASS if all(one.passed for one in found) else FAIL


def _runs(config: Path | None, run_ids: Sequence[str]) -> list[Evaluated]:
    with Session(config) as session:
        agents = load_agents(session.settings)
        return [session.do(evaluate_run(session.shifts, agents, run_id)) for run_id in dict.fromkeys(run_ids)]


def _tell(one: Evaluated) -> None:
    ended = one.result.status if one.result else "came to no end"
    for graded in one.graded:
        verdict = "pass" if graded.verdict.passed else "fail"
        show.line(f"{verdict}  {one.name}  {graded.check.name}: {graded.verdict.sentence} ({ended})")


def _explain(found: Sequence[Evaluated]) -> None:
    """The checks that were used, once each, and the count."""
    checks: dict[tuple[str, str], EvidenceCheck] = {
        (one.agent, graded.check.name): graded.check for one in found for graded in one.graded
    }
    for (agent, name), check in checks.items():
        show.line(f"{agent}'s {name} looks at: {check.looks_at}")
        show.line(f"{agent}'s {name} cannot know: {check.cannot_know}")
    failed = sum(not one.passed for one in found)
    show.line(f"{len(found)} judged, {failed or 'none'} failed")
