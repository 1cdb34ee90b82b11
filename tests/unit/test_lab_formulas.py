"""The arithmetic of reliability: the table that it must give, and each formula against what it stands for."""

import math
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.formulas import (
    LabExtraMissing,
    budget_for,
    chain_success,
    finish_within,
    fit_decay,
    half_life,
    retry_success,
    success_with_recovery,
    wilson_interval,
)

PROBABILITIES = st.floats(0, 1)
CHAINS = 4000
"""Simulated runs; the standard error of a rate is then at most 0.008."""
FIRST_TRY, HARD = 0.35, 0.275


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (chain_success(0.95, 20), 3, 0.358),
        (chain_success(0.99, 50), 3, 0.605),
        (half_life(0.95), 1, 13.5),
        (half_life(0.99), 1, 69.0),
        (success_with_recovery(0.95, 0.3, 50), 3, 0.857),
        (success_with_recovery(0.95, 0.8, 50), 3, 0.941),
        (retry_success(FIRST_TRY, 4), 3, 0.821),
        (retry_success(FIRST_TRY / (1 - HARD), 2, HARD), 3, 0.531),
        (retry_success(FIRST_TRY / (1 - HARD), 3, HARD), 3, 0.625),
        (retry_success(FIRST_TRY / (1 - HARD), 4, HARD), 3, 0.673),
        (finish_within(7, 0.5), 4, 0.9922),
        (finish_within(13, 0.3), 4, 0.9903),
        (budget_for(0.5, 0.01), 0, 7),
        (budget_for(0.3, 0.01), 0, 13),
        (wilson_interval(37, 40).low, 3, 0.801),
        (wilson_interval(37, 40).high, 3, 0.974),
    ],
)
def test_a_formula_gives_the_figure_of_its_table(value: float, digits: int, expected: float) -> None:
    assert round(value, digits) == expected


def test_a_fit_above_one_refutes_independent_steps_and_says_so() -> None:
    decay = fit_decay([(1, 1), (2, 1), (4, 0.4), (8, 0.175)])

    assert (round(decay.p, 3), round(decay.a, 2)) == (0.767, 1.39)
    assert not decay.independent
    assert decay.sentence == (
        "success falls as 1.39 x 0.767^n; a is above 1, so the model of independent steps is refuted: longer runs do "
        "worse than one rate for every step allows"
    )


@given(p=st.floats(0.05, 0.999), lengths=st.sets(st.integers(1, 20), min_size=2))
def test_a_fit_of_independent_steps_finds_their_rate_and_refutes_nothing(p: float, lengths: set[int]) -> None:
    decay = fit_decay([(n, chain_success(p, n)) for n in sorted(lengths)])

    assert decay.p == pytest.approx(p)
    assert decay.a == pytest.approx(1)
    assert decay.independent
    assert "do not refute" in decay.sentence


def simulated(p: float, r: float, n: int, chance: random.Random) -> float:
    """The share of simulated chains that stand right after n steps."""
    right = 0
    for _ in range(CHAINS):
        state = True
        for _ in range(n):
            state = chance.random() < (p if state else r)
        right += state
    return right / CHAINS


@pytest.mark.parametrize(
    ("p", "r", "n"), [(0.95, 0.3, 1), (0.95, 0.3, 12), (0.9, 0.0, 5), (0.6, 0.9, 3), (0.2, 0.7, 8), (0.5, 0.5, 4)]
)
def test_the_chain_with_recovery_is_where_a_simulated_markov_chain_ends(p: float, r: float, n: int) -> None:
    came = simulated(p, r, n, random.Random(f"{p} {r} {n}"))

    assert came == pytest.approx(success_with_recovery(p, r, n), abs=0.03)  # nearly four standard errors


@given(p=PROBABILITIES, r=PROBABILITIES, n=st.integers(0, 60))
def test_the_chain_with_recovery_is_the_chain_stepped_one_by_one(p: float, r: float, n: int) -> None:
    right = 1.0
    for _ in range(n):
        right = right * p + (1 - right) * r

    assert success_with_recovery(p, r, n) == pytest.approx(right, abs=1e-9)


@given(p=PROBABILITIES, n=st.integers(0, 60))
def test_without_recovery_the_chain_is_the_product_of_its_steps(p: float, n: int) -> None:
    assert success_with_recovery(p, 0, n) == pytest.approx(chain_success(p, n))


@given(p=st.floats(0.01, 0.9999))
def test_half_of_the_chains_succeed_at_the_half_life(p: float) -> None:
    assert p ** half_life(p) == pytest.approx(0.5)


