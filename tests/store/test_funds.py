"""Funds: what is reserved, charged and kept, whatever happens to the calls that a fund pays for."""

import pytest
import pytest_asyncio
from sqlalchemy import update

from longshift.contracts import Decision
from longshift.funds import MAX_BUDGET, AmountRefused, Fund
from longshift.messages import AssistantMessage
from longshift.turns import FailureKind, ModelFailure, Turn
from store.engine import open_database
from store.errors import FundRefused
from store.funds import RAISES_KEPT
from store.journal import Answered, Draw, Failed, Fresh, Journal, Lost
from store.tables import FUNDS
from tests.store.shift import Shift, turn_of

pytestmark = pytest.mark.asyncio

BUDGET = 1000
MOST = 400
"""Micro-USD that a call of these tests may cost; what `turn_of` gives costs 3."""
DRAW = Draw("research", MOST)
REPLY = AssistantMessage(content="Done.")


@pytest_asyncio.fixture(autouse=True)
async def fund(journal: Journal) -> None:
    """The fund that pays."""
    await journal.set_fund("research", BUDGET)


async def standing(journal: Journal) -> tuple[int, int]:
    """What the fund has spent and what it holds."""
    (fund,) = await journal.funds()
    return fund.spent, fund.reserved


def costing(cost: int | None) -> Turn:
    return turn_of(REPLY).model_copy(update={"cost": cost})


def failed(kind: FailureKind, cost: int | None = None) -> ModelFailure:
    return ModelFailure(kind=kind, message="it failed", transient=True, cost=cost)


async def test_what_a_call_cost_takes_the_place_of_what_was_reserved_for_it(shift: Shift, journal: Journal) -> None:
    request = shift.request()
    assert await journal.begin_model_call(request, "w", 1.0, DRAW) == Fresh()
    assert await standing(journal) == (0, MOST)
    assert await journal.settle_model_call(request, REPLY, costing(3), 2.0)
    assert await standing(journal) == (3, 0)
    (row,) = await journal.model_calls("shift-1")
    assert (row.fund, row.reserved, row.cost) == ("research", MOST, 3)


async def test_a_refused_call_leaves_everything_as_it_was(shift: Shift, journal: Journal) -> None:
    await journal.set_fund("research", MOST - 1)
    shift.say("And now?")
    request = shift.request(decisions=(Decision(number=1, at=1.0, kind="limits"),))
    with pytest.raises(FundRefused) as refused:
        await journal.begin_model_call(request, "w", 1.0, DRAW)
    assert str(refused.value) == (
        "fund research: this call may cost 0.04 cents and 0.0399 of 0.0399 are left; "
        "raise it with: longshift funds raise research AMOUNT"
    )
    assert await standing(journal) == (0, 0)
    assert len(await journal.messages("shift-1")) == 2
    assert await journal.decisions("shift-1") == []
    assert await journal.model_calls("shift-1") == []

    await journal.raise_fund("research", 1, "request-1")
    assert await journal.begin_model_call(request, "w", 2.0, DRAW) == Fresh()
    assert len(await journal.messages("shift-1")) == 3


async def test_nothing_that_is_repeated_counts_twice(shift: Shift, journal: Journal) -> None:
    request = shift.request()
    await journal.begin_model_call(request, "w", 1.0, DRAW)
    await journal.settle_model_call(request, REPLY, costing(3), 2.0)
    assert isinstance(await journal.begin_model_call(request, "again", 3.0, DRAW), Answered)
    assert await journal.settle_model_call(request, REPLY, costing(3), 4.0)  # it stands, and is told again
    assert not await journal.settle_model_call(request, AssistantMessage(content="Another."), costing(3), 4.0)
    assert not await journal.fail_model_call(request, failed("timeout"), 4.0)
    assert await standing(journal) == (3, 0)


async def test_a_lost_call_keeps_what_was_reserved(shift: Shift, journal: Journal) -> None:
    request = shift.request()
    await journal.begin_model_call(request, "w", 1.0, DRAW)
    assert isinstance(await journal.begin_model_call(request, "again", 2.0, DRAW), Lost)
    assert isinstance(await journal.begin_model_call(request, "and again", 3.0, DRAW), Failed)
    assert not await journal.settle_model_call(request, REPLY, costing(3), 4.0)
    assert await standing(journal) == (0, MOST)


