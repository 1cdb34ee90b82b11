"""Amounts and names of funds as people write them, and what is held for a call."""

import pytest
from click.testing import CliRunner

from client.main import longshift
from longshift.contracts import OpenRun, RunSpec
from longshift.funds import AmountRefused, Fund, micro_usd, most, refusal
from longshift.run_input import InputRefused, RunInput, read_input
from tests.store.shift import SPEC


@pytest.mark.parametrize(
    ("text", "amount"),
    [("0", 0), ("5000", 50_000_000), ("12.5", 125_000), ("0.0001", 1), ("100000000000", 10**15), ("0.1000", 1000)],
)
def test_an_amount_in_cents_is_exact_to_a_micro_usd(text: str, amount: int) -> None:
    assert micro_usd(text) == amount


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 5",
        "-5",
        "+5",
        "5.",
        ".5",
        "0.00001",
        "1e3",
        "1_000",
        "1,5",
        "$5",
        "\u0665",
        "NaN",
        "100000000000.0001",
        "9" * 99,
    ],
)
def test_an_amount_that_is_not_plain_cents_is_refused(text: str) -> None:
    with pytest.raises(AmountRefused, match=r"must be US cents, 0 to 100000000000, .* such as 5000 or 12\.5, not "):
        micro_usd(text)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["set", "Research", "5"], "Error: NAME: must be 1 to 64 lower-case letters"),
        (["set", "research", "5$"], "Error: AMOUNT: must be US cents"),
        (["raise", "research", "-5"], "Error: AMOUNT: must be US cents"),
    ],
)
def test_the_command_refuses_a_bad_name_or_amount(words: list[str], told: str) -> None:
    ended = CliRunner().invoke(longshift, ["funds", *words])
    assert ended.exit_code == 2
    assert told in ended.output


def test_a_run_is_not_started_with_a_fund_of_a_bad_name() -> None:
    ended = CliRunner().invoke(longshift, ["start", "Draft what we need.", "--fund", "../etc"])
    assert (ended.exit_code, "--fund: must be 1 to 64 lower-case letters" in ended.output) == (2, True)
    with pytest.raises(InputRefused) as refused:
        read_input(({"agent": "shop", "task": "x", "fund": "../etc"},))
    assert refused.value.problems == {
        "fund": "must be 1 to 64 lower-case letters, digits or -, and begin with a letter"
    }


@pytest.mark.parametrize(
    ("estimate", "highest", "held"), [(5, 9, 9), (9, 5, 9), (5, None, 5), (0, 0, 0), (0, None, None)]
)
def test_the_higher_of_estimate_and_price_is_held_and_nothing_is_guessed(
    estimate: int, highest: int | None, held: int | None
) -> None:
    assert most(estimate, highest) == held


def test_a_fund_past_its_budget_shows_by_how_much_and_offers_nothing() -> None:
    fund = Fund(name="research", budget=10_000, spent=9_000, reserved=2_000)
    assert fund.document() == {
        "fund": "research",
        "budget_cents": 1,
        "spent_cents": 0.9,
        "reserved_cents": 0.2,
        "left_cents": -0.1,
    }
    assert "this call may cost 0.5 cents and 0 of 1 are left" in refusal(fund, 5_000)


def test_a_run_without_a_fund_is_told_to_workers_that_know_none() -> None:
    given = RunInput(agent="shop", task="x")
    assert "fund" not in given.model_dump(mode="json")
    assert "fund" not in OpenRun(run_id="r", started_at=0, given=given).model_dump(mode="json")["given"]
    assert RunSpec.model_validate(SPEC.model_dump(mode="json")).fund is None
