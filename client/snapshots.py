"""How a run stands, seen from outside: by the server at once, and by a worker where one answers in time."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution as ExecutionProto
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowQueryFailedError,
)
from temporalio.service import RPCError, RPCStatusCode

from client.ending import ending
from client.errors import NoSuchRun, Refused, Unreadable, rpc_border
from client.history import converter_of, failure_of, happening
from client.story import short
from longshift import contracts
from longshift.contracts import RunResult, StateView
from longshift.status import Status

ANSWER_SECONDS = 2.0
"""Seconds a worker has to answer a question; one that is up takes milliseconds, and up to a second after another
worker died."""
LATEST_EVENTS = 50
"""Events looked through, from the latest back, for the failure that keeps a run from going on."""


@dataclass(frozen=True)
class Snapshot:
    """How a run stands."""

    run_id: str
    status: str
    """RUNNING, WAITING, STUCK or NO_WORKER while it has not ended (in a list, where no worker is asked: never
    NO_WORKER); then its end status, or InputRefused where no shift began."""
    detail: str
    """A sentence: what it waits for, or how it ended; else empty."""
    started: datetime
    """When the run began; after continue-as-new, in a list, when the latest run of its chain did."""
    closed: datetime | None
    memo: Mapping[str, Any]
    """`goal`, `agent`, and what the run wrote beside them: `endpoint`, `model`, `status`, `detail`."""
    stuck: str | None = None
    """Why the run does not go on by itself, or an activity is tried again and again, with the remedy."""
    view: StateView | None = None
    """The worker's answer, where one came in time."""
    result: RunResult | None = None
    """The end of a run that was asked for by its id."""


async def describe(client: Client, run_id: str) -> WorkflowExecutionDescription:
    """What the server knows of a run.

    Raises NoSuchRun for an unknown id, and for a workflow that is none of ours.
    """
    with rpc_border(run_id):
        description = await client.get_workflow_handle(run_id).describe()
    if description.workflow_type != contracts.WORKFLOW:
        raise NoSuchRun(run_id)
    return description


async def snapshot(client: Client, run_id: str) -> Snapshot:
    """How a run stands. Answers within ANSWER_SECONDS of the server's own answer.

    Raises NoSuchRun.
    """
    description = await describe(client, run_id)
    if description.close_time is not None:
        return await ended(client, description)
    seen = await working(client, description)
    if seen.status not in ("RUNNING", "WAITING"):
        return seen
    view, why = await _ask(client, run_id)
    if view is None:
        return replace(seen, status="RUNNING" if why else "NO_WORKER", stuck=why or seen.stuck)
    status = "RUNNING" if view.status == "ENDED" else view.status
    started = datetime.fromtimestamp(view.started_at, tz=seen.started.tzinfo)
    return replace(seen, status=status, detail=view.waiting_for or "", view=view, started=started)


async def working(client: Client, description: WorkflowExecutionDescription) -> Snapshot:
    """How a run stands that has not ended, without asking a worker."""
    memo = await description.memo()
    status, stuck = "WAITING" if memo.get("status") == "WAITING" else "RUNNING", None
    if description.status is not WorkflowExecutionStatus.RUNNING and description.status is not None:
        status, stuck = description.status.name, "an operator holds the workflow; release it in the Temporal UI"
    elif description.raw_description.pending_workflow_task.attempt > 1:
        stuck = await _task_failure(client, description)
        status = "STUCK" if stuck else status
    return Snapshot(
        run_id=description.id,
        status=status,
        detail=str(memo.get("detail", "")) if status == "WAITING" else "",
        started=description.start_time,
        closed=None,
        memo=memo,
        stuck=stuck or await _activity_failure(client, description),
    )


async def ended(client: Client, execution: WorkflowExecution) -> Snapshot:
    """How a run ended."""
    result: RunResult | None = None
    try:
        result = await ending(client, execution.id)
        status, detail = result.status.value, result.detail
    except (Refused, Unreadable) as error:
        status, detail = contracts.INPUT_REFUSED if isinstance(error, Refused) else "FAILED", str(error)
    return Snapshot(
        run_id=execution.id,
        status=status,
        detail=detail,
        started=execution.start_time,
        closed=execution.close_time,
        memo=await execution.memo(),
        result=result,
    )


async def listed(client: Client, execution: WorkflowExecution) -> Snapshot | None:
    """How a run of a list stands: an ended one by its memo, where that says how it ended. None where it is gone."""
    if execution.close_time is None:
        try:
            execution = description = await describe(client, execution.id)
        except NoSuchRun:
            return None
        if description.close_time is None:
            return await working(client, description)
    memo = await execution.memo()
    told = memo.get("status") in Status.__members__ and execution.status in (
        WorkflowExecutionStatus.COMPLETED,
        WorkflowExecutionStatus.FAILED,
        WorkflowExecutionStatus.CANCELED,
    )
    if not told:
        return await ended(client, execution)
    return Snapshot(
        run_id=execution.id,
        status=str(memo["status"]),
        detail=str(memo.get("detail", "")),
        started=execution.start_time,
        closed=execution.close_time,
        memo=memo,
    )


async def _ask(client: Client, run_id: str) -> tuple[StateView | None, str | None]:
    """The worker's answer, or None and, where a worker did answer, why it is none."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            handle = client.get_workflow_handle(run_id)
            view = await handle.query(contracts.STATE, result_type=StateView)
            return view, None
    except TimeoutError:
        return None, None
    except WorkflowQueryFailedError as error:
        return None, f"the worker cannot tell the state: {short(error.message)}; use workers of this version"
    except RPCError as error:
        if error.status in (RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.DEADLINE_EXCEEDED):
            return None, None
        with rpc_border(run_id):
            raise


async def _task_failure(client: Client, description: WorkflowExecutionDescription) -> str | None:
    """Why the workflow's code fails again and again, where that is what keeps it."""
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=ExecutionProto(workflow_id=description.id, run_id=description.run_id),
        maximum_page_size=LATEST_EVENTS,
    )
    with rpc_border(description.id):
        page = await client.workflow_service.get_workflow_execution_history_reverse(request)
    converter = converter_of(client, description.id)
    for event in page.history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            break
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            failed = await happening(event, converter)
            if failed.reason in ("UNHANDLED_COMMAND", "RESET_WORKFLOW"):
                continue
            said = f"{failed.failure.type}: {failed.failure.message}" if failed.failure else failed.reason
            tried = description.raw_description.pending_workflow_task.attempt - 1
            return (
                f"workflow code failed {tried} times with {short(said)}; nothing is lost: "
                "start workers of a version without that fault, and the run goes on"
            )
    return None


async def _activity_failure(client: Client, description: WorkflowExecutionDescription) -> str | None:
    """What an activity fails with that is tried again and again."""
    converter = converter_of(client, description.id)
    for pending in description.raw_description.pending_activities:
        if pending.attempt > 1 and pending.HasField("last_failure"):
            failure = await failure_of(converter, pending.last_failure)
            said = failure.message or failure.type
            return f"{short(pending.activity_id)} failed {pending.attempt - 1} times and is tried again: {short(said)}"
    return None
