"""`python -m bench.kills`: interrupt orders at every point, again and again, and print what became of them.

The rounds are those of tests/acceptance/kill_rounds.py; here they are many. Ends with 1 where an order was placed twice
or a run told anything but the truth about its order.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.acceptance.kill_points import BY_NAME, point_of
from tests.acceptance.kill_rounds import ROUNDS, Outcome, Round
from tests.acceptance.order_house import agent_of, order_house

BY_POINT = ROUNDS[:2]
"""Rounds that have a line for each point; the others have one."""
HEAD = (
    "interrupted by",
    "where the effect stood",
    "runs",
    "ordered twice",
    "told wrongly",
    "asked a person",
    "runs, with keys",
    "ordered twice",
    "told wrongly",
    "asked a person",
    "requested twice",
)


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _counts(outcomes: Sequence[Outcome], keyed: bool) -> list[object]:
    """The figures of one line for the suppliers that honour keys, or for the others."""
    chosen = [outcome for outcome in outcomes if (agent_of(outcome.verdict.run_id) == "keyed") == keyed]
    if not chosen:
        return [""] * (5 if keyed else 4)
    figures: list[object] = [
        len(chosen),
        sum(outcome.verdict.orders > 1 for outcome in chosen),
        sum(outcome.verdict.problem is not None for outcome in chosen),
        sum(outcome.asked for outcome in chosen),
    ]
    return [*figures, sum(outcome.verdict.requests > 1 for outcome in chosen)] if keyed else figures


def _words(points: Sequence[str]) -> str:
    told = [BY_NAME[point].words if point in BY_NAME else "waiting for approval" for point in points]
    return "; ".join(told) if len(points) < len(BY_NAME) else "at each of these points"


def _lines(interrupted: Round, outcomes: Sequence[Outcome]) -> list[str]:
    """The lines of one kind of round."""
    there = {point_of(outcome.verdict.run_id) for outcome in outcomes}
    points = [point for point in (*BY_NAME, "approval") if point in there]
    groups = [[point] for point in points] if interrupted in BY_POINT else [points]
    lines: list[str] = []
    for group in groups:
        of_group = [outcome for outcome in outcomes if point_of(outcome.verdict.run_id) in group]
        how = (interrupted.__doc__ or "").strip()
        lines.append(_line([how, _words(group), *_counts(of_group, False), *_counts(of_group, True)]))
    return lines


async def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.kills", description="Interrupt orders at every point.")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="times each round is played (default: 20)")
    parser.add_argument("--runs", type=int, default=4, metavar="N", help="runs at each point of a round (default: 4)")
    given = parser.parse_args()
    found: dict[Round, list[Outcome]] = {interrupted: [] for interrupted in ROUNDS}
    try:
        for number in range(1, given.rounds + 1):
            for interrupted in ROUNDS:
                outcomes = await _played(interrupted, given.runs)
                found[interrupted] += outcomes
                hit = sum(outcome.hit for outcome in outcomes)
                sys.stderr.write(f"round {number}, {interrupted.__name__}: {hit} of {len(outcomes)} runs hit\n")
                for outcome in outcomes:
                    if outcome.verdict.problem:
                        sys.stderr.write(f"{outcome.verdict}\n")
    finally:  # also what Ctrl-C leaves
        sys.stdout.write("\n".join(_table(found)) + "\n")
    return int(any(outcome.verdict.problem for outcomes in found.values() for outcome in outcomes))


async def _played(interrupted: Round, runs: int) -> list[Outcome]:
    with tempfile.TemporaryDirectory(prefix="longshift-kills-") as folder:
        async with order_house(Path(folder)) as house:
            return await interrupted(house, range(runs))


def _table(found: Mapping[Round, Sequence[Outcome]]) -> list[str]:
    lines = [_line(HEAD), _line(["---"] * 2 + ["---:"] * (len(HEAD) - 2))]
    for interrupted, outcomes in found.items():
        lines += _lines(interrupted, [outcome for outcome in outcomes if outcome.hit])
    everything = [outcome for outcomes in found.values() for outcome in outcomes]
    bad = sum(outcome.verdict.problem is not None for outcome in everything)
    missed = sum(not outcome.hit for outcome in everything)
    last = f"{len(everything)} runs in all, {bad} with a fault; {missed} had left their point when it was hit"
    return [*lines, "", f"{last}, and are in no line."]


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
