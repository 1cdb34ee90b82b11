"""The workflow `agent_run`: asks the core what may happen next, does it, remembers what came of it.

It holds no rule of its own: admission, judgement, batches and repeats decide, as plain functions of the state.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from longshift import admission, contracts, effects, inbox, judgement
from longshift.admission import Allowance, End, Hold
from longshift.agent import schemas_bytes
from longshift.batches import Planned, portions
from longshift.contracts import CloseRun, Entry, OpenRun, RunResult, RunSpec, shared_spec, spec_text
from longshift.judgement import Batch
from longshift.messages import ToolMessage
from longshift.run_input import InputRefused, RunInput, read_input
from longshift.state import Answer, Carried, RunState, Stop
from longshift.status import CLOSED_WELL, Status
from longshift.turns import ModelFailure
from workflows import calls, details, summaries
from workflows.attributes import carried_over
from workflows.effect_runs import EffectRuns
from workflows.model_runs import ModelRuns
from workflows.read_runs import ReadRuns
from workflows.waiting import Outcome

HISTORY_EVENTS, HISTORY_BYTES = 10_240, 10 * 1024 * 1024
"""Of one run of a chain: a fifth of what Temporal allows, where the server suggests nothing before."""
BY_SHARE = "continue-by-share"
"""Runs from before this patch continue as new only where the server suggests it."""
OPENING_SECONDS = 10.0
"""Seconds that a graceful stop gives to the opening of a run."""
OPENING_STOPS = "opening-stops"
"""Runs from before this patch are opened before they heed a graceful stop."""
OPENING_WAIT_SECONDS, OPENING_WAIT_CAP_SECONDS = 1.0, 300.0
"""Seconds before an opening that gave up at a deadline that has moved is tried anew, the first wait and the longest."""
OPENING_WAITS = "opening-waits"
"""Runs from before this patch try it anew at once."""
UNTOLD_COUNT = "untold-count"
"""Runs from before this patch say of a summary that it tells also of what left without one before."""
NOT_CARRIED = (
    "is not what the run before it in its chain carries on; start a shift without a cron schedule and without a retry "
    "policy, and let a Schedule start one again and again"
)
"""Why the second run of such a chain is refused."""


@workflow.defn(name=contracts.WORKFLOW)
class AgentRun(EffectRuns, ReadRuns, ModelRuns):
    """One agent run, or one run of its chain after continue-as-new."""

    @workflow.init
    def __init__(self, *args: Any) -> None:
        """Set the state up before any message is handled: a stop may come with the start."""
        info = workflow.info()
        super().__init__(RunState(run_id=info.workflow_id, started_at=info.workflow_start_time.timestamp()))
        self._given: RunInput | None = None
        self._refused: InputRefused | None = None
        self._batch: Sequence[Planned] = ()
        self._observed: set[str] = set()
        try:
            self._read(args)
        except InputRefused as refused:
            self._refused = refused

    def _read(self, args: tuple[Any, ...]) -> None:
        if workflow.info().continued_run_id is None:
            self._given = read_input(args)
            self._given_seconds = self._given.limits.get("seconds")
        else:
            try:
                carried = Carried.model_validate(args[0] if len(args) == 1 else None)
                self._spec, self._state = shared_spec(spec_text(carried.spec)), carried.state
            except ValueError:  # a run starts anew by nothing but continue-as-new
                raise InputRefused({"input": NOT_CARRIED}) from None

    @workflow.run
    async def run(self, *args: Any) -> RunResult:
        """Run the shift to its end.

        Args:
            args: one RunInput, or what continue-as-new carried.

        Raises:
            ApplicationError: for every end but COMPLETED and STOP_REQUESTED; its type is the status and its detail
                the whole result. With type InputRefused when the input is bad and no shift began.
        """
        if self._refused:
            raise ApplicationError(str(self._refused), type=contracts.INPUT_REFUSED, non_retryable=True)
        body = asyncio.create_task(self._body(self._given))
        while True:
            try:
                result = await asyncio.shield(body)
                break
            except asyncio.CancelledError:
                reason = workflow.cancellation_reason()
                if reason is None:
                    raise  # this worker evicts the run
                if body.done():
                    result = await body  # the end and the cancellation came together: the end stands
                    break
                inbox.apply_stop(self._state, Stop(mode="now", reason=reason, cancelled=True))
                self._received("cancel", reason=reason)
        if result.status not in CLOSED_WELL:
            raise ApplicationError(result.detail, result, type=result.status.value, non_retryable=True)
        if result.status is Status.STOP_REQUESTED and self._state.stop and self._state.stop.cancelled:
            raise asyncio.CancelledError
        return result

    async def _body(self, given: RunInput | None) -> RunResult:
        self._deadline_watch = asyncio.create_task(self._watch_deadline())
        self._attributes_keeper = asyncio.create_task(self._keep_attributes())
        end = await self._open(given) if given else None
        while end is None:
            assert self._spec is not None
            end = await self._step(self._spec)
        return await self._close(end)

    async def _open(self, given: RunInput) -> End | None:
        """Have the agent resolved and the journal begun."""
        state, attempts = self._state, 0
        while True:
            handle = calls.start_open_run(OpenRun(run_id=state.run_id, started_at=state.started_at, given=given))
            await self._opened_or_given_up(handle)
            try:
                opened = await handle
                break
            except ActivityError as error:
                cause = error.cause
            kind = cause.type if isinstance(cause, ApplicationError) else None
            if isinstance(cause, ApplicationError) and kind in (contracts.INPUT_REFUSED, contracts.RESULT_MISFIT):
                raise ApplicationError(cause.message, type=kind, non_retryable=True) from cause
            if kind == contracts.TOO_LATE and "seconds" in self._early_limits and not self._past_deadline():
                attempts += 1  # the deadline was moved meanwhile, which the activity cannot know
                if not workflow.patched(OPENING_WAITS) or await self._opening_due(attempts):
                    continue
            return admission.not_opened(state, self._now())
        spec = self._spec = shared_spec(spec_text(opened.spec))
        state.limits = self._with_early_limits(spec.agent.limits)
        state.schemas_bytes = schemas_bytes(spec.agent.tools)
        state.follow(spec.agent.context)
        state.notes.extend(spec.notes)
        for recorded in opened.opening:
            state.append_recorded(recorded, Entry())
            if recorded.message.role == "assistant":
                state.use_ids(call.id for call in recorded.message.calls)
        state.entries.clear()  # they stand in the journal; what was forgotten of them goes there with the first call
        workflow.upsert_memo(details.memo(self._view(), spec))
        return None

    async def _opening_due(self, attempts: int) -> bool:
        """Wait before the opening is tried anew, after so many attempts; any message has it tried at once. False where
        a stop or the deadline ended the wait."""
        received = self._messages_received
        self._enter("waiting before it is opened")
        seconds = judgement.backoff(attempts, OPENING_WAIT_SECONDS, OPENING_WAIT_CAP_SECONDS)
        await self._wait(
            lambda: self._messages_received != received or self._stopped_or_late(), seconds, "back-off of the opening"
        )
        self._enter("opening")
        return not self._stopped_or_late()

    async def _opened_or_given_up(self, handle: calls.Pending[Any]) -> None:
        """Wait for the opening. A graceful stop lets one that is under way finish, and waits for no other attempt."""
        await workflow.wait_condition(lambda: handle.done() or self._stopped_or_late())
        if not handle.done() and not self._must_end() and workflow.patched(OPENING_STOPS):
            await self._wait(handle.done, OPENING_SECONDS, "a stop waits for the opening")
            if not handle.done():
                handle.cancel()
        await self._done_or_given_up(handle)

    async def _step(self, spec: RunSpec) -> End | None:
        """One model call and what it asks for."""
        state = self._state
        roll = partial(_continue_as_new_if_due, Carried(spec=spec, state=state))
        allowance: Allowance | End = await self._admitted(
            lambda: admission.before_model_call(state, self._now()), between=roll
        )
        if isinstance(allowance, End):
            return allowance
        roll()
        if allowance.summary is None:
            state.take_in(allowance.appending, allowance.window)
            state.wrapped_up = allowance.wrap_up is not None
        limits, estimate = state.limits, state.limits.estimate
        number = state.begin_model_call()
        self._enter(f"model call {number}{', a summary' if allowance.summary else ''}")
        reply = await self._call_model(spec, number, allowance, estimate)
        if isinstance(reply, End):
            return reply
        if isinstance(reply, ModelFailure) and reply.kind == "fund":
            return await self._unfunded(reply, estimate)
        state.unfunded_in_row = 0
        if isinstance(reply, ModelFailure):
            return await self._failed(reply, estimate, allowance.output_tokens, number)
        state.settle_turn(reply, estimate)
        refused = judgement.receive(state, reply, allowance.output_tokens, self._now())
        if refused:
            return refused
        if allowance.summary:
            judgement.summarized(state, allowance.summary, reply, number, self._now(), _untold_count)
            return None
        if allowance.wrap_up:
            return judgement.wrap_up(state, reply, allowance.wrap_up, limits, number)
        verdict: Answer | Batch | End = await self._admitted(
            lambda: judgement.judge(state, spec.agent, reply, number),
            lambda: admission.barred(state, self._now()),
        )
        if isinstance(verdict, End):
            return verdict
        if isinstance(verdict, Batch):
            return await self._run_batch(spec, verdict.planned, number)
        return judgement.answered(state, verdict, number)

    async def _run_batch(self, spec: RunSpec, planned: Sequence[Planned], number: int) -> End | None:
        """Run an accepted batch in its order; what never ran is named in the result."""
        state = self._state
        self._batch, self._observed = planned, set()
        for portion in portions(planned):
            first, count = portion[0], len(portion)
            state.question = effects.approval_question(first, self._now())
            barred: End | None = await self._admitted(partial(self._before_tool_calls, count))
            answer = state.take_answer()
            if barred:
                return barred
            state.tool_calls += count
            self._enter(f"tools of model call {number}")
            if answer is not None and answer.kind == "denied":
                end = self._take(effects.denied(first, answer), first, number)
            elif first.alone:
                end = self._take(await self._run_effect(spec, first, number), first, number)
            else:
                end = await self._run_portion(spec, portion, number)
            if end:
                return end
        self._batch = ()
        return None

    def _before_tool_calls(self, count: int) -> End | Hold | None:
        return admission.before_tool_call(self._state, self._now(), count)

    def _take(self, outcome: Outcome, item: Planned, number: int) -> End | None:
        """Put what came of a call into the transcript; the end, where there is one."""
        state = self._state
        if isinstance(outcome, End):
            return outcome
        self._observed.add(item.call.id)
        message = outcome if isinstance(outcome, ToolMessage) else outcome.observation.message
        self._since.append(summaries.outcome(item.call.name, message.content))
        if isinstance(outcome, ToolMessage):
            state.append_message(outcome)
            return judgement.no_such_tool(item.call) if item.fatal else None
        state.append_recorded(outcome.observation, Entry(call=(number, item.position)))
        if outcome.fatal:
            return judgement.tool_fatal(item.call)
        return None

    async def _run_portion(self, spec: RunSpec, portion: Sequence[Planned], number: int) -> End | None:
        """Run neighbouring reads side by side; append the observations in the order of the calls."""
        state, began = self._state, self._now()
        handles = self._dispatched(spec, portion, number)
        end: End | None = None
        worked, missing = 0, False  # once an observation is missing, none after it may stand in the transcript
        for item in portion:
            outcome: Outcome
            if item.observation is not None:
                outcome = item.observation
            else:
                outcome, milliseconds = await self._observed_read(spec, item, number, handles[item.position], began)
                worked = max(worked, milliseconds)
            if not missing:
                ended = self._take(outcome, item, number)
                end = end or ended
                missing = isinstance(outcome, End)
        state.working_milliseconds += worked
        return end

    async def _close(self, end: End) -> RunResult:
        """Record the end. Messages that arrive meanwhile change nothing any more."""
        state = self._state
        state.decide(self._now(), "ended", status=end.status, detail=end.detail)
        untaken = admission.untaken(state)
        if untaken:
            state.note(f"{len(untaken)} of a user's messages went unanswered: {untaken[0][:80]}")
        unrun = [item.call.id for item in self._batch if item.call.id not in self._observed]
        unknown = [call_id for call_id in unrun if call_id == self._unknown]
        self._result = judgement.conclude(state, end, unrun, unknown)
        self._enter("recording the end")
        if self._spec is None:
            return self._result
        entries, decisions = tuple(state.entries), tuple(state.decisions)
        request = CloseRun(
            run_id=state.run_id, head=state.head, entries=entries, decisions=decisions, result=self._result
        )
        try:
            await calls.start_close_run(request, self._spec)
        except ActivityError as error:
            why = error.cause.message if isinstance(error.cause, ApplicationError) else "it did not answer in time"
            notes = (*self._result.notes, f"the journal does not hold the end of this run: {why}")
            self._result = self._result.model_copy(update={"notes": notes})
        await self._attributes_followed()
        workflow.upsert_memo(details.memo(self._view(), self._spec))
        self._enter("ended")
        return self._result


def _untold_count() -> bool:
    return workflow.patched(UNTOLD_COUNT)


def _continue_as_new_if_due(carried: Carried) -> None:
    """Go on in a new run of the chain when the server suggests it, or when the history has had its share. Handlers are
    synchronous, so none is unfinished here, and a message that arrives with this very task makes the server hand the
    task out again."""
    info = workflow.info()
    long = info.get_current_history_length() > HISTORY_EVENTS or info.get_current_history_size() > HISTORY_BYTES
    if info.is_continue_as_new_suggested() or (long and workflow.patched(BY_SHARE)):
        workflow.continue_as_new(carried, search_attributes=carried_over())
