"""Questions: which calls need a person's approval, and what a person is shown of one."""

import math
from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from longshift import jsontext
from longshift.messages import ToolCall
from longshift.questions import MAX_SHOWN, ApprovalRule, needs_approval, question
from tests.unit.authored import call

AMOUNT = ApprovalRule(argument="order.total_usd", above=50)
NAME = ApprovalRule(argument="to", not_in=("home", 1, None, {"team": [1, "a"]}))
BOTH = ApprovalRule(argument="n", above=10, not_in=(3, 12))


@pytest.mark.parametrize("needed", [True, False])
def test_a_tool_needs_approval_always_or_never(needed: bool) -> None:
    why = needs_approval(needed, call("a", "send"))
    assert why == ("send always needs approval" if needed else None)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (50, None),
        (50.0, None),
        (-(10**300), None),
        (0, None),
        (51, "order.total_usd is 51, above 50"),
        (50.000001, "order.total_usd is 50.000001, above 50"),
        (10**300, f"order.total_usd is {10**300}, above 50"),
        (math.inf, "order.total_usd is inf, above 50"),
        (math.nan, "order.total_usd is nan, above 50"),
        (True, "order.total_usd is no number"),
        (False, "order.total_usd is no number"),
        ("12", "order.total_usd is no number"),
        (None, "order.total_usd is no number"),
        ([12], "order.total_usd is no number"),
        ({"value": 12}, "order.total_usd is no number"),
    ],
)
def test_an_amount_above_the_rule_s_or_of_another_type_needs_approval(value: Any, why: str | None) -> None:
    assert needs_approval(AMOUNT, call("a", "send", None, order={"total_usd": value})) == why


@pytest.mark.parametrize(
    ("value", "needed"),
    [
        ("home", False),
        (1, False),
        (None, False),
        ({"team": [1, "a"]}, False),
        ("Home", True),
        ("home ", True),
        ("", True),
        (1.0, True),
        (True, True),
        (0, True),
        (False, True),
        ([], True),
        ({"team": [True, "a"]}, True),
        ({"team": [1.0, "a"]}, True),
        ({"team": ["a", 1]}, True),
        ({"team": [1, "a"], "more": None}, True),
        (math.nan, True),
        ([math.nan], True),
    ],
)
def test_a_value_that_is_not_exactly_one_of_the_rule_s_needs_approval(value: Any, needed: bool) -> None:
    why = needs_approval(NAME, call("a", "send", None, to=value))
    assert why == ("to is not one of those that need no approval" if needed else None)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"order": {}},
        {"order": None},
        {"order": 7},
        {"order": [{"total_usd": 1}]},
        {"order": "total_usd"},
        {"total_usd": 1},
        {"order.total_usd": 1},
        {"Order": {"total_usd": 1}},
    ],
)
def test_a_call_without_the_argument_that_the_rule_looks_at_needs_approval(arguments: dict[str, JsonValue]) -> None:
    assert needs_approval(AMOUNT, call("a", "send", None, **arguments)) == "order.total_usd is missing"


@pytest.mark.parametrize(("n", "needed"), [(3, False), (4, True), (12, True), (13, True), (True, True)])
def test_a_rule_with_an_amount_and_values_wants_both_to_be_kept(n: int, needed: bool) -> None:
    assert (needs_approval(BOTH, call("a", "send", None, n=n)) is not None) == needed


def test_a_rule_cannot_judge_arguments_that_the_history_holds_by_their_digest_only() -> None:
    cut = ToolCall(id="a", name="send", arguments_sha256="0" * 64)
    assert needs_approval(AMOUNT, cut) == "the arguments of send are too long to be judged by its rule"
    assert needs_approval(False, cut) is None


@pytest.mark.parametrize(("letters", "cut"), [(0, False), (MAX_SHOWN - 8, False), (MAX_SHOWN - 7, True), (9999, True)])
def test_a_question_shows_so_much_of_the_arguments_and_is_bound_to_all_of_them(letters: int, cut: bool) -> None:
    made = call("a", "send", None, t="x" * letters)
    asked = question("approval", made, "it always does", 7.5)
    whole = jsontext.canonical(made.arguments)
    assert asked.arguments == (f"{whole[: MAX_SHOWN - 3]}..." if cut else whole)
    assert len(asked.arguments) <= MAX_SHOWN
    assert asked.arguments_sha256 == jsontext.sha256(whole)
    assert (asked.kind, asked.call_id, asked.name, asked.why, asked.asked_at) == (
        "approval",
        "a",
        "send",
        "it always does",
        7.5,
    )


def test_a_question_about_arguments_that_were_left_out_says_so_and_is_bound_to_their_digest() -> None:
    asked = question("outcome", ToolCall(id="a", name="send", arguments_sha256="ab" * 32), "lost", 0)
    assert (asked.arguments, asked.arguments_sha256) == ("(too long to show here)", "ab" * 32)


def test_a_rule_takes_a_number_as_its_amount_and_no_text() -> None:
    with pytest.raises(ValidationError):
        ApprovalRule(argument="total_cents", above="50")
