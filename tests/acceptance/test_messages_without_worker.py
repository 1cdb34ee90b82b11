"""Messages that are sent while every process but the server is down: they stand in the history, and apply."""

import asyncio

import pytest

from longshift.messages import UserMessage
from longshift.status import Status
from tests.acceptance.shift_house import RUN, House

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


async def down_after_the_second_turn(house: House) -> None:
    """Leave a run whose second turn stands in the journal and whose only worker was killed."""
    house.outside.hold("gate")
    worker = await house.worker("after", "settle_model_call", "2")
    await house.start(model_calls=2)
    await house.outside.came("gate")
    await worker.kill()


async def test_a_run_started_without_a_worker_runs_once_one_comes(house: House) -> None:
    await house.start()
    await house.server.kill()
    await house.server.restart()

    await house.worker()

    result = await house.ended_as_undisturbed()
    assert len(house.outside.requests) == result.model_calls == 3


async def test_a_stop_to_a_run_that_no_worker_ever_saw_ends_it_before_anything_is_sent(house: House) -> None:
    await house.start()
    await (await house.shifts()).stop(RUN, reason="changed my mind")
    await house.server.kill()
    await house.server.restart()

    await house.worker()

    result = await house.result()
    assert (result.status, result.model_calls) == (Status.STOP_REQUESTED, 0)
    assert "changed my mind" in result.detail
    assert house.outside.visits == []


async def test_a_stop_sent_while_only_the_server_is_up_survives_it_and_applies(house: House) -> None:
    await down_after_the_second_turn(house)
    await (await house.shifts()).stop(RUN, reason="enough")
    await house.server.kill()
    await house.server.restart()

    await house.worker()

    result = await house.result()
    assert (result.status, result.model_calls, result.tool_calls) == (Status.STOP_REQUESTED, 2, 1)
    assert "enough" in result.detail
    assert result.unrun_calls == ("call-b", "call-c")
    assert len(house.outside.requests) == 2
    assert len(await house.messages()) == result.messages


async def test_limits_raised_while_only_the_server_is_up_survive_it_and_apply(house: House) -> None:
    await down_after_the_second_turn(house)
    applied = await (await house.shifts()).set_limits(RUN, {"model_calls": 3}, request_id="r-1")
    assert applied.waits_for_worker
    await house.server.kill()
    await house.server.restart()

    await house.worker()

    result = await house.ended_as_undisturbed()
    assert len(house.outside.requests) == result.model_calls == 3
    async with house.journal() as journal:
        kinds = [decision.kind for decision in await journal.decisions(RUN)]
    assert kinds.count("set_limits") == 1


async def test_a_message_told_while_only_the_server_is_up_survives_it_and_is_taken_once(house: House) -> None:
    house.outside.hold("model 1")
    await house.start()
    told = await (await house.shifts()).tell(RUN, "And quickly.", request_id="t-1")
    assert (told.waiting, told.waits_for_worker) == (None, True)
    await house.server.kill()
    await house.server.restart()

    await house.worker()
    await house.outside.came("model 1")
    again = await (await house.shifts()).tell(RUN, "And quickly.", request_id="t-1")
    house.outside.let_go("model 1")

    assert not again.waits_for_worker
    told_once = UserMessage(content="And quickly.")
    await house.ended_as_undisturbed(told=[told_once])
    assert (await house.messages()).count(told_once) == 1


async def test_a_message_told_without_a_worker_is_taken_once_when_one_comes(house: House) -> None:
    """The update waits in the server's memory while it is up, and the signal beside it: both carry one request id."""
    await house.start()
    told = await (await house.shifts()).tell(RUN, "And quickly.")
    assert told.waits_for_worker

    await house.worker()

    told_once = UserMessage(content="And quickly.")
    await house.ended_as_undisturbed(told=[told_once])
    assert (await house.messages()).count(told_once) == 1


async def test_an_update_sent_without_a_worker_is_answered_by_the_one_that_comes(house: House) -> None:
    await house.start(model_calls=2)
    workflow = await house.workflow()
    changing = asyncio.create_task(workflow.execute_update("set_limits", {"model_calls": 3}))

    await house.worker()

    await changing  # what it returns depends on whether the run is open by then
    await house.ended_as_undisturbed()