async def test_a_call_that_was_given_up_before_it_was_entered_reserves_nothing(shift: Shift, journal: Journal) -> None:
    asleep = shift.request()
    shift.number = 1
    await shift.turn("In time.")
    assert isinstance(await journal.begin_model_call(asleep, "late", 9.0, DRAW), Lost)
    assert await standing(journal) == (0, 0)


@pytest.mark.parametrize(
    ("failure", "spent", "reserved"),
    [
        (failed("timeout"), 0, MOST),
        (failed("status"), 0, MOST),
        (failed("invalid_turn", cost=7), 7, 0),
        (failed("connect"), 0, 0),
        (failed("missing_key"), 0, 0),
    ],
    ids=lambda value: value.kind if isinstance(value, ModelFailure) else None,
)
async def test_a_failed_call_costs_what_is_known_of_it(
    shift: Shift, journal: Journal, failure: ModelFailure, spent: int, reserved: int
) -> None:
    request = shift.request()
    await journal.begin_model_call(request, "w", 1.0, DRAW)
    assert await journal.fail_model_call(request, failure, 2.0)
    assert await standing(journal) == (spent, reserved)
    (row,) = await journal.model_calls("shift-1")
    assert (row.cost or 0, 0 if row.cost is not None else row.reserved) == (spent, reserved)


async def test_a_turn_of_unknown_cost_keeps_what_was_reserved(shift: Shift, journal: Journal) -> None:
    request = shift.request()
    await journal.begin_model_call(request, "w", 1.0, DRAW)
    assert await journal.settle_model_call(request, REPLY, costing(None), 2.0)
    assert await standing(journal) == (0, MOST)


async def test_a_reset_gives_no_money_back(shift: Shift, journal: Journal) -> None:
    other_way = shift.fork()
    settled = shift.request()
    await journal.begin_model_call(settled, "w", 1.0, DRAW)
    await journal.settle_model_call(settled, REPLY, costing(3), 2.0)
    out = shift.request(2)
    await journal.begin_model_call(out, "w", 3.0, DRAW)
    assert await standing(journal) == (3, MOST)

    other_way.say("Another question.")
    anew = other_way.request()
    assert await journal.begin_model_call(anew, "w", 4.0, DRAW) == Fresh()
    assert [row.number for row in await journal.model_calls("shift-1")] == [1]
    assert await standing(journal) == (3, 2 * MOST)
    assert not await journal.settle_model_call(out, REPLY, costing(3), 5.0)
    assert await journal.settle_model_call(anew, REPLY, costing(5), 6.0)
    assert await standing(journal) == (8, MOST)


@pytest.mark.parametrize("bill", [BUDGET + 1, 2**80])
async def test_a_bill_past_the_budget_is_charged_and_nothing_more_is_granted(
    shift: Shift, journal: Journal, bill: int
) -> None:
    request = shift.request()
    await journal.begin_model_call(request, "w", 1.0, DRAW)
    assert await journal.settle_model_call(request, REPLY, costing(bill), 2.0)
    (fund,) = await journal.funds()
    assert fund.spent == min(bill, MAX_BUDGET)
    assert fund.left < 0
    with pytest.raises(FundRefused, match=r"and 0 of 0\.1 are left"):
        await journal.begin_model_call(shift.request(2), "w", 3.0, Draw("research", 0))


async def test_a_budget_set_below_what_is_used_takes_nothing_back_and_grants_nothing(
    shift: Shift, journal: Journal
) -> None:
    request = shift.request()
    await journal.begin_model_call(request, "w", 1.0, DRAW)
    assert await journal.set_fund("research", 1) == Fund(name="research", budget=1, reserved=MOST)
    with pytest.raises(FundRefused):
        await journal.begin_model_call(shift.request(2), "w", 2.0, Draw("research", 1))
    assert await journal.settle_model_call(request, REPLY, costing(3), 3.0)
    assert await standing(journal) == (3, 0)


