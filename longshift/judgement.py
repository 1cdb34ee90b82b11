"""Judgement: what a turn or a failed call means for the run, in the order of the rules.

Every rule that ends or continues a run after a model call stands in this file. Functions count only what the rules
say is counted at that point; a refused batch leaves the transcript as it was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longshift import context
from longshift.admission import End, Hold, held, out_of_time
from longshift.agent import AgentSpec
from longshift.batches import Planned, plan
from longshift.context import SummaryCall, Window
from longshift.contracts import Entry, RunResult
from longshift.limits import Limits
from longshift.messages import ToolCall
from longshift.repeats import count
from longshift.state import Answer, RunState
from longshift.status import Status
from longshift.turns import MALFORMED_TURNS, ModelFailure, Turn, charged, makes_sense

BACKOFF_SECONDS = 1.0
"""The first wait before a further attempt; it doubles each time."""
BACKOFF_CAP_SECONDS = 60.0
"""The longest wait that is not asked for by the endpoint."""


@dataclass(frozen=True)
class Batch:
    """Calls to run, in order."""

    planned: tuple[Planned, ...]


@dataclass(frozen=True)
class Retry:
    """A further attempt may be made, after so many seconds."""

    seconds: float


def receive(state: RunState, turn: Turn, allowed: int, now: float) -> End | None:
    """Deadline passed? Usage valid? Then the tokens count.

    Args:
        allowed: output tokens the call was allowed, unless the turn says that it was sent with others.
    """
    allowed = allowed if turn.allowed is None else turn.allowed
    late = out_of_time(state, now)
    if late:
        return End(late.status, f"{late.detail}; the reply came too late and is not used")
    reported = turn.usage.output_tokens
    if not makes_sense(turn.usage, allowed):
        shown = turn.usage.invalid if turn.usage.invalid is not None else reported
        return End(Status.INVALID_USAGE, f"the endpoint reports {shown} output tokens where 0 to {allowed} are allowed")
    state.output_tokens += charged(turn.usage, allowed)
    if reported is None:
        state.note("the endpoint reported no output tokens for a call: its whole allowance was charged")
    elif reported == 0 and (turn.message.content.strip() or turn.message.calls):
        state.note("the endpoint reported 0 output tokens beside text or calls")
    return None


def summarized(
    state: RunState,
    call: SummaryCall,
    turn: Turn,
    number: int,
    now: float,
    untold_count: Callable[[], bool] = lambda: True,
) -> None:
    """Put what a summary call brought in the place of what it tells of. It is no message of the transcript. What leaves
    the window leaves it also where the summary cannot be used, with a bare marker.

    Args:
        untold_count: as `context.summarized` asks it.
    """
    reply, limit = turn.reply, state.limits.context_bytes
    found = context.summarized(call, turn.message, reply.weight, number, limit, untold_count)
    if isinstance(found, Window):
        state.window = found
        return
    state.window = call.after
    state.decide(now, "summary_refused", number=number, why=found)
    state.note("a summary could not be used: older exchanges left the context without one")


def wrap_up(state: RunState, turn: Turn, limit: Status, asked_by: Limits, number: int) -> End:
    """The end of a run whose last call was a wrap-up, with its partial report.

    Args:
        asked_by: the limits by which it was the last one; they may have changed while it was out.
    """
    text = turn.message.content
    if text.strip() and not turn.message.calls:
        state.append_recorded(turn.reply, Entry(turn=number))
    now = state.limits
    raised = {
        Status.MODEL_CALL_LIMIT: now.model_calls > asked_by.model_calls,
        Status.TOKEN_LIMIT: now.total_output_tokens > asked_by.total_output_tokens,
    }.get(limit, now.budget > asked_by.budget)
    figures = asked_by if raised else now
    detail = {
        Status.MODEL_CALL_LIMIT: f"{state.model_calls} of {figures.model_calls} model calls used",
        Status.TOKEN_LIMIT: f"{state.output_tokens} of {figures.total_output_tokens} output tokens used",
    }.get(limit, "no further call fits the budget")
    late = ", and the limit was raised after it was asked for" if raised else ""
    report = Answer(text=text, whole=turn.reply.whole) if text.strip() else None
    return End(limit, f"{detail}; the last reply was a wrap-up{late}", partial=report)


def answered(state: RunState, answer: Answer, number: int) -> End | None:
    """The end with an answer; None where a user's message arrived before it, which is answered first."""
    if state.tells and not state.stop:
        state.answered = answer
        return None
    return End(Status.COMPLETED, f"answered with model call {number}", answer=answer)


