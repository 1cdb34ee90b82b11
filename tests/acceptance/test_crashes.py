"""A shift whose processes are killed ends as it would have: same transcript, no turn paid for twice."""

import asyncio
import os
import signal

import pytest

from tests.acceptance.shift_house import House

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


async def test_a_shift_that_nothing_disturbs(house: House) -> None:
    await house.worker()
    await house.start()

    await house.ended_as_undisturbed()

    assert house.outside.visits == ["model 1", "look a", "model 2", "look b", "look c", "model 3"]


# The worker


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


# The server


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


# An orderly end of the worker


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
