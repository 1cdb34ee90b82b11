"""Admission: whether the next step may begin, in the order of the rules, and why not.

Every rule that can end a run before a step stands in this file; the rules for what came back stand in
judgement.py. All of them are plain functions of the state and a clock that is handed in.
"""

from dataclasses import dataclass

from longshift.limits import cents
from longshift.messages import UserMessage, Weight, weigh
from longshift.state import MAX_DURATION, Answer, RunState
from longshift.status import WAITABLE, Status


@dataclass(frozen=True)
class End:
    """The run ends, and why."""

    status: Status
    detail: str
    answer: Answer | None = None
    partial: Answer | None = None
    """The report of a wrap-up."""


@dataclass(frozen=True)
class Hold:
    """The run waits, at most until the deadline, for something from outside."""

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


def stopped(state: RunState) -> End | None:
    """The end by a stop request, if there is one."""
    if state.stop is None:
        return None
    how = "the workflow was cancelled" if state.stop.cancelled else f"a stop ({state.stop.mode}) was requested"
    return End(Status.STOP_REQUESTED, f"{how}{': ' + state.stop.reason if state.stop.reason else ''}")


def out_of_time(state: RunState, now: float) -> End | None:
    """The end by the deadline, or by the working time."""
    if now >= state.deadline:
        return End(Status.TIME_LIMIT, f"{now - state.started_at:.1f} of {state.limits.seconds:g} seconds passed")
    allowed = state.limits.working_seconds
    worked = state.working_milliseconds / 1000
    if allowed is not None and worked >= allowed:
        return End(Status.TIME_LIMIT, f"{worked:.1f} of {allowed:g} working seconds used")
    return None


def barred(state: RunState, now: float) -> End | None:
    """What ends a run at any admission point, whatever is asked for: a stop request, then its time."""
    return stopped(state) or out_of_time(state, now)


def _paused(state: RunState) -> Hold | None:
    return Hold("paused", "resume it, or stop it") if state.paused else None


def before_model_call(state: RunState, now: float) -> Allowance | Hold | End:
    """Stop requested? Out of time? Paused? Then the limits, in order. Pure: counters advance with the call."""
    held_up = barred(state, now) or _paused(state)
    if held_up:
        return held_up
    wrap_up = _last_call(state)
    appending = [UserMessage(content=text) for text in state.tells]
    if wrap_up and not state.wrapped_up:
        appending.append(UserMessage(content=_notice(state, wrap_up)))
    reached = _limit_reached(state, [weigh(message) for message in appending])
    if reached:
        return held(state, reached)
    return Allowance(_tokens_allowed(state), working_left(state), tuple(appending), wrap_up)


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
    return Hold(what, f"{remedy} {state.run_id} {asked.call_id}")


def held(state: RunState, end: End) -> Hold | End:
    """With `on_limit = "wait"`, the limits that can be raised hold the run instead of ending it."""
    if state.limits.on_limit == "wait" and end.status in WAITABLE:
        return Hold(f"{end.status}: {end.detail}", "raise the limit, or stop it", end.status)
    return end


def _limit_reached(state: RunState, appending: list[Weight]) -> End | None:
    limits = state.limits
    if state.model_calls >= limits.model_calls:
        return End(Status.MODEL_CALL_LIMIT, f"{state.model_calls} of {limits.model_calls} model calls used")
    context = state.context_bytes_with(appending)
    if context > limits.context_bytes:
        return End(Status.CONTEXT_LIMIT, f"the next call needs {context} of {limits.context_bytes} context bytes")
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
    if not limits.wrap_up or limits.on_limit == "wait":
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
    return (
        f"Notice: {figures[limit]}, so this is the last reply of this run. No tool can be called any more. "
        "Report what was done, what was found and what is left open."
    )
