"""A shift that is stopped, cancelled or terminated while something is out leaves a truthful record."""

import pytest
from temporalio.api.enums.v1 import EventType

from longshift import validate_episode
from longshift.status import Status
from tests.acceptance.shift_house import House

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


@pytest.fixture
def house(house_on_shared_server: House) -> House:
    """Nobody kills its server here."""
    return house_on_shared_server


@pytest.mark.parametrize("held", ["model 2", "look b"])
async def test_a_stop_now_ends_at_once_and_breaks_off_what_is_out(house: House, held: str) -> None:
    house.outside.hold(held)
    await house.worker()
    await house.start()
    await house.outside.came(held)

    await (await house.shifts()).stop(house.run_id, mode="now", reason="enough")

    result = await house.result()
    await house.outside.broken(held)
    assert result.status is Status.STOP_REQUESTED
    assert "enough" in result.detail
    history = await (await house.workflow()).fetch_history()
    cancels = [e for e in history.events if e.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED]
    assert cancels
    async with house.journal() as journal:
        run = await journal.run(house.run_id)
        assert run is not None
        assert (run.status, run.digest) == ("STOP_REQUESTED", result.digest)
    report = validate_episode(await house.messages())
    assert (report.problem, report.unanswered) == (None, result.unrun_calls)
    assert result.unrun_calls == (("call-b", "call-c") if held == "look b" else ())


async def test_a_graceful_stop_waits_for_what_is_out_and_uses_it(house: House) -> None:
    house.outside.hold("model 2")
    await house.worker()
    await house.start()
    await house.outside.came("model 2")
    shifts = await house.shifts()

    await shifts.stop(house.run_id, reason="enough")
    seen = await shifts.state(house.run_id)
    assert seen.status == "RUNNING"
    house.outside.let_go("model 2")

    result = await house.result()
    assert (result.status, result.model_calls, result.tool_calls) == (Status.STOP_REQUESTED, 2, 1)
    assert result.unrun_calls == ("call-b", "call-c")
    assert [message.role for message in await house.messages()][-1] == "assistant"


async def test_a_cancelled_workflow_ends_as_cancelled_and_is_recorded_as_stopped(house: House) -> None:
    house.outside.hold("model 2")
    await house.worker()
    await house.start()
    await house.outside.came("model 2")

    workflow = await house.workflow()
    await workflow.cancel(reason="by the operator")

    result = await house.result()
    await house.outside.broken("model 2")
    described = await workflow.describe()
    assert described.status is not None
    assert described.status.name == "CANCELED"
    assert result.status is Status.STOP_REQUESTED
    assert "by the operator" in result.detail
    async with house.journal() as journal:
        run = await journal.run(house.run_id)
    assert run is not None
    assert (run.status, run.detail) == ("STOP_REQUESTED", result.detail)


async def test_a_terminated_workflow_leaves_its_run_open_and_breaks_off_what_is_out(house: House) -> None:
    house.outside.hold("model 2")
    await house.worker()
    await house.start()
    await house.outside.came("model 2")

    workflow = await house.workflow()
    await workflow.terminate(reason="by the operator")

    await house.outside.broken("model 2")
    result = await house.result()
    described = await workflow.describe()
    assert described.status is not None
    assert described.status.name == "TERMINATED"
    assert result.status is Status.TERMINATED
    async with house.journal() as journal:
        run = await journal.run(house.run_id)
    assert run is not None
    assert (run.status, run.closed_at) == (None, None)
