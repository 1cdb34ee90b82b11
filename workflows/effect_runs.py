"""How a run makes one effect: dispatched once, and settled with the ledger where its outcome did not come back."""

from dataclasses import dataclass

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError, TimeoutType

from longshift import admission, contracts, effects, judgement
from longshift.admission import End, Hold
from longshift.batches import Planned, refusal
from longshift.contracts import RanTool, RunSpec, RunTool, SettledEffect, SettleEffect
from longshift.effects import Again, Missed
from longshift.messages import ToolMessage
from longshift.questions import Question
from longshift.state import MAX_DURATION
from longshift.status import Status
from workflows import calls
from workflows.waiting import NOT_STARTED, Outcome, Waiting

BY_LEDGER = "effects-by-ledger"
"""Runs from before this patch end where an effect's outcome was lost, and do not cancel one that no worker took."""
AGAIN_SECONDS = 1.0
"""Seconds before an effect is dispatched anew for the second time; doubled for each further time."""
AGAIN_CAP_SECONDS = 300.0
"""The longest such wait. It bounds what a fault before the effect begins adds to the history."""


@dataclass
class _Tries:
    """How often what was tried for one effect."""

    again: int = 0
    """Dispatched again because its tool is idempotent."""
    settled: int = 0
    worked: int = 0
    """Milliseconds that count as work for the latest one, which brought nothing."""
    away: int = 0
    """Not begun because the journal was away."""


