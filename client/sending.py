"""Sending a message to a run: only to one that has not ended, and so that it is never lost."""

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import JsonValue
from temporalio.client import Client, RPCTimeoutOrCancelledError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from client.errors import NoSuchRun, Refused, rpc_border
from client.snapshots import describe, ended

UPDATE_SECONDS = 3.0
"""Seconds a worker has to answer a change; then it is sent as a signal, and the person told that none is up."""

Answer = TypeVar("Answer")


class Unanswered(Exception):
    """No worker answers now."""


async def refuse_ended(client: Client, run_id: str) -> None:
    """Raise Refused when the run has ended, NoSuchRun when there is none."""
    description = await describe(client, run_id)
    if description.close_time is not None:
        end = await ended(client, description)
        raise Refused(f"run {run_id} has ended with {end.status}; nothing was sent. See: longshift result {run_id}")


async def signal(client: Client, run_id: str, name: str, *values: Any) -> None:
    """Send a signal, which waits for a worker where none is up. Raises as `refuse_ended`."""
    await refuse_ended(client, run_id)
    try:
        with rpc_border(run_id):
            await client.get_workflow_handle(run_id).signal(name, args=values)
    except NoSuchRun:
        await refuse_ended(client, run_id)  # it ended meanwhile
        raise


async def update(
    client: Client, run_id: str, name: str, message: Mapping[str, JsonValue], update_id: str, answer: type[Answer]
) -> Answer | None:
    """Send an update. Returns the worker's answer.

    Raises Unanswered where no worker answers in time, Refused when the run refuses the message; else as
    `refuse_ended`.
    """
    await refuse_ended(client, run_id)
    handle = client.get_workflow_handle(run_id)
    deadline = asyncio.timeout(UPDATE_SECONDS)
    try:
        with rpc_border(run_id):
            async with deadline:
                done: Answer | None = await handle.execute_update(name, message, id=update_id, result_type=answer)
                return done
    except WorkflowUpdateFailedError as error:
        await refuse_ended(client, run_id)
        cause = error.cause
        raise Refused(cause.message if isinstance(cause, ApplicationError) else str(cause)) from None
    except (RPCTimeoutOrCancelledError, TimeoutError):
        if not deadline.expired():
            raise asyncio.CancelledError from None  # Temporal's client wraps our caller's cancellation
        raise Unanswered from None
    except NoSuchRun:
        await refuse_ended(client, run_id)  # it ended meanwhile
        raise


async def change(
    client: Client, run_id: str, name: str, message: Mapping[str, JsonValue], update_id: str, answer: type[Answer]
) -> tuple[Answer | None, bool]:
    """Send an update, or the signal of the same name where no worker answers in time.

    An update that no worker took is lost when the server restarts; a signal is not. Where a worker takes both, the
    first counts, and the message must make the second harmless.

    Returns: the worker's answer, and whether the message waits for a worker instead.

    Raises as `update`, but for Unanswered.
    """
    try:
        return await update(client, run_id, name, message, update_id, answer), False
    except Unanswered:
        await signal(client, run_id, name, message)
        return None, True
