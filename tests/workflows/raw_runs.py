"""Runs as Temporal sees them, past the typed client: started and asked with whatever a test likes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError

from longshift import contracts
from longshift.contracts import RunResult
from longshift.run_input import RunInput
from longshift.view import StateView
from store.journal import Journal
from tests.workflows.running import GIVEN

Seen = TypeVar("Seen")

Handle = WorkflowHandle[Any, RunResult]


def given(**limits: Any) -> RunInput:
    """GIVEN with limits."""
    return GIVEN.model_copy(update={"limits": limits})


async def started(
    client: Client, queue: str, given: RunInput = GIVEN, *, run_id: str | None = None, start_signal: str | None = None
) -> Handle:
    """A run, under its queue's name unless `run_id` says another."""
    return await client.start_workflow(
        contracts.WORKFLOW,
        given,
        id=run_id or queue,
        task_queue=queue,
        result_type=RunResult,
        start_signal=start_signal,
    )


async def ended(handle: Handle) -> RunResult:
    """The run's result, whatever its status."""
    async with asyncio.timeout(60):
        try:
            return await handle.result()
        except WorkflowFailureError as error:
            if not isinstance(error.cause, ApplicationError) or not error.cause.details:
                raise
            return RunResult.model_validate(error.cause.details[0])


async def until(look: Callable[[], Awaitable[Seen]]) -> Seen:
    """Look until there is something to see, and return it."""
    async with asyncio.timeout(30):
        while True:  # what a server holds can only be asked for
            seen = await look()
            if seen:
                return seen
            await asyncio.sleep(0.05)


async def until_waiting(handle: Handle, what: str) -> None:
    """Wait until the run waits for something."""

    async def look() -> bool:
        seen = await handle.query(contracts.STATE, result_type=StateView)
        return seen.status == "WAITING" and what in (seen.waiting_for or "")

    await until(look)


async def details(journal_url: str, run_id: str) -> dict[str, str]:
    """The detail of the last decision of each kind that the journal holds."""
    journal = await Journal.open(journal_url)
    try:
        return {decision.kind: decision.detail for decision in await journal.decisions(run_id)}
    finally:
        await journal.close()
