"""A shift whose server is killed, alone or with its worker, ends as it would have: same transcript, no turn paid for
twice."""

import asyncio

import pytest

from tests.acceptance.shift_house import House

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


@pytest.mark.parametrize("held", ["model 2", "look a"])
async def test_a_server_killed_during_a_step_and_restarted_changes_nothing(house: House, held: str) -> None:
    house.outside.hold(held)
    await house.worker()
    await house.start()
    await house.outside.came(held)

    await house.server.kill()
    house.outside.let_go(held)
    await house.server.restart()

    result = await house.ended_as_undisturbed()
    assert len(house.outside.requests) == result.model_calls == 3


async def test_an_answer_that_came_while_the_server_was_away_for_long_is_found_in_the_journal(house: House) -> None:
    """The platform drops a completion that it cannot deliver for ten seconds."""
    house.outside.hold("model 2")
    await house.worker()
    await house.start()
    await house.outside.came("model 2")

    await house.server.kill()
    house.outside.let_go("model 2")
    async with asyncio.timeout(60):
        while "completing activity" not in house.log.read_text(encoding="utf-8"):  # noqa: ASYNC110  a log has no event
            await asyncio.sleep(0.2)
    await house.server.restart()

    result = await house.ended_as_undisturbed()
    assert len(house.outside.requests) == result.model_calls == 3


@pytest.mark.parametrize("held", ["model 2", "look b"])
async def test_server_and_worker_killed_together_and_started_again(house: House, held: str) -> None:
    house.outside.hold(held)
    first = await house.worker()
    await house.start()
    await house.outside.came(held)

    await asyncio.gather(first.kill(), house.server.kill())
    await house.server.restart()
    await house.worker()

    result = await house.ended_as_undisturbed(failed_calls=1 if held == "model 2" else 0)
    assert len(house.outside.requests) == result.model_calls


async def test_everything_killed_just_after_a_turn_was_journaled(house: House) -> None:
    house.outside.hold("gate")
    first = await house.worker("after", "settle_model_call", "2")
    await house.start()
    await house.outside.came("gate")

    await asyncio.gather(first.kill(), house.server.kill())
    await house.worker()
    await house.server.restart()

    result = await house.ended_as_undisturbed()
    assert len(house.outside.requests) == result.model_calls == 3
