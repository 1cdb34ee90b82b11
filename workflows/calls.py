"""The activities as the workflow calls them: typed reference, time-outs, retry policy, cancellation and summary.

The bodies stand in `activities/`; one test holds both sides against each other. Every policy is written out, since
Temporal's own default retries without end.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import ValidationError
from temporalio import activity, workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.workflow import ActivityCancellationType, ActivityHandle

from longshift import contracts
from longshift.batches import Planned
from longshift.contracts import (
    CalledModel,
    CallModel,
    CheckAttributes,
    CheckedAttributes,
    CloseRun,
    OpenedRun,
    OpenRun,
    RanTool,
    RunSpec,
    RunTool,
    SettledEffect,
    SettleEffect,
)
from longshift.state import MAX_DURATION
from workflows import summaries

Result = TypeVar("Result")

ONCE = RetryPolicy(maximum_attempts=1)
"""For what must be admitted or judged before it is tried again."""
RECORDING = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=0,
)
"""For journal work, which is idempotent: tried until its time is up."""
READING = RetryPolicy(
    initial_interval=timedelta(milliseconds=500),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=10),
    maximum_attempts=4,
)
"""For reads, which may run again."""
READING_LAST = replace(READING, non_retryable_error_types=["TemporalTimeout:StartToClose"])
"""For reads that may take all the working time that is left: an attempt whose time ran out has used it up. Where less
than that is a read's own time, its handler was over before, and what was lost is a worker or a journal."""
MODEL_MARGIN = 10.0
"""Seconds beyond the endpoint's own time-out for reading and writing the journal."""
TAKEN_SECONDS = 600.0
"""Seconds for a worker to take an effect, doubled for each dispatch that none took. Past them it surely did not run,
and the history says so; a busy queue must not send it to the queue's end for ever."""
HASTY_SECONDS = 30.0
"""Seconds to ask the ledger of an effect once the run must end."""
SETTLE_MARGIN = 60.0
"""Seconds for one attempt to settle an effect, beyond the time for which its handler may still be at work."""
CLOSE_SECONDS = 600.0
"""Seconds to try to record the end of a run; past them the run ends all the same and its result says so."""
OPEN_ATTEMPT_SECONDS = 60.0
"""Seconds for one attempt at opening or closing a run."""
OPEN_HEARTBEAT_SECONDS = 10.0
"""Seconds without a sign of life before an opening is tried again; the workers' own setting is not known yet."""
CHECK_SECONDS = 2.0
"""Seconds for the server to say which search attributes it knows; the workflow task at hand waits for it."""
MAX_WHY = 300
"""Characters of what is said of a result that does not fit."""
CLOCK_MARGIN = 0.002
"""Seconds added to every time-out: Temporal counts in whole milliseconds, and takes none of zero."""


@activity.defn(name=contracts.OPEN_RUN)
async def open_run(request: OpenRun) -> OpenedRun:
    """Resolve the agent and begin the journal."""
    raise NotImplementedError


@activity.defn(name=contracts.CALL_MODEL)
async def call_model(request: CallModel) -> CalledModel:
    """Send one admitted model call."""
    raise NotImplementedError


@activity.defn(name=contracts.RUN_TOOL)
async def run_tool(request: RunTool) -> RanTool:
    """Run one admitted tool call."""
    raise NotImplementedError


@activity.defn(name=contracts.SETTLE_EFFECT)
async def settle_effect(request: SettleEffect) -> SettledEffect:
    """Find out what came of an effect."""
    raise NotImplementedError


@activity.defn(name=contracts.CLOSE_RUN)
async def close_run(request: CloseRun) -> None:
    """Record the end of a run."""
    raise NotImplementedError


@activity.defn(name=contracts.CHECK_ATTRIBUTES)
async def check_attributes(request: CheckAttributes) -> CheckedAttributes:
    """Find out whether the server knows the search attributes."""
    raise NotImplementedError


class Pending(Generic[Result]):
    """An activity under way. Its result is read where it is awaited: Temporal, which reads it before that, would fail
    the workflow task for ever by one that does not fit, and anybody may complete an activity by hand."""

    def __init__(self, reference: Callable[[Any], Awaitable[Result]], handle: ActivityHandle[RawValue | None]) -> None:
        self._reference, self._handle = reference, handle
        self.done, self.cancel = handle.done, handle.cancel

    def __await__(self) -> Generator[Any, None, Result]:
        """Its result. Raises ActivityError, also for a result that does not fit: of RESULT_MISFIT."""
        given = yield from self._handle.__await__()
        return _fitting(self._reference, given)


@cache
def _result_type(reference: Callable[[Any], Awaitable[Any]]) -> Any:
    return get_type_hints(reference)["return"]  # which evaluates every annotation: once, not each step


def _fitting(reference: Callable[[Any], Awaitable[Result]], given: RawValue | None) -> Result:
    """A result as the value that an activity gives. Raises ActivityError where it is none."""
    expected = _result_type(reference)
    value, why = None, "it is nothing"
    try:
        if given is not None:
            value = workflow.payload_converter().from_payload(given.payload, expected)
        if isinstance(value, expected):
            return value  # type: ignore[no-any-return]  # which `expected` says
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        why = f"{'.'.join(map(str, first['loc'])) or 'value'}: {first['msg']}"
    except Exception as error:  # a converter may raise anything
        why = type(error).__name__
    name = reference.__name__
    text = f"the result of {name} is none that it gives, as where it was completed by hand: {why}"[:MAX_WHY]
    raise ActivityError(
        "the activity's result does not fit",
        scheduled_event_id=0,
        started_event_id=0,
        identity="",
        activity_type=name,
        activity_id="",
        retry_state=None,
    ) from ApplicationError(text, type=contracts.RESULT_MISFIT, non_retryable=True)


