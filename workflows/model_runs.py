"""How a run makes one model call: handed out again where its worker was lost, waited for where nobody pays for it."""

from contextlib import suppress

from pydantic import ValidationError
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from longshift import admission, contracts, judgement
from longshift.admission import Allowance, End
from longshift.contracts import CallModel, RunSpec
from longshift.memory import Memory
from longshift.status import Status
from longshift.turns import ModelFailure, Turn
from workflows import calls, summaries
from workflows.waiting import Waiting

NUMBERED_ONCE = "numbered-once"
"""Runs from before this patch give the number of a call that was taken back to the next one."""
REDISPATCHES = 5
"""How often one admitted model call is handed out again because its worker was lost, before it counts as failed."""


class ModelRuns(Waiting):
    """A run that makes model calls."""

    async def _call_model(
        self, spec: RunSpec, number: int, allowance: Allowance, estimate: int
    ) -> Turn | ModelFailure | End:
        """Hand out one admitted call. It is handed out again, under the same number, where its worker was lost, since
        the journal knows whether it was sent and answered, and where the journal was away before it was sent."""
        state, summary = self._state, allowance.summary
        request = CallModel(
            run_id=state.run_id,
            number=number,
            reply=state.replies + 1,
            head=state.head,
            entries=tuple(state.entries),
            decisions=tuple(state.decisions),
            output_tokens=allowance.output_tokens,
            estimate=estimate,
            context_bytes=(summary.bytes if summary else state.context_bytes) if spec.fund else 0,
            tools=allowance.wrap_up is None and summary is None,
            excerpt=summary.excerpt if summary else state.excerpt,
            forgotten=state.forgotten or None,
            resets=state.resets if state.forgot else None,
        )
        dispatch, lost, away = 0, 0, 0
        while True:
            began = self._now()
            told = summaries.model_call(request, self._since, state.output_tokens, dispatch)
            handle = calls.start_call_model(request, spec, allowance.seconds, dispatch, told)
            await self._done_or_given_up(handle)
            try:
                called = await handle
                turn = called.turn
                self._since.clear()
                state.journaled(len(request.entries), len(request.decisions))
                state.recalled = called.recalled or Memory()
                state.refused = called.refused
                state.working_milliseconds += turn.milliseconds
                return turn
            except ActivityError as error:
                failure = _model_failure(error)
                state.working_milliseconds += failure.milliseconds if failure else self._worked(error, began)
            barred = self._barred_in_flight()
            if barred:
                return barred
            dispatch += 1
            if failure is None:
                lost += 1
                if lost <= REDISPATCHES:
                    continue
                return ModelFailure(kind="lost", message="the worker was lost again and again", transient=True)
            if failure.kind in ("fund", "internal"):
                return failure  # nothing was entered, or nobody knows; what was entered may be sent again
            if failure.kind != "journal" or not failure.transient:
                state.journaled(len(request.entries), len(request.decisions))
                return failure
            away += 1
            barred = await self._until_journal(failure.message, away)
            if barred:
                return barred

    async def _failed(self, failure: ModelFailure, estimate: int, allowed: int, number: int) -> End | None:
        """Count a failed call, and wait before the next attempt, which is admitted like any other call."""
        state = self._state
        state.settle_failure(failure, estimate, allowed)
        self._since.append(f"#{number} failed ({failure.kind})")
        state.decide(self._now(), "model_failed", number=number, failure=failure.kind, message=failure.message)
        verdict = judgement.after_failure(state, failure, self._now())
        if isinstance(verdict, End):
            return admission.stopped(state) or verdict
        self._enter(f"waiting {verdict.seconds:.1f} s before model call {number + 1}")
        await self._wait(self._stopped_or_late, verdict.seconds, f"back-off before model call {number + 1}")
        return None

    async def _unfunded(self, failure: ModelFailure, estimate: int) -> End | None:
        """The run's fund did not pay: the call was never admitted, and the run ends or waits, as at any limit."""
        state = self._state
        if workflow.patched(NUMBERED_ONCE):
            state.withdraw_model_call(estimate)
        else:
            state.model_calls, state.exposure = state.model_calls - 1, state.exposure - estimate
        if not state.unfunded_in_row:  # once for all of a wait, which would push other decisions out of the journal
            state.decide(self._now(), "unfunded", message=failure.message)
        verdict = admission.held(state, End(Status.MODEL_COST_LIMIT, failure.message))
        if isinstance(verdict, End):
            return admission.barred(state, self._now()) or verdict
        state.unfunded_in_row += 1
        return await self._until_funded(verdict, state.unfunded_in_row)


def _model_failure(error: ActivityError) -> ModelFailure | None:
    """The failure that `call_model` reported; None where it reported nothing, since its worker was lost or cut off."""
    cause = error.cause
    if not isinstance(cause, ApplicationError) or cause.type == contracts.WORKER_SHUTDOWN:
        return None
    if cause.type == contracts.MODEL_FAILURE and cause.details:
        with suppress(ValidationError):  # not ours, so the call failed of something unknown
            return ModelFailure.model_validate(cause.details[0])
    return ModelFailure(kind="internal", message=cause.message[:500], transient=False)
