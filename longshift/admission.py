"""Admission: whether the next step may begin, in the order of the rules, and why not.

Every rule that can end a run before a step stands in this file; the rules for what came back stand in
judgement.py. All of them are plain functions of the state and a clock that is handed in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from longshift.context import SummaryCall, Window, fitting, summary_call
from longshift.limits import cents
from longshift.messages import UserMessage, Weight, weigh
from longshift.state import MAX_DURATION, Answer, RunState
from longshift.status import WAITABLE, Status

_REPORT = (
    "so this is the last reply of this run. No tool can be called any more. "
    "Report what was done, what was found and what is left open."
)
"""How every notice of a wrap-up ends."""


@dataclass(frozen=True)
class End:
    """The run ends, and why."""

    status: Status
    detail: str
    answer: Answer | None = None
    partial: Answer | None = None
    """The report of a wrap-up."""


WaitsFor = Literal["resume", "limit", "fund", "journal", "approval", "outcome"]
"""What can let a waiting run go on, in one word."""


@dataclass(frozen=True)
class Hold:
    """The run waits, at most until the deadline, for something from outside."""

    kind: WaitsFor
    reason: str
    """What it waits for, in words."""
    remedy: str
    """What a person can do."""
    status: Status | None = None
    """The limit that holds it, if one does."""


@dataclass(frozen=True)
class Allowance:
    """A model call may begin."""

    output_tokens: int
    seconds: float
    """Seconds the call may take at most."""
    appending: tuple[UserMessage, ...] = ()
    """Messages to append first: users' messages that waited, and the notice of a wrap-up."""
    wrap_up: Status | None = None
    """Set for the last call that the limits leave, which is sent without tools: the limit it will end by."""
    window: Window | None = None
    """What of the transcript is sent from this call on, where the agent's policy leaves some of it out."""
    summary: SummaryCall | None = None
    """Set where this call has older exchanges summarized, before the call that the run is about can be made."""


def stopped(state: RunState) -> End | None:
    """The end by a stop request, if there is one."""
    if state.stop is None:
        return None
    how = "the workflow was cancelled" if state.stop.cancelled else f"a stop ({state.stop.mode}) was requested"
    return End(Status.STOP_REQUESTED, f"{how}{': ' + state.stop.reason if state.stop.reason else ''}")


def not_opened(state: RunState, now: float) -> End:
    """The end of a run that could not be opened in time, or while it was asked to stop."""
    late = End(Status.TIME_LIMIT, f"{now - state.started_at:.1f} seconds passed and the run could not be opened")
    return stopped(state) or late


def out_of_time(state: RunState, now: float) -> End | None:
    """The end by the deadline, or by the working time."""
    if now >= state.deadline:
        return End(Status.TIME_LIMIT, f"{now - state.started_at:.1f} of {_figure(state.limits.seconds)} seconds passed")
    allowed = state.limits.working_seconds
    worked = state.working_milliseconds / 1000
    if allowed is not None and worked >= allowed:
        return End(Status.TIME_LIMIT, f"{worked:.1f} of {_figure(allowed)} working seconds used")
    return None


def _figure(seconds: float) -> str:
    """A limit as it was set, with every digit, and as an integer where it is one."""
    return repr(float(seconds)).removesuffix(".0")


def barred(state: RunState, now: float) -> End | None:
    """What ends a run at any admission point, whatever is asked for: a stop request, then its time."""
    return stopped(state) or out_of_time(state, now)


def _paused(state: RunState) -> Hold | None:
    return Hold("resume", "paused", "resume it, or stop it") if state.paused else None


def before_model_call(state: RunState, now: float) -> Allowance | Hold | End:
    """Stop requested? Out of time? Paused? Then the limits, in order. Pure: counters advance with the call."""
    held_up = barred(state, now) or _paused(state)
    if held_up:
        return held_up
    wrap_up = _last_call(state)
    appending = [UserMessage(content=text) for text in state.tells]
    if wrap_up and not state.wrapped_up:
        appending.append(UserMessage(content=_notice(state, wrap_up)))
    weights = [weigh(message) for message in appending]
    window = _fitting(state, weights)
    reached = _limit_reached(state, weights, window)
    if reached:
        return held(state, reached)
    tokens, seconds = _tokens_allowed(state), working_left(state)
    summary = _summary(state, weights) if window is not state.window else None
    if summary:
        return Allowance(tokens, seconds, window=state.window, summary=summary)
    return Allowance(tokens, seconds, tuple(appending), wrap_up, window)


def before_tool_call(state: RunState, now: float, count: int = 1) -> Hold | End | None:
    """Whether the next `count` tool calls of an accepted batch may begin; None when they may.

    The batch was within its limit when it was accepted; the limit may have been lowered since. An effect that a person
    is asked about waits for the answer.
    """
    held_up = barred(state, now) or _paused(state)
    if held_up:
        return held_up
    used, limit = state.tool_calls, state.limits.tool_calls
    if used + count > limit:
        return held(state, End(Status.TOOL_LIMIT, f"{used} of {limit} tool calls used, and the batch is not done"))
    return unanswered(state)