def start_open_run(request: OpenRun) -> Pending[OpenedRun]:
    """Start `open_run`, which is tried until the workflow gives it up."""
    return Pending(
        open_run,
        workflow.start_activity(
            contracts.OPEN_RUN,
            request,
            result_type=RawValue,
            activity_id="open",
            start_to_close_timeout=_duration(OPEN_ATTEMPT_SECONDS),
            schedule_to_close_timeout=_duration(MAX_DURATION),
            heartbeat_timeout=timedelta(seconds=OPEN_HEARTBEAT_SECONDS),
            retry_policy=RECORDING,
            cancellation_type=ActivityCancellationType.TRY_CANCEL,
            summary=summaries.opening(request),
        ),
    )


def start_call_model(
    request: CallModel, spec: RunSpec, seconds: float, dispatch: int, summary: str
) -> Pending[CalledModel]:
    """Start `call_model`. The deadline is not among its time-outs: it may be moved while the call is out.

    Args:
        seconds: the longest it may work, beside the endpoint's own time-out.
        dispatch: 0, or how often this very call was handed out before because a worker was lost.
    """
    return Pending(
        call_model,
        workflow.start_activity(
            contracts.CALL_MODEL,
            request,
            result_type=RawValue,
            activity_id=f"model-{request.number}{_again(dispatch)}",
            start_to_close_timeout=_duration(min(spec.endpoint.timeout_seconds + MODEL_MARGIN, seconds)),
            schedule_to_close_timeout=_duration(MAX_DURATION),
            heartbeat_timeout=timedelta(seconds=spec.heartbeat_seconds),
            retry_policy=ONCE,
            cancellation_type=ActivityCancellationType.TRY_CANCEL,
            summary=summary,
        ),
    )


def start_run_tool(request: RunTool, planned: Planned, spec: RunSpec, seconds: float) -> Pending[RanTool]:
    """Start `run_tool`: a read may be retried and abandoned, an effect neither.

    Args:
        seconds: the longest it may work, beside the tool's own time-out.
    """
    effect = planned.alone
    tool_seconds = planned.tool.timeout_seconds if planned.tool else OPEN_ATTEMPT_SECONDS
    return Pending(
        run_tool,
        workflow.start_activity(
            contracts.RUN_TOOL,
            request,
            result_type=RawValue,
            activity_id=f"tool-{request.model_call}.{request.position}{_again(request.dispatch)}",
            schedule_to_start_timeout=_duration(TAKEN_SECONDS * 2.0 ** min(request.dispatch, 16)) if effect else None,
            start_to_close_timeout=_duration(min(tool_seconds + contracts.TOOL_MARGIN, seconds)),
            schedule_to_close_timeout=_duration(MAX_DURATION),
            heartbeat_timeout=timedelta(seconds=spec.heartbeat_seconds),
            retry_policy=ONCE if effect else (READING if tool_seconds < seconds else READING_LAST),
            cancellation_type=(
                ActivityCancellationType.WAIT_CANCELLATION_COMPLETED if effect else ActivityCancellationType.TRY_CANCEL
            ),
            summary=summaries.tool_call(request, effect=effect),
        ),
    )


def start_settle_effect(
    request: SettleEffect, spec: RunSpec, planned: Planned, times_before: int
) -> Pending[SettledEffect]:
    """Start `settle_effect`, which is tried until the workflow gives it up.

    Args:
        times_before: how often it was started before for this call.
    """
    call = request.call
    tool_seconds = planned.tool.timeout_seconds if planned.tool else OPEN_ATTEMPT_SECONDS
    what = "settle" if request.resolution is None else "resolve"
    return Pending(
        settle_effect,
        workflow.start_activity(
            contracts.SETTLE_EFFECT,
            request,
            result_type=RawValue,
            activity_id=f"{what}-{call.model_call}.{call.position}{_again(times_before)}",
            start_to_close_timeout=_duration(tool_seconds + contracts.TOOL_MARGIN + SETTLE_MARGIN),
            schedule_to_close_timeout=_duration(MAX_DURATION if request.patient else HASTY_SECONDS),
            heartbeat_timeout=timedelta(seconds=spec.heartbeat_seconds),
            retry_policy=RECORDING,
            cancellation_type=ActivityCancellationType.TRY_CANCEL,
            summary=summaries.settling(request),
        ),
    )


def start_close_run(request: CloseRun, spec: RunSpec) -> Pending[None]:
    """Start `close_run`."""
    return Pending(
        close_run,
        workflow.start_activity(
            contracts.CLOSE_RUN,
            request,
            result_type=RawValue,
            activity_id="close",
            start_to_close_timeout=_duration(OPEN_ATTEMPT_SECONDS),
            schedule_to_close_timeout=_duration(CLOSE_SECONDS),
            heartbeat_timeout=timedelta(seconds=spec.heartbeat_seconds),
            retry_policy=RECORDING,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=summaries.closing(request.result),
        ),
    )


async def check_attributes_now(request: CheckAttributes) -> CheckedAttributes:
    """Have `check_attributes` done within the workflow task at hand. Raises ActivityError."""
    return await workflow.execute_local_activity(
        check_attributes,
        request,
        start_to_close_timeout=_duration(CHECK_SECONDS),
        schedule_to_close_timeout=_duration(2 * CHECK_SECONDS),
        retry_policy=ONCE,
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
        summary="does the server know the search attributes?",
    )


def _again(times_before: int) -> str:
    return f"{contracts.AGAIN}{times_before}" if times_before else ""


def _duration(seconds: float) -> timedelta:
    """A time-out that does not fire before the workflow's clock has passed the deadline it stands for."""
    return timedelta(seconds=min(max(seconds, 0.0), MAX_DURATION) + CLOCK_MARGIN)
