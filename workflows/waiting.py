"""How a run waits: visibly, for an activity, for a person or for time, and what ends the wait."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, CancelledError, TimeoutError, TimeoutType

from longshift import admission, contracts, judgement
from longshift.admission import End, Hold
from longshift.contracts import RanTool
from longshift.messages import ToolMessage
from longshift.state import MAX_DURATION, RunState
from workflows import calls, details
from workflows.attributes import Attributes

Verdict = TypeVar("Verdict")
Outcome = RanTool | ToolMessage | End
"""What came of a call: what its tool brought, what the run says in its place, or why the run ends without either."""

JOURNAL_WAIT_SECONDS = 2.0
"""Seconds before the first new attempt when the journal cannot be written; nothing was sent, so nothing is counted."""
JOURNAL_WAIT_CAP_SECONDS = 300.0
"""The longest such wait. It bounds what an outage of weeks adds to the history, which ends at 51,200 events."""

FUND_WAIT_SECONDS = 5.0
"""Seconds before a fund that had too little left is asked again; nobody tells a run that it was raised."""
FUND_WAIT_CAP_SECONDS = 300.0
"""The longest such wait."""

WAITS_SHOWN = "waits-shown"
"""Runs from before this patch do not show in their memo that what they wait for has changed."""
BARRED_FIRST = "barred-before-held"
"""Runs from before this patch heed a stop that came with a reply which holds them only at the next message."""
STOP_NOW_FIRST = "stop-now-first"
"""Runs from before this patch ask for their time before an urgent stop, where an activity brought nothing."""
UNTAKEN_IDLE = "untaken-idle"
"""Runs from before this patch count the wait for a worker as work, where an effect was withdrawn before one took it."""
NOT_STARTED = "ACTIVITY_ID_NOT_STARTED"
"""Temporal's word for an activity that was cancelled before a worker took it."""