def test_what_never_fails_has_no_half_life_and_what_always_does_none_either() -> None:
    assert (half_life(1), half_life(0)) == (math.inf, 0)
    assert success_with_recovery(1, 0, 50) == 1
    assert (finish_within(0, 1), finish_within(1, 1), finish_within(5, 0)) == (0, 1, 0)
    assert (budget_for(1, 0.5), budget_for(0.2, 1)) == (1, 0)


@given(f=st.floats(1e-6, 1), eps=st.floats(1e-9, 1))
def test_a_budget_suffices_and_one_step_less_does_not(f: float, eps: float) -> None:
    budget = budget_for(f, eps)

    assert 1 - finish_within(budget, f) <= eps * (1 + 1e-6) + 1e-15
    if budget:
        assert 1 - finish_within(budget - 1, f) >= eps * (1 - 1e-6) - 1e-15


@given(halvings=st.integers(1, 50))
def test_a_budget_that_is_exactly_enough_is_not_rounded_up(halvings: int) -> None:
    assert budget_for(0.5, 0.5**halvings) == halvings


@given(q=PROBABILITIES, hard=PROBABILITIES, k=st.integers(0, 20))
def test_retries_help_up_to_the_hard_fraction_and_never_past_it(q: float, hard: float, k: int) -> None:
    assert 0 <= retry_success(q, k, hard) <= retry_success(q, k + 1, hard) + 1e-12
    assert retry_success(q, k, hard) <= 1 - hard + 1e-12
    assert retry_success(q, 1, hard) == pytest.approx(q * (1 - hard))


@pytest.mark.parametrize(("p", "n"), [(0.5, 40), (0.9, 40), (0.35, 25), (0.97, 100)])
def test_an_interval_covers_the_true_rate_about_as_often_as_it_says(p: float, n: int) -> None:
    chance = random.Random(f"{p} {n}")
    seen = [sum(chance.random() < p for _ in range(n)) for _ in range(2000)]
    intervals = {k: wilson_interval(k, n) for k in set(seen)}

    covered = sum(intervals[k].low <= p <= intervals[k].high for k in seen) / len(seen)
    assert 0.91 <= covered <= 0.99  # the score interval's own coverage swings a little with n and p


@given(trials=st.integers(1, 200), share=PROBABILITIES)
def test_an_interval_holds_the_measured_rate_and_stays_between_zero_and_one(trials: int, share: float) -> None:
    k = round(share * trials)
    low, high = wilson_interval(k, trials)

    assert -1e-12 <= low <= k / trials + 1e-12
    assert k / trials - 1e-12 <= high <= 1 + 1e-12


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (chain_success, (1.5, 2), "p must be a probability, from 0 to 1, not 1.5"),
        (chain_success, (0.5, 2.5), "n must be a whole number from 0 to 1000000000000000, not 2.5"),
        (chain_success, (0.5, -1), "n must be a whole number from 0 to 1000000000000000, not -1"),
        (chain_success, (True, 1), "p must be a finite number, not True"),
        (half_life, (math.nan,), "p must be a finite number, not nan"),
        (half_life, ("0.5",), "p must be a finite number, not '0.5'"),
        (success_with_recovery, (0.5, -0.1, 1), "r must be a probability"),
        (retry_success, (0.5, True), "k must be a whole number from 0 to 1000000000000000, not True"),
        (retry_success, (0.5, 1, 2), "hard must be a probability"),
        (chain_success, (0.5, 10**400), "n must be a whole number from 0 to 1000000000000000, not 1000"),
        (budget_for, (1e-320, 0.01), "f is 9.99989e-321: more than 1000000000000000 steps would be needed"),
        (finish_within, (-1, 0.5), "budget must be a whole number"),
        (finish_within, (1, 7), "f must be a probability"),
        (budget_for, (0, 0.1), "f is 0: no budget suffices"),
        (budget_for, (0.1, 0), "eps is 0: no budget suffices"),
        (wilson_interval, (1, 0), "n is 0: nothing was tried"),
        (wilson_interval, (5, 4), "k is 5, more than the 4 trials of n"),
        (fit_decay, ([(1, 0.5), (1, 0.4)],), "points: has fewer than two lengths"),
        (fit_decay, ([(1, 0.5), (2, 0)],), "points: a success of 0 has no logarithm"),
        (fit_decay, ([(1, 0.5), (2, 1.2)],), "points must be a probability"),
    ],
)
def test_a_bad_argument_is_named(function: Callable[..., Any], arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ValueError, match="^" + words.replace("(", r"\(")):
        function(*arguments)


def test_scipy_is_imported_when_it_is_used_and_its_absence_is_told_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looking = "import sys, lab.formulas; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", looking], check=False).returncode == 0

    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(LabExtraMissing, match=r"^scipy is not installed; install Longshift's extra lab "):
        wilson_interval(1, 2)