class EffectRuns(Waiting):
    """A run that makes effects."""

    _unknown: str | None = None
    """Id of the effect at hand while it may or may not have happened."""

    async def _run_effect(self, spec: RunSpec, item: Planned, number: int) -> Outcome:
        """Make one admitted effect, at most once."""
        state, tries = self._state, _Tries()
        request = RunTool(run_id=state.run_id, model_call=number, position=item.position, call=item.call)
        while True:
            began = self._now()
            handle = calls.start_run_tool(request, item, spec, MAX_DURATION)
            await self._done_or_withdrawn(handle)
            try:
                ran = await handle
                state.working_milliseconds += ran.milliseconds
                return ran
            except ActivityError as error:
                tries.worked = self._worked(error, began)
                state.working_milliseconds += tries.worked
                missed = missed_of(error)
            outcome = await self._after_miss(missed, spec, item, request, tries)
            if not isinstance(outcome, int):
                return outcome
            barred = admission.barred(state, self._now())
            if barred:
                return barred
            request = request.model_copy(update={"dispatch": outcome + 1})

    async def _after_miss(
        self, missed: Missed, spec: RunSpec, item: Planned, request: RunTool, tries: _Tries
    ) -> Outcome | int:
        """What came of an effect whose dispatch brought nothing; or the fence above which it is dispatched anew."""
        if not workflow.patched(BY_LEDGER):
            return self._before_the_ledger(missed, item)
        if missed.kind == "missing" and self._unknown != item.call.id:  # else an earlier dispatch may have made it
            return refusal(item.call, "unavailable", missed.how)
        if missed.kind == "displaced":
            return refusal(item.call, "not_executed", missed.how)
        if missed.kind == "not_taken":
            return request.dispatch
        if missed.kind == "not_begun":
            tries.away += 1
            return await self._until_journal(missed.how, tries.away) or request.dispatch
        self._unknown = item.call.id
        settled = await self._settled(SettleEffect(call=request), spec, item, tries.settled)
        tries.settled += 1
        if not isinstance(settled, SettledEffect):
            return settled
        if settled.ran is not None:
            self._state.working_milliseconds += max(0, settled.ran.milliseconds - tries.worked)
            return settled.ran
        fence = max(request.dispatch, settled.fence or 0)
        if settled.unknown is None:
            self._unknown = None
        else:
            step = effects.after_unknown(spec.agent, item, settled.unknown, tries.again, self._now())
            if isinstance(step, Question):
                return await self._resolved(step, spec, item, request)
            if not isinstance(step, Again):
                return step
            tries.again += 1
        if tries.settled > 1:  # what failed once may do without a wait
            seconds = judgement.backoff(tries.settled - 1, AGAIN_SECONDS, AGAIN_CAP_SECONDS)
            self._enter(f"waiting {seconds:g} s before {item.call.name} is dispatched anew")
            await self._wait(self._stopped_or_late, seconds, f"back-off before {item.call.name}")
        return fence

    def _before_the_ledger(self, missed: Missed, item: Planned) -> Outcome:
        """What runs from before the patch BY_LEDGER made of it, word for word."""
        if missed.kind not in ("missing", "not_begun"):
            text = f"{item.call.name} ({item.call.id}) may or may not have happened: {missed.how}"
            return End(Status.OUTCOME_UNKNOWN, text[:500])
        barred = self._barred_in_flight()
        text = missed.how if missed.kind == "missing" else f"{item.call.name} could not be run"
        return barred or refusal(item.call, "unavailable", text[:500])

    async def _done_or_withdrawn(self, handle: calls.Pending[RanTool]) -> None:
        """Wait for an effect. Where the run is to end meanwhile, one that no worker took is withdrawn; one at work is
        left to finish, since the activity heeds no cancellation."""
        await workflow.wait_condition(lambda: handle.done() or self._stopped_or_late())
        if not handle.done() and workflow.patched(BY_LEDGER):
            handle.cancel()

    async def _settled(
        self, request: SettleEffect, spec: RunSpec, item: Planned, times: int
    ) -> SettledEffect | Outcome:
        """Have the ledger say what came of an effect. The end, where the run must end and the ledger is silent."""
        self._enter(f"finding out what came of {item.call.name}")
        while True:
            patient = not self._must_end()
            request = request.model_copy(update={"patient": patient})
            handle = calls.start_settle_effect(request, spec, item, times)
            if patient:
                await self._done_or_given_up(handle)
            try:
                return await handle
            except ActivityError as error:
                missed = missed_of(error)
            if missed.kind == "displaced":
                return refusal(item.call, "not_executed", missed.how)
            barred = self._barred_in_flight()
            if barred is None:
                return SettledEffect(fence=request.call.dispatch, unknown=missed.how)
            if not patient:
                return barred
            times += 1

    async def _resolved(self, asked: Question, spec: RunSpec, item: Planned, request: RunTool) -> Outcome:
        """Ask a person what came of an effect, and wait for the answer."""
        state = self._state
        state.question = asked
        barred: End | None = await self._admitted(self._resolution_awaited)
        answer = state.take_answer()
        if barred:
            return barred
        assert answer is not None
        content = effects.resolution(answer)
        if content is None:
            return effects.stopped_by_person(item, answer)
        settled = await self._settled(SettleEffect(call=request, resolution=content), spec, item, 0)
        if isinstance(settled, SettledEffect) and settled.ran is not None:
            return settled.ran
        # Where the ledger takes no word on this call, the person's stands in the transcript all the same.
        return ToolMessage(call_id=item.call.id, name=item.call.name, content=content)

    def _resolution_awaited(self) -> End | Hold | None:
        """An answer that came counts, even where the run must end: what a person knows is kept."""
        hold = admission.unanswered(self._state)
        return hold and (admission.barred(self._state, self._now()) or hold)


def missed_of(error: ActivityError) -> Missed:
    """What the platform knows of a dispatch that brought nothing. Whatever it does not prove is unknown."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        if cause.type == contracts.JOURNAL_AWAY:
            return Missed("not_begun", cause.message)
        if cause.type == contracts.PLACE_TAKEN:
            return Missed("displaced", cause.message)
        if cause.type in contracts.NO_SUCH_TOOL:
            return Missed("missing", cause.message if cause.type == contracts.TOOL_MISSING else "no worker can run it")
        if cause.type == contracts.WORKER_SHUTDOWN:
            return Missed("unknown", "its worker was shut down while it was at work")
        return Missed("unknown", cause.message)
    if isinstance(cause, CancelledError):
        return Missed("not_taken" if NOT_STARTED in cause.details else "unknown", "it was cancelled")
    if isinstance(cause, TimeoutError):
        if cause.type == TimeoutType.SCHEDULE_TO_START:
            return Missed("not_taken", "no worker took it")
        lost = cause.type == TimeoutType.HEARTBEAT
        return Missed("unknown", "its worker was lost" if lost else "its time ran out")
    return Missed("unknown", "its dispatch failed")
