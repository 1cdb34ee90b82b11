"""Whether success falls with length as independent steps have it: by counts that are set, and by seeded simulation."""

import random
from collections.abc import Callable, Mapping

import pytest

from lab.decay import Fit, fit
from lab.formulas import wilson_interval
from lab.rate import Rate

EXPERIMENTS = 200
"""Of a simulation."""
LENGTHS, LONG = (1, 2, 4, 8), (1, 2, 4, 8, 16, 32)


def fitted(right: Mapping[int, int], tasks: int = 40) -> Fit:
    """The fit of so many right, by length."""
    found = fit({length: Rate(k, tasks) for length, k in right.items()})
    assert found is not None
    return found


def simulated(success: Callable[[int], float], lengths: tuple[int, ...], tasks: int) -> list[Fit]:
    """The fits of experiments by chance; those where nothing succeeded have none."""
    chance = random.Random(f"{lengths} {tasks} {success(1)}")
    counts = (
        {length: Rate(sum(chance.random() < success(length) for _ in range(tasks)), tasks) for length in lengths}
        for _ in range(EXPERIMENTS)
    )
    return [found for found in map(fit, counts) if found is not None]


def share(fits: list[Fit], of: Callable[[Fit], bool]) -> float:
    """Of which it holds."""
    return sum(map(of, fits)) / len(fits)


@pytest.mark.parametrize(("lengths", "tasks"), [(LENGTHS, 12), (LENGTHS, 40), (LONG, 12)])
@pytest.mark.parametrize("p", [0.6, 0.9, 0.99])
def test_geometric_data_are_called_geometric_and_their_rate_is_found(
    p: float, lengths: tuple[int, ...], tasks: int
) -> None:
    fits = simulated(lambda length: p**length, lengths, tasks)

    assert len(fits) == EXPERIMENTS
    assert share(fits, lambda one: one.geometric) >= 0.95
    assert share(fits, lambda one: one.interval.low <= p <= one.interval.high) >= 0.91  # of 95 %, in 99 of 100 such
    assert all("not geometric" not in one.sentences[0] for one in fits if one.geometric)


@pytest.mark.parametrize("last", [4, 8])
@pytest.mark.parametrize("tasks", [12, 40])
def test_a_cliff_is_no_geometric_decay(last: int, tasks: int) -> None:
    fits = simulated(lambda length: 0.99 if length <= last else 0.0, (1, 2, 4, 8, 16), tasks)

    assert share(fits, lambda one: one.sentences[0].startswith("The decay is not geometric: ")) >= 0.98


def test_a_cliff_behind_an_early_error_is_told_by_the_length_that_stands_apart() -> None:
    found = fitted({1: 11, 2: 12, 4: 12, 8: 12, 16: 0}, tasks=12)

    assert found.sentences[0].startswith("The decay is not geometric: one length stands apart; with p^n at its most ")
    assert found.sentences[0].endswith(" would succeed at 16 look-ups, where 0 (0 to 0.242) did.")


@pytest.mark.parametrize("right", [(40, 40, 40, 0, 0), (40, 39, 38, 0, 0), (40, 0, 0, 0, 0), (40, 40, 40, 40, 0)])
def test_lengths_at_which_nothing_succeeded_are_evidence(right: tuple[int, ...]) -> None:
    found = fitted(dict(zip((1, 2, 4, 8, 16), right, strict=True)))

    assert found.sentences[0].startswith("The decay is not geometric: a of a p^n is above 1, so longer tasks do worse ")
    assert (found.line is None) is (right.count(0) == 4)


def test_where_everything_fails_as_independent_steps_have_it_zeros_refute_nothing() -> None:
    found = fitted({1: 12, 2: 4, 4: 0, 72: 0})

    assert found.geometric
    assert found.p == pytest.approx(0.3, abs=0.02)
    assert found.sentences[1].endswith(
        " from 1 to 2 look-ups is 0.9 x 0.333^n, without 4, 72, where nothing succeeded."
    )


@pytest.mark.parametrize("lengths", [LENGTHS, LONG, range(1, 25), range(1, 73)])
@pytest.mark.parametrize("tasks", [5, 40])
def test_where_nothing_failed_no_failures_are_told(lengths: tuple[int, ...], tasks: int) -> None:
    found = fitted(dict.fromkeys(lengths, tasks), tasks)

    assert found.geometric
    assert found.sentences[0].startswith("Nothing failed, which does not refute a geometric decay, independent steps: ")
    assert (found.p, found.interval.high) == (1, 1)
    assert 0.9 < found.interval.low < 1


def test_what_the_line_of_least_squares_calls_refuted_is_told_of_the_counts_behind_it() -> None:
    found = fitted({1: 40, 2: 40, 4: 16, 8: 7})

    assert found.line is not None
    assert found.line.p == pytest.approx(0.767, abs=5e-4)
    assert found.line.a == pytest.approx(1.39, abs=5e-3)
    assert found.sentences == [
        "The decay is not geometric: a of a p^n is above 1, so longer tasks do worse than one rate for every step "
        "allows, at whichever steps; with p^n at its most likely, p is 0.864 (0.826 to 0.896), 0.747 would succeed at "
        "2 look-ups, where 1 (0.912 to 1) did.",
        "The line of least squares through log success from 1 to 8 look-ups is 1.39 x 0.767^n.",
    ]


@pytest.mark.parametrize(
    ("a", "p", "verdict"),
    [
        (1.3, 0.76, "The decay is not geometric: "),
        (1.0, 0.76, "The data do not refute a geometric decay"),
        (0.7, 0.95, "The decay is not geometric alone: "),
    ],
)
def test_the_verdict_is_that_of_the_a_which_is_planted(a: float, p: float, verdict: str) -> None:
    fits = simulated(lambda length: min(1.0, a * p**length), LENGTHS, 100)

    assert share(fits, lambda one: one.sentences[0].startswith(verdict)) >= 0.95


def test_success_that_rises_with_length_is_no_decay_of_steps() -> None:
    assert (
        fitted({1: 20, 2: 30, 4: 40}).sentences[0].startswith("The decay is not geometric alone: a of a p^n is below")
    )


@pytest.mark.parametrize("k", [1, 20, 37])
def test_where_one_length_alone_tells_anything_the_interval_of_p_is_wilsons(k: int) -> None:
    found = fitted({1: k, 10_000: 0})

    assert found.interval == pytest.approx(wilson_interval(k, 40))
    assert found.geometric


def test_of_one_length_or_of_no_success_there_is_no_fit() -> None:
    assert fit({4: Rate(20, 40)}) is None
    assert fit({1: Rate(0, 40), 2: Rate(0, 40)}) is None
