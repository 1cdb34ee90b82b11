"""How a run makes its reads: side by side, tried again by the platform, and by the run where the journal is away."""

from collections.abc import Sequence

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from longshift import admission, contracts
from longshift.admission import End
from longshift.batches import Planned, refusal
from longshift.contracts import RanTool, RunSpec, RunTool
from longshift.messages import ToolMessage
from workflows import calls
from workflows.waiting import Outcome, Waiting

READS_WAIT = "reads-wait-for-journal"
"""Runs from before this patch tell the model that a read could not be run, where its journal stays away."""


class ReadRuns(Waiting):
    """A run that makes reads."""

    def _dispatched(self, spec: RunSpec, portion: Sequence[Planned], number: int) -> dict[int, calls.Pending[RanTool]]:
        """The activities of the calls that need one, by position, all of them under way."""
        return {item.position: self._dispatch(spec, item, number) for item in portion if item.observation is None}

    def _dispatch(self, spec: RunSpec, item: Planned, number: int, dispatch: int = 0) -> calls.Pending[RanTool]:
        state = self._state
        request = RunTool(
            run_id=state.run_id,
            model_call=number,
            position=item.position,
            call=item.call,
            repeat_of=item.repeat_of,
            dispatch=dispatch,
        )
        return calls.start_run_tool(request, item, spec, admission.working_left(state))

    async def _observed_read(
        self, spec: RunSpec, item: Planned, number: int, handle: calls.Pending[RanTool], began: float
    ) -> tuple[Outcome, int]:
        """What came of a read, and milliseconds that count as work. Without its journal there is no observation, so
        it is waited for, and the read is dispatched again."""
        worked, dispatch = 0, 0
        while True:
            await self._done_or_given_up(handle)
            try:
                ran = await handle
            except ActivityError as error:
                worked = max(worked, self._worked(error, began))
                away = _journal_away(error)
                if away is None or self._barred_in_flight() or not workflow.patched(READS_WAIT):
                    return self._read_failed(item, error), worked
            else:
                return ran, max(worked, ran.milliseconds)
            dispatch += 1
            barred = await self._until_journal(away, dispatch)
            if barred:
                return barred, worked
            began = self._now()
            handle = self._dispatch(spec, item, number, dispatch)

    def _read_failed(self, item: Planned, error: ActivityError) -> ToolMessage | End:
        """What a read without an observation means: the model is told, unless its time was the run's."""
        barred = self._barred_in_flight()
        if barred:
            return barred
        kind, text = "timeout", f"{item.call.name} did not answer in time"
        cause = error.cause
        if isinstance(cause, ApplicationError):
            kind = "unavailable"
            text = cause.message if cause.type in contracts.TELLABLE else f"{item.call.name} could not be run"
        return refusal(item.call, kind, text[:500])


def _journal_away(error: ActivityError) -> str | None:
    """Why an activity had no journal, where that is what it failed of."""
    cause = error.cause
    return cause.message if isinstance(cause, ApplicationError) and cause.type == contracts.JOURNAL_AWAY else None