def judge(state: RunState, agent: AgentSpec, turn: Turn, number: int) -> Answer | Batch | Hold | End:
    """What a received turn asks for; accepts it into the transcript unless it is refused.

    A Hold leaves everything as it was, so that the same turn can be judged again when a limit was raised.

    Args:
        number: the model call that brought it.
    """
    calls = turn.message.calls
    if not calls:
        if not turn.message.content.strip():
            return End(Status.EMPTY_REPLY, f"model call {number} brought neither text nor calls")
        state.append_recorded(turn.reply, Entry(turn=number))
        return Answer(text=turn.message.content, whole=turn.reply.whole)
    repeated = _repeated_id(state, calls)
    if repeated:
        return repeated
    left = state.limits.tool_calls - state.tool_calls
    if len(calls) > left:
        used = f"{state.tool_calls} of {state.limits.tool_calls} tool calls used"
        return held(state, End(Status.TOOL_LIMIT, f"{used}, and the batch asks for {len(calls)} more"))
    malformed = state.malformed_in_row + 1 if any(call.malformed is not None for call in calls) else 0
    if malformed >= MALFORMED_TURNS:
        return End(Status.MODEL_FAILED, f"{malformed} turns in a row held calls whose arguments are no JSON object")
    kinds = {tool.name: tool.kind for tool in agent.tools}
    asked = [(call, kinds.get(call.name, "read") == "read") for call in calls]
    said, seen, reset = count(state.calls_made, asked, number, state.limits.repeats)
    for call, repetition in zip(calls, said, strict=True):
        if repetition.loops:
            text = f"{call.name} was asked for again, unchanged, after the run was told that it repeats itself"
            return End(Status.LOOP_DETECTED, text)
    state.malformed_in_row = malformed
    state.remember(seen, reset)
    state.use_ids(call.id for call in calls)
    state.append_recorded(turn.reply, Entry(turn=number))
    return Batch(tuple(plan(agent, calls, said, state.refused)))


def no_such_tool(call: ToolCall) -> End:
    """The end by a call of a tool that the agent does not have, where that is fatal."""
    return End(Status.TOOL_FATAL, f"{call.name[:80]} is not a tool of this agent")


def tool_fatal(call: ToolCall) -> End:
    """The end by a tool."""
    return End(Status.TOOL_FATAL, f"{call.name} says that nothing the model does can help")


def after_failure(state: RunState, failure: ModelFailure, now: float) -> Retry | End:
    """Whether a failed model call may be tried again, and when. `settle_failure` has counted it."""
    late = out_of_time(state, now)
    if late:
        return late
    attempts = state.failures_in_row
    if not failure.transient:
        return End(Status.MODEL_FAILED, failure.message)
    if attempts > state.limits.model_retries:
        tried = f" ({attempts} attempts made)" if attempts > 1 else ""
        return End(Status.MODEL_FAILED, f"{failure.message}{tried}")
    wait = failure.retry_after
    if wait is None:
        wait = backoff(attempts, BACKOFF_SECONDS, BACKOFF_CAP_SECONDS)
    return Retry(max(0.0, min(wait, state.seconds_left(now))))


def backoff(attempts: int, first: float, cap: float) -> float:
    """Seconds to wait after so many failed attempts: `first`, doubled each time, at most `cap`."""
    doublings = min(attempts - 1, 16)  # past any cap long before; 2.0 ** 1024 is no float
    return min(first * 2.0**doublings, cap)


def conclude(state: RunState, end: End, unrun: Sequence[str], unknown: Sequence[str] = ()) -> RunResult:
    """The result of a run.

    Args:
        unrun: ids of the calls in the last batch that have no observation.
        unknown: those of them that may have happened.
    """
    partial = end.partial or (None if end.answer else state.answered)
    return RunResult(
        run_id=state.run_id,
        status=end.status,
        answer=end.answer.text if end.answer else None,
        answer_whole=end.answer.whole if end.answer else None,
        partial=partial.text if partial else None,
        partial_whole=partial.whole if partial else None,
        detail=end.detail,
        model_calls=state.model_calls,
        withdrawn=state.withdrawn,
        tool_calls=state.tool_calls,
        output_tokens=state.output_tokens,
        exposure=state.exposure,
        messages=state.head.length,
        digest=state.head.digest,
        unrun_calls=tuple(unrun),
        unknown_calls=tuple(unknown),
        working_seconds=state.working_milliseconds / 1000,
        notes=tuple(state.notes),
    )


def _repeated_id(state: RunState, calls: tuple[ToolCall, ...]) -> End | None:
    batch: set[str] = set()
    for call in calls:
        if call.id in batch:
            return End(Status.REPEATED_CALL_ID, f"the call id {call.id} stands twice in one batch")
        if state.id_is_used(call.id):
            return End(Status.REPEATED_CALL_ID, f"the call id {call.id} was used before in this run")
        batch.add(call.id)
    return None