async def test_a_raise_that_is_sent_again_counts_once(journal: Journal) -> None:
    assert (await journal.raise_fund("research", 5, "first")).budget == BUDGET + 5
    assert (await journal.raise_fund("research", 5, "first")).budget == BUDGET + 5
    assert (await journal.raise_fund("research", 5, "second")).budget == BUDGET + 10
    with pytest.raises(AmountRefused, match="adds at most"):
        await journal.raise_fund("research", MAX_BUDGET, "third")
    assert (await journal.funds())[0].budget == BUDGET + 10


async def test_a_raise_that_is_sent_again_after_others_counts_once(journal: Journal) -> None:
    """As far back as so many raises; a request id is any text."""
    ids = ["a", "b", '["a"]', "", "\0", "\ufffd", "\u00fc"]
    ids += [str(n) for n in range(RAISES_KEPT - len(ids))]
    for _ in range(2):
        budgets = [(await journal.raise_fund("research", 5, request_id)).budget for request_id in ids]
    assert budgets == [BUDGET + 5 * RAISES_KEPT] * RAISES_KEPT
    await journal.raise_fund("research", 5, "one more")
    assert (await journal.raise_fund("research", 5, ids[1])).budget == BUDGET + 5 * (RAISES_KEPT + 1)
    assert (await journal.raise_fund("research", 5, ids[0])).budget == BUDGET + 5 * (RAISES_KEPT + 2)


@pytest.mark.parametrize("held", ["a", "", "12", "a[", '{"a":1}'])
async def test_a_raise_that_an_earlier_version_entered_counts_once(journal: Journal, url: str, held: str) -> None:
    database = open_database(url)
    await database.write(lambda c: c.execute(update(FUNDS), {"latest_raise": held}))
    await database.close()
    assert (await journal.raise_fund("research", 5, held)).budget == BUDGET
    assert (await journal.raise_fund("research", 5, "b")).budget == BUDGET + 5
    assert (await journal.raise_fund("research", 5, held)).budget == BUDGET + 5


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (Draw("reserch", 1), "no fund 'reserch', the funds are: research; make it with: longshift funds set"),
        (Draw("research", None), "has no price and estimated_call_cents is 0"),
        (Draw("research", 2**70), "this call may cost"),
    ],
)
async def test_a_call_that_no_fund_can_pay_for_is_refused(
    shift: Shift, journal: Journal, draw: Draw, words: str
) -> None:
    with pytest.raises(FundRefused, match=words):
        await journal.begin_model_call(shift.request(), "w", 1.0, draw)
    assert await standing(journal) == (0, 0)


async def test_a_call_that_was_not_paid_for_is_not_started_by_a_worker_that_wakes_up_after_the_run_went_on(
    shift: Shift, journal: Journal
) -> None:
    asleep = shift.request()
    await journal.set_fund("research", 0)
    with pytest.raises(FundRefused):
        await journal.begin_model_call(shift.request(), "1/model-1", 1.0, DRAW)
    await journal.set_fund("research", BUDGET)
    shift.number = asleep.number  # which is given to no other call
    shift.say("There is money again.")
    await shift.turn("Thanks.")
    assert isinstance(await journal.begin_model_call(asleep, "1/model-1-again", 9.0, DRAW), Lost)
    await shift.close()
    assert await journal.transcript("shift-1", shift.head) == shift.messages
    assert await shift.kinds() == []
    assert await standing(journal) == (0, 0)


async def test_a_call_that_was_not_paid_for_does_not_open_the_ended_run_again(shift: Shift, journal: Journal) -> None:
    asleep = shift.request()
    await journal.set_fund("research", 0)
    with pytest.raises(FundRefused):
        await journal.begin_model_call(shift.request(), "1/model-1", 1.0, DRAW)
    closing = shift.closing()
    withdrawn = closing.result.model_copy(update={"withdrawn": 1})
    await journal.close_run(closing.model_copy(update={"result": withdrawn}), 2.0)
    await journal.set_fund("research", BUDGET)
    assert isinstance(await journal.begin_model_call(asleep, "1/model-1-again", 9.0, DRAW), Lost)
    row = await journal.run("shift-1")
    assert row is not None
    assert (row.closed_at, await standing(journal)) == (2.0, (0, 0))


async def test_an_unknown_fund_is_not_raised(journal: Journal) -> None:
    with pytest.raises(FundRefused, match="there is no fund 'reserch', the funds are: research"):
        await journal.raise_fund("reserch", 1, "request-1")
