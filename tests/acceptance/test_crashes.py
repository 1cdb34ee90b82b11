"""A shift whose worker is killed ends as it would have: same transcript, no turn paid for twice."""

import pytest

from tests.acceptance.shift_house import House

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


@pytest.fixture
def house(house_on_shared_server: House) -> House:
    """Nobody kills its server here."""
    return house_on_shared_server


async def test_a_shift_that_nothing_disturbs(house: House) -> None:
    await house.worker()
    await house.start()

    await house.ended_as_undisturbed()

    assert house.outside.visits == ["model 1", "look a", "model 2", "look b", "look c", "model 3"]


async def test_a_worker_killed_before_it_sent_a_model_call_leaves_it_to_the_next(house: House) -> None:
    house.outside.hold("gate")
    first = await house.worker("before", "begin_model_call", "2")
    await house.start()
    await house.outside.came("gate")

    await first.kill()
    await house.worker()

    await house.ended_as_undisturbed()
    assert len(house.outside.requests) == 3


async def test_a_model_call_that_may_have_been_sent_counts_and_is_not_sent_under_the_same_number(
    house: House,
) -> None:
    house.outside.hold("gate")
    first = await house.worker("after", "begin_model_call", "2")
    await house.start()
    await house.outside.came("gate")

    await first.kill()
    await house.worker()

    result = await house.ended_as_undisturbed(failed_calls=1)
    assert (result.model_calls, len(house.outside.requests)) == (4, 3)


async def test_a_worker_killed_during_a_model_call_costs_that_call_and_no_more(house: House) -> None:
    house.outside.hold("model 2")
    first = await house.worker()
    await house.start()
    await house.outside.came("model 2")

    await first.kill()
    await house.outside.broken("model 2")
    await house.worker()

    result = await house.ended_as_undisturbed(failed_calls=1)
    assert len(house.outside.requests) == result.model_calls == 4


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_turn_that_stands_in_the_journal_is_never_asked_for_again(house: House, number: int) -> None:
    house.outside.hold("gate")
    first = await house.worker("after", "settle_model_call", str(number))
    await house.start()
    await house.outside.came("gate")

    await first.kill()
    await house.worker()

    result = await house.ended_as_undisturbed()
    assert len(house.outside.requests) == result.model_calls == 3


@pytest.mark.parametrize(
    ("gate", "held", "looks"),
    [
        pytest.param(("before", "_run_tool", "1"), "gate", 1, id="before"),
        pytest.param((), "look b", 2, id="during"),
        pytest.param(("after", "settle_tool_call", "1"), "gate", 1, id="after"),
    ],
)
async def test_a_worker_killed_around_a_read_leaves_one_observation_of_it(
    house: House, gate: tuple[str, ...], held: str, looks: int
) -> None:
    house.outside.turns = (["b"], house.outside.turns[-1])
    house.outside.hold(held)
    first = await house.worker(*gate)
    await house.start()
    await house.outside.came(held)

    await first.kill()
    await house.worker()

    result = await house.ended_as_undisturbed()
    assert len(house.outside.requests) == result.model_calls == 2
    assert house.outside.visits.count("look b") == looks


async def test_a_worker_killed_in_the_middle_of_a_batch_runs_no_member_again_that_was_observed(house: House) -> None:
    house.outside.hold("look c")
    first = await house.worker("after", "settle_tool_call", "2")
    await house.start()
    await house.outside.came("look c")
    await house.outside.came("gate")

    await first.kill()
    await house.worker()

    await house.ended_as_undisturbed()
    assert (house.outside.visits.count("look b"), house.outside.visits.count("look c")) == (1, 2)


async def test_a_worker_killed_at_every_turn_is_replaced_at_every_turn(house: House) -> None:
    names = ["model 1", "look a", "look b"]
    house.outside.hold(*names)
    await house.start()
    for name in names:
        worker = await house.worker()
        await house.outside.came(name)
        await worker.kill()
    await house.worker()

    result = await house.ended_as_undisturbed(failed_calls=1)
    assert len(house.outside.requests) == result.model_calls == 4


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("method", ["open_run", "close_run"])
async def test_a_worker_killed_while_it_opens_or_closes_a_run_leaves_that_to_the_next(
    house: House, when: str, method: str
) -> None:
    house.outside.hold("gate")
    first = await house.worker(when, method, "1")
    await house.start()
    await house.outside.came("gate")

    await first.kill()
    await house.worker()

    result = await house.ended_as_undisturbed()
    assert len(house.outside.requests) == result.model_calls == 3