class Waiting(Attributes):
    """A run that can wait."""

    _memo: Mapping[str, Any] = MappingProxyType({})
    """The memo as it was last published."""

    def __init__(self, state: RunState) -> None:
        super().__init__(state)
        self._since: list[str] = []
        """What came of the calls since the latest reply, in words."""

    async def _admitted(
        self,
        ask: Callable[[], Verdict | Hold],
        barred: Callable[[], End | None] = lambda: None,
        between: Callable[[], None] = lambda: None,
    ) -> Verdict | End:
        """Ask the core until it says something else than to hold, and wait visibly while it does.

        Args:
            ask: the question.
            barred: what ends the run instead of a wait, where the question itself does not look at it.
            between: done after each message that did not end the wait.
        """
        answer: Verdict | End | Hold = ask()
        if not isinstance(answer, Hold):
            return answer
        ended = barred()  # by a stop that came while the reply was out
        if ended and workflow.patched(BARRED_FIRST):
            return ended
        self._hold(answer)
        self._publish("waiting")
        while isinstance(answer, Hold):
            between()
            if answer != self._waiting:
                self._hold(answer)
            self._republish("waiting")
            await self._until_message()
            answer = barred() or ask()
        self._waiting = None
        self._state.decide(self._now(), "goes_on")
        self._publish("going on")
        return answer

    def _hold(self, hold: Hold) -> None:
        self._waiting = hold
        self._state.decide(self._now(), "held", reason=hold.reason)

    async def _watch_deadline(self) -> None:
        """Wake the run when its deadline passes: one timer a run, set anew when the deadline moves."""
        while True:
            deadline = self._deadline()
            left = 0.0 if deadline is None else min(deadline - self._now(), MAX_DURATION)
            moved = partial(self._deadline_is_not, deadline)
            if left > 0:
                await self._wait(moved, left, contracts.DEADLINE)
            else:
                await workflow.wait_condition(moved)

    def _deadline_is_not(self, deadline: float | None) -> bool:
        return self._deadline() != deadline

    def _past_deadline(self) -> bool:
        deadline = self._deadline()
        return deadline is not None and self._now() >= deadline

    async def _until_message(self) -> None:
        """Wait until a message arrives or the deadline passes."""
        received = self._messages_received
        await workflow.wait_condition(lambda: self._messages_received != received or self._past_deadline())

    async def _until_journal(self, why: str, attempts: int) -> End | None:
        """Wait, visibly, for a journal that could not be used in so many attempts, for a reason in words."""
        self._is_away("journal")
        self._waiting = Hold("journal", why, "mend the journal, or stop the run")
        self._enter("waiting")
        seconds = judgement.backoff(attempts, JOURNAL_WAIT_SECONDS, JOURNAL_WAIT_CAP_SECONDS)
        await self._wait(self._stopped_or_late, seconds, "the journal is away")
        self._waiting = None
        return admission.barred(self._state, self._now())

    async def _until_funded(self, hold: Hold, attempts: int) -> End | None:
        """Wait, visibly, before the fund is asked again, after so many attempts; any message has it asked at once."""
        received = self._messages_received
        self._is_away("fund")
        self._waiting = replace(hold, kind="fund")
        self._publish("waiting")
        seconds = judgement.backoff(attempts, FUND_WAIT_SECONDS, FUND_WAIT_CAP_SECONDS)
        await self._wait(
            lambda: self._messages_received != received or self._stopped_or_late(), seconds, "the fund is used up"
        )
        self._waiting = None
        self._publish("going on")
        return admission.barred(self._state, self._now())

    def _stopped_or_late(self) -> bool:
        return self._state.stop is not None or self._past_deadline()

    async def _wait(self, until: Callable[[], bool], seconds: float, summary: str) -> None:
        if seconds <= 0:
            return
        try:
            await workflow.wait_condition(until, timeout=seconds + calls.CLOCK_MARGIN, timeout_summary=summary)
        except asyncio.TimeoutError:  # noqa: UP041  the plain name is Temporal's here
            return

    async def _done_or_given_up(self, handle: calls.Pending[Any]) -> None:
        """Wait for an activity, and cancel it when the run must stop now or its deadline passes."""
        await workflow.wait_condition(lambda: handle.done() or self._must_end())
        if not handle.done():
            handle.cancel()

    def _barred_in_flight(self) -> End | None:
        """Why an activity that brought nothing ends the run: it was cancelled by a stop, or its time was the run's. The
        stop comes first, since that time may have been a wait for a worker, which is no work."""
        late = admission.out_of_time(self._state, self._now())
        stopped = admission.stopped(self._state) if self._stop_now() else None
        if late and stopped:
            return stopped if workflow.patched(STOP_NOW_FIRST) else late
        return late or stopped

    def _must_end(self) -> bool:
        """Whether what is in flight is given up, where it may be: a stop that does not wait for it, or the deadline."""
        return self._stop_now() or self._past_deadline()

    def _stop_now(self) -> bool:
        return self._state.stop is not None and self._state.stop.mode == "now"

    def _worked(self, error: ActivityError, began: float) -> int:
        """Milliseconds that count as work for an activity that reported none: all of them where its own time ran out
        or it was cancelled, none where its worker was lost or never came. Of a model call or a read that was cancelled
        nobody waits to hear whether a worker had it."""
        cause = error.cause
        if isinstance(cause, TimeoutError) and cause.type != TimeoutType.START_TO_CLOSE:
            return 0
        if isinstance(cause, CancelledError) and NOT_STARTED in cause.details and workflow.patched(UNTAKEN_IDLE):
            return 0
        return int((self._now() - began) * 1000)

    def _now(self) -> float:
        return workflow.time()

    def _enter(self, phase: str) -> None:
        self._phase = phase

    def current_details(self) -> str:
        """What the UI shows of the run now, as Markdown; made only when it is asked for."""
        continued = workflow.info().continued_run_id is not None  # which loses the summary it was started with
        goal = workflow.memo_value("goal", None, type_hint=str) if continued else None
        return details.markdown(self._view(), self._spec, None if self._result else self._waiting, goal)

    def _publish(self, phase: str) -> None:
        """Enter a phase that is worth an event: it stands in the memo, where a list shows it without a worker."""
        self._enter(phase)
        if self._spec is not None:
            self._memo = details.memo(self._view(), self._spec)
            workflow.upsert_memo(self._memo)

    def _republish(self, phase: str) -> None:
        """Publish again where a message changed what the memo shows, such as what the run waits for."""
        self._enter(phase)
        changed = self._spec is not None and details.memo(self._view(), self._spec) != self._memo
        if changed and workflow.patched(WAITS_SHOWN):
            self._publish(phase)
