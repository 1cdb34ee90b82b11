"""Which changes of a run are worth an event in its search attributes."""

import pytest

from longshift.attributes import Standing, standing
from longshift.limits import Limits
from longshift.state import RunState
from longshift.status import Status

CENT = 10_000
"""Micro-USD."""


def at(exposure: int, budget: int = 100 * CENT) -> Standing:
    """A run at work with this much spent."""
    return Standing("RUNNING", None, exposure, budget)


@pytest.mark.parametrize(
    ("now", "before", "worth"),
    [
        (at(0), None, True),
        (at(9 * CENT), at(0), False),
        (at(10 * CENT), at(9 * CENT), True),
        (at(10 * CENT), at(19 * CENT), False),
        (at(300 * CENT), at(100 * CENT), False),
        (at(90 * CENT, 1000 * CENT), at(90 * CENT), False),
        (at(100 * CENT, 1000 * CENT), at(90 * CENT), True),
        (at(1, 0), at(0, 0), False),
        (Standing("WAITING", "limit", 0, CENT), at(0), True),
        (Standing("WAITING", "fund", 0, CENT), Standing("WAITING", "limit", 0, CENT), True),
    ],
    ids=[
        "the first",
        "within a tenth",
        "a tenth more",
        "a call that cost less than it might",
        "past the budget",
        "a budget that was raised",
        "a tenth of a budget that was raised",
        "a budget of nothing",
        "it waits",
        "it waits for something else",
    ],
)
def test_money_counts_by_tenths_of_the_budget_and_whatever_it_waits_for_at_once(
    now: Standing, before: Standing | None, worth: bool
) -> None:
    assert now.differs(before) is worth


def test_a_run_that_has_ended_waits_for_nothing_and_tells_what_it_spent_to_the_cent() -> None:
    state = RunState(run_id="r", started_at=0.0, limits=Limits(model_budget_cents=50), exposure=12 * CENT + 1)
    ended = standing(state, "journal", Status.TIME_LIMIT)
    assert ended == Standing("TIME_LIMIT", None, 12 * CENT + 1, 50 * CENT)
    assert ended.spent_cents == 13
    assert standing(state, "journal", None).status == "WAITING"
