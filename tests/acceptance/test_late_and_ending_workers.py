"""A worker that is suspended and wakes up late changes nothing; one that is told to end does so in order."""

import asyncio
import os
import signal

import pytest

from tests.acceptance.shift_house import House

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


@pytest.fixture
def house(house_on_shared_server: House) -> House:
    """Nobody kills its server here."""
    return house_on_shared_server


async def test_a_suspended_worker_that_wakes_up_late_sends_nothing(house: House) -> None:
    house.outside.hold("gate")
    first = await house.worker("before", "begin_model_call", "2")
    await house.start()
    await house.outside.came("gate")

    os.kill(first.pid, signal.SIGSTOP)
    await house.worker()
    before = await house.ended_as_undisturbed()
    house.outside.let_go("gate")
    os.kill(first.pid, signal.SIGCONT)
    assert await first.stop(60) == 0

    assert await house.ended_as_undisturbed() == before
    assert len(house.outside.requests) == before.model_calls == 3


async def test_an_answer_that_reaches_a_suspended_worker_too_late_changes_nothing(house: House) -> None:
    house.outside.hold("model 2")
    first = await house.worker()
    await house.start()
    await house.outside.came("model 2")

    os.kill(first.pid, signal.SIGSTOP)
    await house.worker()
    before = await house.ended_as_undisturbed(failed_calls=1)
    house.outside.let_go("model 2")
    os.kill(first.pid, signal.SIGCONT)
    assert await first.stop(60) == 0

    assert await house.ended_as_undisturbed(failed_calls=1) == before
    assert len(house.outside.requests) == before.model_calls == 4


async def test_a_model_call_that_is_answered_within_the_grace_is_used(house: House) -> None:
    house.outside.hold("model 2")
    first = await house.worker()
    await house.start()
    await house.outside.came("model 2")

    stopping = asyncio.create_task(first.stop(60))
    async with asyncio.timeout(60):
        while "ending" not in first.last_lines(50):  # noqa: ASYNC110  another process's state has no event
            await asyncio.sleep(0.02)
    house.outside.let_go("model 2")

    assert await stopping == 0
    await house.worker()
    result = await house.ended_as_undisturbed()
    assert len(house.outside.requests) == result.model_calls == 3


async def test_a_model_call_past_the_grace_is_given_up_and_counted(house: House) -> None:
    house.outside.hold("model 2")
    first = await house.worker(LONGSHIFT_WORKER__GRACE_SECONDS="0.5")
    await house.start()
    await house.outside.came("model 2")

    assert await first.stop(60) == 0
    await house.outside.broken("model 2")

    await house.worker()
    result = await house.ended_as_undisturbed(failed_calls=1)
    assert len(house.outside.requests) == result.model_calls == 4


async def test_a_read_past_the_grace_is_made_again_by_the_next_worker(house: House) -> None:
    house.outside.hold("look b")
    first = await house.worker(LONGSHIFT_WORKER__GRACE_SECONDS="0.5")
    await house.start()
    await house.outside.came("look b")

    assert await first.stop(60) == 0
    await house.outside.broken("look b")

    await house.worker()
    result = await house.ended_as_undisturbed()
    assert len(house.outside.requests) == result.model_calls == 3
