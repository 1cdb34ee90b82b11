"""What people can send to a running shift, and what they can ask it.

Handlers are synchronous, take whatever arrives, cannot raise, and only write to the state; the loop reads it at its
admission points. So no message can be lost at completion or continue-as-new, and none can fail a workflow task.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pydantic import JsonValue
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from longshift import answering, contracts, inbox, remedies
from longshift.admission import Hold
from longshift.contracts import RunResult, RunSpec
from longshift.inbox import MessageRefused
from longshift.limits import Limits
from longshift.questions import PersonsAnswer
from longshift.state import RunState
from longshift.view import StateView

ReadAnswer = Callable[[RunState, tuple[Any, ...], float], PersonsAnswer]
"""Reads a person's answer to the run's question. Raises MessageRefused."""

MESSAGE_REFUSED = "MessageRefused"
"""Failure type of an update that is refused; nothing was changed."""

TELLS_ENTERED = "tells-entered-count"
"""Runs from before this patch take any number of messages while their fund keeps them waiting."""


def _entered_count() -> bool:
    return workflow.patched(TELLS_ENTERED)


@contextmanager
def _refusing() -> Iterator[None]:
    """An update that is refused tells its sender why."""
    try:
        yield
    except MessageRefused as refused:
        raise ApplicationError(str(refused), type=MESSAGE_REFUSED, non_retryable=True) from None


class Mailbox:
    """The message handlers of a run, and the state they write to."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._spec: RunSpec | None = None
        self._phase = "opening"
        self._waiting: Hold | None = None
        self._result: RunResult | None = None
        self._messages_received = 0
        self._given_seconds: JsonValue = None
        """The deadline that the run's input asks for."""
        self._early_limits: dict[str, JsonValue] = {}
        """Changes that arrived before the agent's own limits were known."""

    @workflow.signal(name=contracts.STOP, description="Stop the run: {mode: graceful or now, reason: text}.")
    def stop(self, *args: Any) -> None:
        """Stop at the next admission point; mode `now` also cancels a model call or a read in flight."""
        request = inbox.read_stop(args)
        inbox.apply_stop(self._state, request)
        self._received("stop", mode=request.mode, reason=request.reason)

    @workflow.signal(name=contracts.PAUSE, description="Begin no further step until resumed; the deadline still runs.")
    def pause(self, *_: Any) -> None:
        """Admit nothing until resumed."""
        self._state.paused = True
        self._received("pause")

    @workflow.signal(name=contracts.RESUME, description="Go on after a pause.")
    def resume(self, *_: Any) -> None:
        """Admit steps again."""
        self._state.paused = False
        self._received("resume")

    @workflow.update(name=contracts.SET_LIMITS, description='Change limits, absolute values: {"seconds": 600}.')
    def set_limits(self, *args: Any) -> dict[str, JsonValue] | None:
        """Change limits from now on; the same request id twice counts once. Returns the limits in force; None while
        the run is being opened, when the agent's own are not known."""
        self._change_limits(args)
        return self._state.limits.model_dump(mode="json") if self._spec else None

    @set_limits.validator
    def _check_set_limits(self, *args: Any) -> None:
        self._refuse_if_ended()
        with _refusing():
            inbox.read_limits(args)

    @workflow.signal(name=contracts.SET_LIMITS, description="The same as the update, for when no worker answers.")
    def set_limits_later(self, *args: Any) -> None:
        """A change of limits that waits for a worker; a bad one is recorded and changes nothing."""
        with self._recording("limits_refused"):
            self._change_limits(args)

    @workflow.update(name=contracts.TELL, description="A user's message: a text, or {text, request_id}.")
    def tell(self, *args: Any) -> int:
        """A user's message for the next model call. Returns how many wait."""
        text, request_id = inbox.read_tell(self._state, args, _entered_count)
        if self._state.request_is_new(request_id):
            self._state.tells.append(text)
            self._received("tell", text=text)
        return len(self._state.tells)

    @tell.validator
    def _check_tell(self, *args: Any) -> None:
        self._refuse_if_ended()
        with _refusing():
            inbox.read_tell(self._state, args)

    @workflow.signal(name=contracts.TELL, description="The same as the update, for when no worker answers.")
    def tell_later(self, *args: Any) -> None:
        """A user's message that waits for a worker; a bad one is recorded and changes nothing."""
        with self._recording("tell_refused"):
            self.tell(*args)

    @workflow.update(name=contracts.APPROVE, description="Let a call run: {call_id, arguments_sha256, reason}.")
    def approve(self, *args: Any) -> str:
        """A person lets the effect that waits be made. Returns what stands."""
        return self._answer(answering.read_approval, args)

    @approve.validator
    def _check_approve(self, *args: Any) -> None:
        self._check_answer(answering.read_approval, args)

    @workflow.signal(name=contracts.APPROVE, description="The same as the update, for when no worker answers.")
    def approve_later(self, *args: Any) -> None:
        """An approval that waits for a worker; one that does not fit is recorded and changes nothing."""
        self._answer_later(answering.read_approval, args)

    @workflow.update(name=contracts.DENY, description="Do not let a call run: {call_id, arguments_sha256, reason}.")
    def deny(self, *args: Any) -> str:
        """A person does not let the effect that waits be made; the model reads why. Returns what stands."""
        return self._answer(answering.read_denial, args)

    @deny.validator
    def _check_deny(self, *args: Any) -> None:
        self._check_answer(answering.read_denial, args)

    @workflow.signal(name=contracts.DENY, description="The same as the update, for when no worker answers.")
    def deny_later(self, *args: Any) -> None:
        """A denial that waits for a worker; one that does not fit is recorded and changes nothing."""
        self._answer_later(answering.read_denial, args)

    @workflow.update(
        name=contracts.RESOLVE,
        description="Say what came of a call: {call_id, arguments_sha256, outcome: happened (with result), "
        "did_not_happen or stop, reason}.",
    )
    def resolve(self, *args: Any) -> str:
        """A person says what came of the effect whose outcome is unknown. Returns what stands."""
        return self._answer(answering.read_resolution, args)

    @resolve.validator
    def _check_resolve(self, *args: Any) -> None:
        self._check_answer(answering.read_resolution, args)

    @workflow.signal(name=contracts.RESOLVE, description="The same as the update, for when no worker answers.")
    def resolve_later(self, *args: Any) -> None:
        """A resolution that waits for a worker; one that does not fit is recorded and changes nothing."""
        self._answer_later(answering.read_resolution, args)

    @workflow.signal(dynamic=True)
    def unknown(self, name: str, _: Sequence[RawValue]) -> None:
        """A signal of no known name changes nothing and is recorded."""
        self._received("unknown_signal", name=name)

    @workflow.query(name=contracts.STATE, description="Status, phase, counters, limits, and what the run waits for.")
    def state(self, *_: Any) -> StateView:
        """The state as a person sees it."""
        return self._view()

    def _answer(self, read: ReadAnswer, args: tuple[Any, ...]) -> str:
        with _refusing():  # two answers in one task: the second is checked before the first counts
            return self._take_answer(read, args)

    def _answer_later(self, read: ReadAnswer, args: tuple[Any, ...]) -> None:
        with self._recording("answer_refused"):
            self._take_answer(read, args)

    def _take_answer(self, read: ReadAnswer, args: tuple[Any, ...]) -> str:
        answer = read(self._state, args, workflow.time())
        words = answering.apply(self._state, answer)
        self._received(answer.kind, call_id=answer.call_id, reason=answer.reason)
        return words

    def _check_answer(self, read: ReadAnswer, args: tuple[Any, ...]) -> None:
        self._refuse_if_ended()
        with _refusing():
            read(self._state, args, workflow.time())

    def _change_limits(self, args: tuple[Any, ...]) -> None:
        changes, request_id = inbox.read_limits(args)
        if not self._state.request_is_new(request_id):
            return
        if self._spec is None:
            self._early_limits.update(changes)
        self._state.limits = self._state.limits.changed(changes)
        self._received("set_limits", **{name: str(value) for name, value in changes.items()})

    def _deadline(self) -> float | None:
        """Seconds since the epoch; None while it is not known, since only the agent has one."""
        if self._spec is not None:
            return self._state.deadline
        seconds = self._early_limits.get("seconds", self._given_seconds)
        return self._state.started_at + seconds if isinstance(seconds, int | float) else None

    def _with_early_limits(self, limits: Limits) -> Limits:
        return limits.changed(self._early_limits)

    def _received(self, kind: str, **detail: str | None) -> None:
        self._messages_received += 1
        self._state.decide(workflow.time(), kind, **detail)

    @contextmanager
    def _recording(self, kind: str) -> Iterator[None]:
        """A signal that is refused is recorded as a decision of this kind."""
        try:
            yield
        except MessageRefused as refused:
            self._received(kind, reason=str(refused))

    def _refuse_if_ended(self) -> None:
        if self._result is not None:
            text = f"the run has ended with {self._result.status}; nothing can be changed any more"
            raise ApplicationError(text, type=MESSAGE_REFUSED, non_retryable=True)

    def _view(self) -> StateView:
        waiting = self._waiting
        status = "ENDED" if self._result else "WAITING" if waiting else "RUNNING"
        view = self._state.view(workflow.time())
        fund = self._spec.fund if self._spec else None
        commands = remedies.going_on(view.run_id, waiting, view.question, fund) if waiting else ()
        return view.model_copy(
            update={
                "status": status,
                "phase": f"{self._phase}, then paused" if self._state.paused and not waiting else self._phase,
                "waiting_for": f"{waiting.reason}: {waiting.remedy}" if waiting else None,
                "commands": tuple(commands),
                "answered": {name: answering.WORDS[kind] for name, kind in self._state.answered_calls.items()},
                "agent": self._spec.agent.name if self._spec else None,
                "endpoint": self._spec.endpoint.name if self._spec else None,
                "fund": fund,
                "result": self._result,
            }
        )
