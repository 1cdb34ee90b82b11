"""What runs needed of each limit, by runs that the core's own rules decided."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lab.budgets import propose
from lab.needs import QUANTITIES, Measured
from longshift.admission import End, Hold
from longshift.jsontext import canonical
from longshift.status import Status
from longshift.turns import Turn
from store.runs import RunFigures
from tests.unit.authored import agent, call, turn
from tests.unit.loop_driver import Driver, Verdict
from tests.unit.test_lab_budgets import geometric, run


def asking(calls: Sequence[int], tokens: Callable[[], int], costs: Callable[[], int]) -> list[Turn]:
    """Turns that ask for so many calls each, every other one of a tool that does not exist, and an answer."""
    asked = [
        [call(f"c{number}-{n}", ("look", "lock")[n % 2], n=n, turn=number) for n in range(count)]
        for number, count in enumerate(calls)
    ]
    texts = [turn("", *batch, tokens=tokens(), cost=costs()) for batch in asked]
    return [*texts, turn("Done.", tokens=tokens(), cost=costs())]


class Remembering(Driver):
    """A run that keeps what it waited for as the journal does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.held: list[str] = []

    def _admitted(
        self, ask: Callable[[], Verdict | Hold], barred: Callable[[], End | None] = lambda: None
    ) -> Verdict | End:
        def asked() -> Verdict | Hold:
            answer = ask()
            if isinstance(answer, Hold):
                self.held.append(canonical({"reason": answer.reason}))
            return answer

        return super()._admitted(asked, barred)


def played(turns: Sequence[Turn], **limits: Any) -> RunFigures:
    """A run by the rules of the core, in the figures of the journal. Where a limit holds it, it waits until its time is
    up."""
    driver = Remembering(agent(limits=limits), turns)
    estimate, result = driver.agent.limits.estimate, driver.run()
    sent = turns[: result.model_calls]
    tokens, costs = [one.usage.output_tokens or 0 for one in sent], [one.cost or 0 for one in sent]
    return replace(
        run(0, status=result.status),
        limits=driver.agent.limits,
        model_calls=result.model_calls,
        tool_calls=result.tool_calls,
        charged_tokens=result.output_tokens,
        tokens_before=sum(tokens[:-1]),
        exposure=result.exposure,
        budget_needed=max((sum(costs[:n]) + estimate for n in range(len(costs))), default=0),
        held=tuple(driver.held),
    )


@pytest.mark.parametrize("wrap_up", [False, True])
def test_a_run_like_those_measured_completes_under_the_limits_proposed_and_under_none_that_is_lower(
    wrap_up: bool,
) -> None:
    own = {"wrap_up": wrap_up, "estimated_call_cents": 2, "output_tokens": 100}
    turns = asking([2, 1], lambda: 100, lambda: 100)
    measured = played(turns, **own)
    assert (measured.status, measured.model_calls, measured.tool_calls) == (Status.COMPLETED, 3, 3)

    limits = propose("shop", [measured] * 400, 0.99).limits
    del limits["seconds"]
    assert limits == {
        "model_calls": 3 + wrap_up,
        "tool_calls": 3,
        "total_output_tokens": 301 if wrap_up else 300,  # of the last call, a whole turn must be left and more
        "model_budget_cents": 2.02 + 2 * wrap_up,  # 0.02 were spent before it, and 2 are estimated
    }
    assert played(turns, **own, **limits).status == Status.COMPLETED
    for name, value in limits.items():
        lower = value - (1 if isinstance(value, int) else 0.0001)
        assert played(turns, **own, **{**limits, name: lower}).status not in (Status.COMPLETED, None)


CUT = {"model_calls": 5, "tool_calls": 13, "total_output_tokens": 300, "model_budget_cents": 3}
"""Limits that cut off some tenth of the runs below each."""


@pytest.mark.parametrize("wrap_up", [False, True])
@pytest.mark.parametrize("limit", CUT)
def test_runs_that_a_limit_cut_off_tell_of_it_so_that_the_share_of_further_runs_finishes(
    limit: str, wrap_up: bool
) -> None:
    chance = random.Random(f"{limit} {wrap_up}")
    own = {
        "wrap_up": wrap_up,
        "estimated_call_cents": 2,
        "output_tokens": 100,
        "repeats": 0,
        **dict.fromkeys(("model_calls", "tool_calls", "total_output_tokens", "model_budget_cents"), 100_000),
        "context_bytes": 10**7,
    }

    def further(value: float) -> RunFigures:
        calls = [chance.randint(1, 6) for _ in range(int(geometric(0.4)(chance)) - 1)]
        turns = asking(calls, lambda: chance.randint(1, 100), lambda: chance.randint(1, 4000))
        return played(turns, **{**own, limit: value})

    wrapping = 2 * wrap_up * (limit == "model_budget_cents")  # an estimate more, else no call is made but the wrap-up
    runs = [further(CUT[limit] + wrapping) for _ in range(250)]
    cut = sum(one.status != Status.COMPLETED for one in runs)
    assert 10 <= cut <= 50
    proposed = propose("shop", runs, 0.75).limits[limit]
    finishing = sum(further(proposed).status == Status.COMPLETED for _ in range(250))
    assert finishing / 250 >= 0.75 - 0.05


def needed(run: RunFigures) -> dict[str, Measured]:
    """What a run needed, by limit."""
    return {quantity.limit: quantity.measured([run])[0][0] for quantity in QUANTITIES}


def test_a_run_that_a_limit_held_until_it_was_stopped_tells_of_the_limit_as_one_that_was_ended_by_it() -> None:
    turns = asking([2, 2, 3], lambda: 100, lambda: 100)
    for name, limits, more_than in (
        ("tool_calls", {"tool_calls": 6}, 6),  # 4 were made
        ("model_budget_cents", {"model_budget_cents": 3, "estimated_call_cents": 2.98}, 30_099),  # 2.98 and 0.03 spent
    ):
        ended, held = (played(turns, on_limit=at_limit, **limits) for at_limit in ("end", "wait"))
        assert (held.status, len(held.held)) == (Status.TIME_LIMIT, 1)
        assert needed(ended)[name] == needed(held)[name] == Measured(more_than, False)


def test_a_run_that_a_limit_held_and_that_completed_needed_what_it_used() -> None:
    held = played(asking([2, 2, 3], lambda: 100, lambda: 100), on_limit="wait", tool_calls=6)
    completed = replace(held, status=Status.COMPLETED)  # the limit had been lowered, and was raised again
    assert needed(completed)["tool_calls"] == Measured(4, True)