def unanswered(state: RunState) -> Hold | None:
    """The question that a person has not answered yet."""
    asked = state.question
    if asked is None or state.persons_answer is not None:
        return None
    if asked.kind == "approval":
        what = f"approval of {asked.name} {asked.arguments} ({asked.why})"
        remedy = "longshift approve or deny"
    else:
        what, remedy = asked.why, "longshift resolve"
    return Hold(asked.kind, what, f"{remedy} {state.run_id} {asked.call_id}")


def held(state: RunState, end: End) -> Hold | End:
    """With `on_limit = "wait"`, the limits that can be raised hold the run instead of ending it."""
    if state.limits.on_limit == "wait" and end.status in WAITABLE:
        return Hold("limit", f"{end.status}: {end.detail}", "raise the limit, or stop it", end.status)
    return end


def untaken(state: RunState) -> list[str]:
    """Users' messages that no model call took, the oldest first: those that were taken in for one that was not made or
    did not come back, and those that wait. The notice of a wrap-up is none."""
    entered = [entry.message for entry in state.entries if isinstance(entry.message, UserMessage)]
    return [message.content for message in entered if not message.content.endswith(_REPORT)] + state.tells


def _fitting(state: RunState, appending: Sequence[Weight]) -> Window | None:
    """What is to be sent, by the agent's policy."""
    if state.window is None:
        return None
    return fitting(state.window, appending, state.context_bytes_with, state.limits.context_bytes)


def _summary(state: RunState, appending: Sequence[Weight]) -> SummaryCall | None:
    """The call that has what leaves the window summarized, where the policy asks for it and the limits leave a further
    call, and one more for a wrap-up's report: of the last one nothing is spent on a summary."""
    limits, window = state.limits, state.window
    further = 2 if limits.wraps_up else 1
    tokens_left = limits.total_output_tokens - state.output_tokens
    if (
        window is None
        or not window.summarize
        or state.model_calls + further >= limits.model_calls
        or tokens_left <= further * limits.output_tokens
        or state.exposure + (1 + further) * limits.estimate > limits.budget
    ):
        return None
    measure, allowed = state.context_bytes_with, _tokens_allowed(state)
    return summary_call(window, appending, measure, limits.context_bytes, allowed)


def _limit_reached(state: RunState, appending: Sequence[Weight], window: Window | None) -> End | None:
    limits = state.limits
    if state.model_calls >= limits.model_calls:
        return End(Status.MODEL_CALL_LIMIT, f"{state.model_calls} of {limits.model_calls} model calls used")
    context = state.context_bytes_with(appending, window)
    if context > limits.context_bytes:
        least = "" if window is None else ", with nothing but the latest exchange"
        needed = f"{context} of {limits.context_bytes} context bytes"
        return End(Status.CONTEXT_LIMIT, f"the next call needs {needed}{least}")
    if _tokens_allowed(state) <= 0:
        used, total = state.output_tokens, limits.total_output_tokens
        return End(Status.TOKEN_LIMIT, f"{used} of {total} output tokens used")
    if state.exposure + limits.estimate > limits.budget:
        would = cents(state.exposure + limits.estimate)
        budget = f"{would} of {cents(limits.budget)} cents"
        return End(Status.MODEL_COST_LIMIT, f"the next call would bring the exposure to {budget}")
    if state.tool_calls > limits.tool_calls:  # lowered below what is used
        return End(Status.TOOL_LIMIT, f"{state.tool_calls} of {limits.tool_calls} tool calls used")
    return None


def _tokens_allowed(state: RunState) -> int:
    return min(state.limits.output_tokens, state.limits.total_output_tokens - state.output_tokens)


def working_left(state: RunState) -> float:
    """Seconds the next step may work. The deadline is not in it: it may be moved while the step is out."""
    if state.limits.working_seconds is None:
        return MAX_DURATION
    return min(state.limits.working_seconds - state.working_milliseconds / 1000, MAX_DURATION)


def _last_call(state: RunState) -> Status | None:
    """The limit that leaves only one more model call, where the run wraps up.

    For the output tokens the last call is the first that may use up the rest, since none knows what it will use.
    """
    limits = state.limits
    if not limits.wraps_up:
        return None
    if state.model_calls == limits.model_calls - 1:
        return Status.MODEL_CALL_LIMIT
    if state.model_calls and limits.total_output_tokens - state.output_tokens <= limits.output_tokens:
        return Status.TOKEN_LIMIT
    if limits.estimate and state.exposure + 2 * limits.estimate > limits.budget:
        return Status.MODEL_COST_LIMIT
    return None


def _notice(state: RunState, limit: Status) -> str:
    figures = {
        Status.MODEL_CALL_LIMIT: f"{state.model_calls} of {state.limits.model_calls} model calls are used",
        Status.TOKEN_LIMIT: f"{state.output_tokens} of {state.limits.total_output_tokens} output tokens are used",
        Status.MODEL_COST_LIMIT: f"{cents(state.exposure)} of {cents(state.limits.budget)} cents are reserved or spent",
    }
    return f"Notice: {figures[limit]}, {_REPORT}"
