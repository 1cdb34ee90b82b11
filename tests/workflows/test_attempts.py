"""What an operator has done again in Temporal: an activity, or a whole run under its old id."""

from functools import partial

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflowservice.v1 import PauseActivityRequest, UnpauseActivityRequest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from longshift import contracts
from longshift.status import Status
from store.journal import Journal
from tests.workflows.raw_runs import Handle, ended, started, until
from tests.workflows.running import PARROT, Script, shop_open

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def paused(handle: Handle) -> bool:
    """Whether the activity that a run waits for is paused, and no worker has it."""
    pending = (await handle.describe()).raw_description.pending_activities
    return [one.state for one in pending] == [PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED]


async def test_a_model_call_whose_attempts_are_set_back_is_not_sent_again_but_another_one_is_admitted(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script("Hello.", held=[1])
    run, call = WorkflowExecution(workflow_id=queue), contracts.CALL_MODEL
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue)
        await model.asked(1)
        await client.workflow_service.pause_activity(
            PauseActivityRequest(namespace=client.namespace, execution=run, type=call)
        )
        await until(partial(paused, handle))
        model.let_go(1)
        await client.workflow_service.unpause_activity(
            UnpauseActivityRequest(namespace=client.namespace, execution=run, type=call, reset_attempts=True)
        )
        end = await ended(handle)
    assert (end.status, end.model_calls, len(model.requests)) == (Status.COMPLETED, 2, 2)
    journal = await Journal.open(journal_url)
    assert [row.state for row in await journal.model_calls(queue)] == ["failed", "answered"]
    await journal.close()


async def test_a_run_that_is_started_anew_under_an_old_id_does_not_get_the_old_one_s_answer(
    client: Client, queue: str, journal_url: str
) -> None:
    """The server lets it be started, since the old one has ended or its history is gone; the journal knows it."""
    async with shop_open(client, queue, journal_url, PARROT, Script("Last week's.")):
        assert (await ended(await started(client, queue))).answer == "Last week's."
    async with shop_open(client, queue, journal_url, PARROT, Script("This week's.")):
        with pytest.raises(WorkflowFailureError) as refused:
            await ended(await started(client, queue))
        assert isinstance(refused.value.cause, ApplicationError)
        assert refused.value.cause.type == contracts.INPUT_REFUSED
        assert f"run '{queue}' stands in the journal as another run" in refused.value.cause.message
        assert "start the new one under another id" in refused.value.cause.message
        other = await ended(await started(client, queue, run_id=f"{queue}-2"))
    assert other.answer == "This week's."
