"""Funds as people have them: the command, and workers that are killed with a fund's money in their hands."""

import json
from pathlib import Path

import pytest

from client.funds import Funds
from tests.acceptance.commands import Ended, clean_environment, installed, longshift
from tests.acceptance.shift_house import House

pytestmark = pytest.mark.slow

PRICE = {"input_cents_per_million": 300, "output_cents_per_million": 1500}
FUNDED = {
    "LONGSHIFT_AGENTS__LOOKER__FUND": "research",
    "LONGSHIFT_ENDPOINTS__MODEL__PRICE": json.dumps(PRICE),
}
"""Lets a fund pay for the runs of the house's agent."""
TURN_COST = (7 * 300 + 3 * 1500) // 100
"""Micro-USD of each of its turns."""
BUDGET = 10**6
"""Micro-USD; enough for all of its calls."""


@pytest.fixture
def house(house_on_shared_server: House) -> House:
    """Nobody kills its server here."""
    return house_on_shared_server


def test_a_fund_is_set_raised_and_listed_without_a_server(tmp_path: Path) -> None:
    def funds(*words: str) -> Ended:
        return longshift("funds", *words, env=clean_environment(XDG_STATE_HOME=str(tmp_path)))

    made = installed("funds", "set", "research", "5000", env=clean_environment(XDG_STATE_HOME=str(tmp_path)))
    raised = funds("raise", "research", "0.0001", "--json")
    listed = funds()
    below = funds("set", "research", "0")

    assert (made.code, made.out) == (0, "research: budget 5000 cents, 0 spent, 0 reserved, 5000 left\n")
    amounts = {"budget_cents": 5000.0001, "spent_cents": 0, "reserved_cents": 0, "left_cents": 5000.0001}
    assert raised.document == {"fund": "research", **amounts}
    assert listed.out == "fund\tbudget\tspent\treserved\tleft\nresearch\t5000.0001\t0\t0\t5000.0001\n"
    assert (below.code, below.out) == (0, "research: budget 0 cents, 0 spent, 0 reserved, 0 left\n")
    assert "research grants nothing more; raise it with: longshift funds raise research AMOUNT" in below.err
    funds("raise", "reserch", "1").refused("there is no fund 'reserch', the funds are: research", "longshift funds set")


@pytest.mark.asyncio
async def test_a_worker_killed_during_a_model_call_leaves_reserved_what_it_may_have_cost(house: House) -> None:
    funds = Funds(house.journal_url)
    await funds.set("research", BUDGET)
    house.outside.hold("model 2")
    first = await house.worker(**FUNDED)
    await house.start()
    await house.outside.came("model 2")
    (out,) = await funds.list()

    await first.kill()
    await house.outside.broken("model 2")
    await house.worker(**FUNDED)

    await house.ended_as_undisturbed(failed_calls=1)
    (fund,) = await funds.list()
    assert (out.spent, out.reserved > 0) == (TURN_COST, True)
    assert (fund.spent, fund.reserved) == (3 * TURN_COST, out.reserved)


@pytest.mark.asyncio
@pytest.mark.parametrize("point", [("before", "settle_model_call"), ("after", "settle_model_call")], ids=" ".join)
async def test_a_turn_is_charged_once_wherever_its_worker_is_killed(house: House, point: tuple[str, str]) -> None:
    funds = Funds(house.journal_url)
    await funds.set("research", BUDGET)
    house.outside.hold("gate")
    first = await house.worker(*point, "2", **FUNDED)
    await house.start()
    await house.outside.came("gate")

    await first.kill()
    await house.worker(**FUNDED)

    lost = point[0] == "before"
    await house.ended_as_undisturbed(failed_calls=int(lost))
    (fund,) = await funds.list()
    async with house.journal() as journal:
        calls = await journal.model_calls(house.run_id)
    assert fund.spent == 3 * TURN_COST
    assert fund.reserved == sum(call.reserved or 0 for call in calls if call.cost is None)
    assert (fund.reserved > 0) is lost
