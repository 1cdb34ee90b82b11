"""How a run stands, seen from outside: by the server at once, and by a worker where one answers in time."""

import asyncio
from dataclasses import dataclass, replace

from pydantic import ValidationError
from temporalio.api.common.v1 import WorkflowExecution as ExecutionProto
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowQueryFailedError,
)
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from client.ending import ending
from client.errors import NoSuchRun, Refused, Unreadable, rpc_border
from client.history import converter_of, failure_of, happening, values
from client.inert import short
from longshift import attributes, contracts
from longshift.contracts import RunResult
from longshift.questions import Question
from longshift.status import Status
from longshift.view import StateView

WAITS_FOR = SearchAttributeKey.for_keyword(attributes.WAITS_FOR)
ANSWER_SECONDS = 2.0
"""Seconds a worker has to answer a question; one that is up takes milliseconds, and up to a second after another
worker died."""
SAID = 400
"""Characters shown of what an activity says or fails with: it ends with the remedy."""
LATEST_EVENTS = 50
"""Events looked through, from the latest back, for the failure that keeps a run from going on."""


@dataclass(frozen=True)
class Listed:
    """How a run stands, as far as the server knows by itself."""

    run_id: str
    status: str
    """RUNNING, WAITING or STUCK while it has not ended; then its end status, or InputRefused where no shift began."""
    detail: str
    """A sentence: what it waits for, or how it ended; else empty."""
    agent: str
    goal: str
    """The beginning of its task."""
    started_at: float
    """Seconds since the epoch, as all times here."""
    closed_at: float | None
    stuck: str | None
    """Why the run does not go on by itself, or an activity is tried again and again, with the remedy."""
    question: Question | None = None
    """What it asks a person."""


@dataclass(frozen=True)
class Snapshot(Listed):
    """How a run stands that was asked for by its id. Its status can also be NO_WORKER."""

    view: StateView | None = None
    """The worker's answer, where the run is at work and one came in time."""
    result: RunResult | None = None
    """How it ended."""


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
    seen = Snapshot(**vars(await _working(client, description)))
    if seen.status not in ("RUNNING", "WAITING"):
        return seen
    view, why = await _ask(client, run_id)
    if view is None:
        return replace(seen, status="RUNNING" if why else "NO_WORKER", stuck=why or seen.stuck)
    status = "RUNNING" if view.status == "ENDED" else view.status  # its end is not yet recorded
    waits_for = view.waiting_for or await _said_meanwhile(client, description)
    if waits_for:
        status = "WAITING"
    return replace(seen, status=status, detail=waits_for, started_at=view.started_at, question=view.question, view=view)


async def ended(client: Client, execution: WorkflowExecution) -> Snapshot:
    """How a run ended."""
    status, detail, result = await _end(client, execution.id)
    return Snapshot(**vars(await _seen(execution, status, detail)), result=result)


async def listed(client: Client, execution: WorkflowExecution) -> Listed | None:
    """How a run of a list stands: an ended one by its memo, where that says how it ended. None where it is gone."""
    if execution.close_time is None:
        try:
            execution = description = await describe(client, execution.id)
        except NoSuchRun:
            return None
        if description.close_time is None:
            return await _working(client, description)
    memo = await execution.memo()
    by_itself = execution.status in (
        WorkflowExecutionStatus.COMPLETED,
        WorkflowExecutionStatus.FAILED,
        WorkflowExecutionStatus.CANCELED,
    )
    if by_itself and memo.get("status") in Status.__members__:
        return await _seen(execution, str(memo["status"]), str(memo.get("detail", "")))
    status, detail, _ = await _end(client, execution.id)
    return await _seen(execution, status, detail)


async def _end(client: Client, run_id: str) -> tuple[str, str, RunResult | None]:
    try:
        result = await ending(client, run_id)
    except Refused as refused:
        return contracts.INPUT_REFUSED, str(refused), None
    except Unreadable as error:
        return "FAILED", str(error), None
    return result.status.value, result.detail, result


async def _working(client: Client, description: WorkflowExecutionDescription) -> Listed:
    """How a run stands that has not ended, without asking a worker."""
    memo = await description.memo()
    status, stuck = "WAITING" if memo.get("status") == "WAITING" else "RUNNING", None
    if description.status is not WorkflowExecutionStatus.RUNNING and description.status is not None:
        status, stuck = description.status.name, "an operator holds the workflow; release it in the Temporal UI"
    elif description.raw_description.pending_workflow_task.attempt > 1:
        stuck = await _task_failure(client, description)
        status = "STUCK" if stuck else status
    detail = str(memo.get("detail", "")) if status == "WAITING" else ""
    if status == "RUNNING" and (detail := await _said_meanwhile(client, description) or _journal_is_away(description)):
        status = "WAITING"
    return await _seen(description, status, detail, stuck or await _activity_failure(client, description))


def _journal_is_away(description: WorkflowExecutionDescription) -> str:
    """That a run waits for its journal before a step, of which its memo has nothing; empty where it does not, or where
    the server has no search attributes."""
    if description.typed_search_attributes.get(WAITS_FOR) != "journal":
        return ""
    return f"its journal is away; longshift state {short(description.id)} says why, and what helps"


async def _seen(execution: WorkflowExecution, status: str, detail: str, stuck: str | None = None) -> Listed:
    memo = await execution.memo()
    return Listed(
        run_id=execution.id,
        status=status,
        detail=detail,
        agent=str(memo.get("agent", "")),
        goal=str(memo.get("goal", "")),
        started_at=_started(memo.get("started_at"), execution.start_time.timestamp()),
        closed_at=execution.close_time.timestamp() if execution.close_time else None,
        stuck=stuck,
        question=_question(memo.get("question")) if execution.close_time is None else None,
    )


def _started(given: object, latest: float) -> float:
    """When a run began: as its memo says, where that is no later than the latest run of its chain."""
    return float(given) if isinstance(given, int | float) and 0 < given <= latest else latest


def _question(given: object) -> Question | None:
    """The question in a memo; None where there is none, or one that this version does not understand."""
    try:
        return Question.model_validate(given)
    except ValidationError:
        return None


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


async def _said_meanwhile(client: Client, description: WorkflowExecutionDescription) -> str:
    """What an activity waits for, such as a journal that is away: the sentence in its latest heartbeat, or, where it is
    tried again until the journal is there, the one it failed with. Empty where none says anything."""
    converter = converter_of(client, description.id)
    for pending in description.raw_description.pending_activities:
        for said in await values(converter, pending.heartbeat_details.payloads):
            if isinstance(said, str) and said:
                return short(said, SAID)
        if _waits_for_journal(pending):
            return short((await failure_of(converter, pending.last_failure)).message, SAID)
    return ""


def _waits_for_journal(pending: PendingActivityInfo) -> bool:
    return pending.attempt > 1 and pending.last_failure.application_failure_info.type == contracts.JOURNAL_AWAY


async def _activity_failure(client: Client, description: WorkflowExecutionDescription) -> str | None:
    """What an activity fails with that is tried again and again, and is not told as what the run waits for."""
    converter = converter_of(client, description.id)
    for pending in description.raw_description.pending_activities:
        if pending.attempt > 1 and pending.HasField("last_failure") and not _waits_for_journal(pending):
            failure = await failure_of(converter, pending.last_failure)
            said = failure.message or failure.type
            tried = f"{pending.attempt - 1} times" if pending.attempt > 2 else "once"
            return f"{short(pending.activity_id)} failed {tried} and is tried again: {short(said, SAID)}"
    return None
