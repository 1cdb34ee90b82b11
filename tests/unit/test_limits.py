"""Limits: defaults, strict values, changes that are taken or refused whole, and money."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshift import Limits, jsontext
from longshift.limits import MAX_CENTS, MAX_COUNT, MAX_PROBLEMS, RULES, LimitsRefused, cents

DEFAULTS = {
    "model_calls": 8,
    "tool_calls": 16,
    "seconds": 60,
    "context_bytes": 32768,
    "output_tokens": 1024,
    "total_output_tokens": 4096,
    "estimated_call_cents": 0,
    "model_budget_cents": 100,
    "repeats": 3,
    "model_retries": 2,
    "working_seconds": None,
    "on_limit": "end",
    "wrap_up": False,
}
POSITIVE = ["model_calls", "tool_calls", "context_bytes", "output_tokens", "total_output_tokens"]
COUNTS = ["repeats", "model_retries"]
SECONDS = ["seconds", "working_seconds"]
MONEY = ["estimated_call_cents", "model_budget_cents"]

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([10**400, -(10**400), "6"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(list(DEFAULTS)) | st.text()


def refused(changes: object) -> dict[str, str]:
    """The problems with a change."""
    with pytest.raises(LimitsRefused) as caught:
        Limits().changed(changes)
    return caught.value.problems


def test_the_defaults_are_those_of_the_rules() -> None:
    assert Limits().model_dump() == DEFAULTS


@pytest.mark.parametrize("name", POSITIVE)
def test_a_positive_count_takes_whole_numbers_from_one_up(name: str) -> None:
    assert getattr(Limits().changed({name: 1}), name) == 1
    assert getattr(Limits().changed({name: MAX_COUNT}), name) == MAX_COUNT
    bad: object
    for bad in (0, -1, -500, 1.0, 1.5, True, "6", None, math.nan, math.inf, 1e308, [], {}, MAX_COUNT + 1, 10**5000):
        assert list(refused({name: bad})) == [name]


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_that_can_be_turned_off_takes_whole_numbers_from_zero_up(name: str) -> None:
    assert getattr(Limits().changed({name: 0}), name) == 0
    for bad in (-1, 0.0, False, "0", None, MAX_COUNT + 1):
        assert list(refused({name: bad})) == [name]


@pytest.mark.parametrize("name", SECONDS)
def test_seconds_take_any_finite_number_above_zero(name: str) -> None:
    for good in (1, 0.001, 1e308):
        assert getattr(Limits().changed({name: good}), name) == good
    bad: object
    for bad in (0, -1, 0.0, True, "6", math.nan, math.inf, -math.inf, 10**400, 10**5000):
        assert list(refused({name: bad})) == [name]


def test_only_working_seconds_can_be_without_a_limit() -> None:
    assert Limits(working_seconds=5).changed({"working_seconds": None}).working_seconds is None
    assert list(refused({"seconds": None})) == ["seconds"]


@pytest.mark.parametrize("name", MONEY)
def test_money_takes_finite_sums_that_can_be_counted_exactly(name: str) -> None:
    for good in (1, 0.25, MAX_CENTS):
        assert getattr(Limits().changed({name: good}), name) == good
    for bad in (-500, -0.01, True, "6", math.nan, math.inf, 1e308, MAX_CENTS + 1, 10**400):
        assert list(refused({name: bad})) == [name]


def test_an_estimate_may_be_nothing_and_a_budget_may_not() -> None:
    assert Limits().changed({"estimated_call_cents": 0}).estimate == 0
    assert list(refused({"model_budget_cents": 0})) == ["model_budget_cents"]


def test_policies_take_their_own_words_only() -> None:
    assert Limits().changed({"on_limit": "wait", "wrap_up": True}).wrap_up
    for bad in ("Wait", "", None, 1):
        assert refused({"on_limit": bad})["on_limit"].startswith('must be "end" or "wait", not ')
    for bad in ("true", 1, 0, None):
        assert refused({"wrap_up": bad})["wrap_up"].startswith("must be true or false, not ")


def test_every_bad_field_is_named_with_the_rule_and_what_was_given() -> None:
    problems = refused({"model_calls": 1.5, "seconds": -3, "model_cals": 4, "repeats": 1})
    assert problems["model_calls"] == "must be a whole number above 0, not 1.5"
    assert problems["seconds"] == "must be a finite number of seconds above 0, not -3"
    assert problems["model_cals"].startswith("is no limit; the limits are model_calls, tool_calls, seconds, ")
    assert len(problems) == 3


def test_a_value_past_the_largest_is_told_the_largest() -> None:
    assert refused({"model_calls": 10**13})["model_calls"].endswith("at most 1000000000000, not 10000000000000")
    assert refused({"model_budget_cents": 1e308})["model_budget_cents"].endswith("at most 100000000000, not 1e+308")


def test_a_change_with_one_bad_field_changes_nothing() -> None:
    before = Limits(model_calls=3)
    with pytest.raises(LimitsRefused):
        before.changed({"model_calls": 9, "tool_calls": 0})
    assert before.model_calls == 3


@pytest.mark.parametrize("changes", [None, [], "model_calls", 3, [("model_calls", 3)]])
def test_a_change_that_is_no_object_is_refused(changes: object) -> None:
    assert "must be an object" in refused(changes)["limits"]


def test_a_refusal_stays_small_however_much_is_wrong() -> None:
    problems = refused({f"name-{n}": 0 for n in range(10_000)} | {"x" * 100_000: 0})
    assert len(problems) == MAX_PROBLEMS
    assert sum(len(name) + len(text) for name, text in problems.items()) < 5_000
    assert list(problems.values())[-1].endswith(f"(and {10_001 - MAX_PROBLEMS} more problems)")


def test_a_long_value_is_shown_cut() -> None:
    assert len(refused({"model_calls": "9" * 100_000})["model_calls"]) < 120


@given(ANY_JSON | st.dictionaries(NAMES, ANY_JSON, max_size=4))
def test_any_json_is_either_taken_as_it_is_or_refused_in_unicode(changes: Any) -> None:
    try:
        limits = Limits().changed(changes)
    except LimitsRefused as error:
        str(error).encode()
        return
    assert all(getattr(limits, name) == value for name, value in changes.items())
    assert not any(isinstance(getattr(limits, name), bool) for name in POSITIVE + COUNTS + SECONDS + MONEY)
    assert Limits.model_validate_json(limits.model_dump_json()) == limits


def test_every_rule_belongs_to_a_limit() -> None:
    assert set(RULES) < set(DEFAULTS)


@pytest.mark.parametrize(
    ("given_cents", "estimate", "budget"),
    [
        (1, 10_000, 10_000),
        (0.25, 2_500, 2_500),
        (0.1, 1_000, 1_000),
        (2.675, 26_750, 26_750),
        (0.00005, 1, 0),
        (1e-300, 1, 0),
        (33.33335, 333_334, 333_333),
        (MAX_CENTS, 10**15, 10**15),
    ],
)
def test_an_estimate_is_rounded_up_to_a_micro_usd_and_a_budget_down(
    given_cents: float, estimate: int, budget: int
) -> None:
    limits = Limits().changed({"estimated_call_cents": given_cents, "model_budget_cents": given_cents})
    assert (limits.estimate, limits.budget) == (estimate, budget)


@pytest.mark.parametrize(
    ("micro_usd", "shown"), [(0, "0"), (30_000, "3"), (1, "0.0001"), (25_001, "2.5001"), (10**15, "100000000000")]
)
def test_micro_usd_are_told_in_cents_whole_where_they_are_whole(micro_usd: int, shown: str) -> None:
    assert jsontext.canonical(cents(micro_usd)) == shown
