"""The story of a run: what its history says, in lines for a person. Pure; `following.py` reads the history.

What stands in a line came from a model, a tool or a stranger: every line is made inert before it leaves this file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from client.happenings import Happening
from client.inert import MAX_TEXT, inert, short, short_json
from longshift import contracts, inbox, observations
from longshift.context import Excerpt
from longshift.contracts import (
    CalledModel,
    CallModel,
    CloseRun,
    Entry,
    OpenedRun,
    RanTool,
    RunTool,
    SettledEffect,
    SettleEffect,
)
from longshift.messages import Message, ToolMessage
from longshift.run_input import RunInput
from longshift.status import Status
from longshift.turns import ModelFailure

MAX_WAITING = 1000
"""Characters shown of what a run waits for: a question's arguments are among them, and it ends with the remedy."""
ANSWERS = {contracts.APPROVE: "approved", contracts.DENY: "denied", contracts.RESOLVE: "resolved"}
"""What each answer to a question does, by the name of its message."""

Kind = Literal[
    "started",  # the run began, or went on in a new run of its chain
    "opened",  # the agent is resolved, the journal begun
    "note",  # what a person should know of this run
    "model",  # a model call began, failed, was cancelled, or lost its worker
    "turn",  # a model call brought a turn
    "tool",  # a tool call ended
    "message",  # a person sent something
    "waiting",  # the run waits
    "goes_on",  # it does not wait any more
    "stuck",  # workflow code failed
    "lost",  # a worker did not answer
    "reset",  # an operator reset the workflow
    "ended",
]


@dataclass(frozen=True)
class StoryLine:
    """One line of a run's story."""

    at: float
    """Seconds since the epoch, by the server's clock."""
    kind: Kind
    text: str
    """One line; inert."""


Lines = Iterator[tuple[Kind, str]]
Model = TypeVar("Model", bound=BaseModel)


class Story:
    """Tells the events of one chain of runs, in order. It remembers only what later events refer to."""

    def __init__(self) -> None:
        self._scheduled: dict[int, Happening] = {}
        """Activities under way, by the number of the event that scheduled them."""
        self._waiting = False
        self._sent: Excerpt | None = None
        """What the latest model call was sent, where it was not the whole transcript."""
        self._detail = ""
        """The memo's latest word on how the run stands or ended."""
        self._tellers: Mapping[str, Callable[[Happening], Lines]] = {
            "WORKFLOW_EXECUTION_STARTED": self._started,
            "WORKFLOW_EXECUTION_CONTINUED_AS_NEW": self._continued,
            "WORKFLOW_TASK_FAILED": self._task_failed,
            "WORKFLOW_TASK_TIMED_OUT": self._task_timed_out,
            "ACTIVITY_TASK_SCHEDULED": self._activity_scheduled,
            "ACTIVITY_TASK_STARTED": self._activity_started,
            "ACTIVITY_TASK_COMPLETED": self._activity_completed,
            "ACTIVITY_TASK_FAILED": self._activity_failed,
            "ACTIVITY_TASK_TIMED_OUT": self._activity_failed,
            "ACTIVITY_TASK_CANCELED": self._activity_cancelled,
            "TIMER_STARTED": self._timer_started,
            "WORKFLOW_EXECUTION_SIGNALED": self._signalled,
            "WORKFLOW_EXECUTION_UPDATE_ACCEPTED": self._updated,
            "WORKFLOW_EXECUTION_CANCEL_REQUESTED": self._cancel_requested,
            "WORKFLOW_PROPERTIES_MODIFIED": self._memo_changed,
            "WORKFLOW_EXECUTION_COMPLETED": self._completed,
            "WORKFLOW_EXECUTION_FAILED": self._failed,
            "WORKFLOW_EXECUTION_CANCELED": self._cancelled,
            "WORKFLOW_EXECUTION_TERMINATED": self._terminated,
            "WORKFLOW_EXECUTION_TIMED_OUT": self._timed_out,
        }

    def tell(self, happening: Happening) -> list[StoryLine]:
        """The lines that one event is worth: none for most of Temporal's own book-keeping."""
        teller = self._tellers.get(happening.event)
        return [StoryLine(happening.at, kind, inert(text)) for kind, text in teller(happening)] if teller else []

    # The run

    def _started(self, happening: Happening) -> Lines:
        if happening.again:
            return
        given = _read(RunInput, happening.values)
        if given is None:
            yield "started", "started, with an input that is not a run's"
            return
        task = given.task if given.task is not None else f"{len(given.messages)} messages to go on from"
        yield "started", f"started: agent {given.agent}: {short(task)}"

    def _continued(self, _: Happening) -> Lines:
        self._scheduled.clear()
        yield "started", "goes on in a new run of its chain, since the history grew long"

    def _task_failed(self, happening: Happening) -> Lines:
        if happening.reason == "RESET_WORKFLOW":
            yield "reset", f"the workflow was reset{_because(happening)}; what follows the reset point runs anew"
        elif happening.reason != "UNHANDLED_COMMAND":  # that one means that a message came with the last step
            said = happening.failure.message if happening.failure else happening.reason
            yield "stuck", f"workflow code failed: {short(said)}; the run waits for workers that are mended"

    def _task_timed_out(self, happening: Happening) -> Lines:
        how = "took a step too long" if happening.reason == "START_TO_CLOSE" else "did not answer"
        yield "lost", f"the worker {how}; the step is handed out again"

    def _completed(self, happening: Happening) -> Lines:
        if not happening.again:
            yield from self._ended(happening.values)

    def _failed(self, happening: Happening) -> Lines:
        if happening.again or happening.failure is None:
            return
        if happening.failure.details:
            yield from self._ended(happening.failure.details)
        else:
            yield "ended", f"ended: {happening.failure.type}: {short(happening.failure.message)}"

    def _ended(self, values: Sequence[Any]) -> Lines:
        body = values[0] if values and isinstance(values[0], dict) else {}
        unknown = body.get("unknown_calls")
        maybe = f"; may have happened: {short(', '.join(map(str, unknown)))}" if isinstance(unknown, list) else ""
        yield "ended", f"ended: {body.get('status', 'without a result')}: {short(str(body.get('detail', '')))}{maybe}"

    def _cancelled(self, _: Happening) -> Lines:
        yield "ended", f"ended: {Status.STOP_REQUESTED}: {short(self._detail) or 'the workflow was cancelled'}"

    def _terminated(self, happening: Happening) -> Lines:
        self._scheduled.clear()
        yield "ended", f"ended: {Status.TERMINATED}: by {short(happening.who) or 'someone'}{_because(happening)}"

    def _timed_out(self, happening: Happening) -> Lines:
        if not happening.again:
            yield "ended", f"ended: {Status.TERMINATED}: the server's own time limit for the workflow passed"

    # Activities

    def _activity_scheduled(self, happening: Happening) -> Lines:
        self._scheduled[happening.number] = happening
        again = contracts.AGAIN in happening.id
        if happening.name == contracts.CLOSE_RUN and (closing := _read(CloseRun, happening.values)):
            yield from _undispatched(closing.entries)
        if happening.name == contracts.CALL_MODEL:
            request = _read(CallModel, happening.values)
            yield from _undispatched(request.entries if request is not None and not again else ())
            how = self._how(request) if request is not None else ""
            yield "model", f"{_subject(happening)} {'was handed out again' if again else 'began'}{how}"
        if happening.name == contracts.SETTLE_EFFECT and (asked := _read(SettleEffect, happening.values)):
            what = "finding out what came of it" if asked.resolution is None else "entering what a person says of it"
            yield "tool", f"{_subject(happening)}: {what}"

    def _how(self, request: CallModel) -> str:
        """What is worth saying of how a model call is sent: also that the window has moved, the first time."""
        if request.asks_for_summary:
            return ", a summary of what is to leave the context"
        wrap_up = "" if request.tools else ", a wrap-up"
        excerpt = request.excerpt
        if excerpt is None or excerpt == self._sent:
            return wrap_up
        self._sent = excerpt
        count = f"{excerpt.exchanges} earlier exchange{'' if excerpt.exchanges == 1 else 's'} left out"
        told = excerpt.summary
        by = f", {told.exchanges} of them told by the summary of model call {told.call}" if told else ""
        return f"{wrap_up}; {count}{by}"

    def _activity_started(self, happening: Happening) -> Lines:
        if happening.about in self._scheduled:
            known = self._scheduled[happening.about]
            self._scheduled[happening.about] = replace(known, attempt=happening.attempt)
        yield from ()

    def _activity_completed(self, happening: Happening) -> Lines:
        asked = self._scheduled.pop(happening.about, None)
        if asked is None:
            return
        if asked.name == contracts.OPEN_RUN and (opened := _read(OpenedRun, happening.values)):
            spec = opened.spec
            tools = _count(spec.agent.tools, "tool")
            fund = f", fund {spec.fund}" if spec.fund is not None else ""
            yield "opened", f"opened: endpoint {spec.endpoint.name} ({spec.endpoint.model}), {tools}{fund}"
            for note in spec.notes:
                yield "note", short(note)
        if asked.name == contracts.CALL_MODEL and (called := _read(CalledModel, happening.values)):
            yield "turn", f"{_subject(asked)}: {_turn(asked, called)}"
        if asked.name == contracts.SETTLE_EFFECT and (settled := _read(SettledEffect, happening.values)):
            yield "tool", f"{_subject(asked)}: {_settled(settled)}"
        if asked.name == contracts.RUN_TOOL and (ran := _read(RanTool, happening.values)):
            tries = f", at attempt {asked.attempt}" if asked.attempt > 1 else ""
            end = "; the tool says that nothing can help, and the run ends" if ran.fatal else ""
            yield "tool", f"{_subject(asked)}: {_observed(ran.observation.message)}{tries}{end}"

    def _activity_failed(self, happening: Happening) -> Lines:
        asked, failure = self._scheduled.pop(happening.about, None), happening.failure
        if asked is None or failure is None:
            return
        reported = _read(ModelFailure, failure.details) if failure.type == contracts.MODEL_FAILURE else None
        why = f"failed: {short(reported.message if reported else failure.message)}"
        if failure.type == "HEARTBEAT":
            why = "its worker gives no sign of life any more"
        elif failure.type == contracts.WORKER_SHUTDOWN:
            why = "its worker was shut down"
        elif failure.type == contracts.OUTCOME_UNKNOWN:
            why = f"may or may not have happened: {short(failure.message)}"
        elif happening.event == "ACTIVITY_TASK_TIMED_OUT":
            last = f": {short(failure.message)}" if failure.message else ""
            why = "took longer than its time" if failure.type == "START_TO_CLOSE" else f"no worker did it in time{last}"
        kind: Kind = "model" if asked.name == contracts.CALL_MODEL else "tool"
        yield kind if asked.name in (contracts.CALL_MODEL, contracts.RUN_TOOL) else "note", f"{_subject(asked)}: {why}"

    def _activity_cancelled(self, happening: Happening) -> Lines:
        asked = self._scheduled.pop(happening.about, None)
        if asked is not None and asked.name in (contracts.CALL_MODEL, contracts.RUN_TOOL):
            yield "model" if asked.name == contracts.CALL_MODEL else "tool", f"{_subject(asked)}: cancelled"

    # Waiting, and what people send

    def _timer_started(self, happening: Happening) -> Lines:
        if happening.summary and happening.summary != contracts.DEADLINE:
            yield "waiting", f"waiting {happening.seconds:.1f} s: {short(happening.summary)}"

    def _memo_changed(self, happening: Happening) -> Lines:
        memo = happening.memo or {}
        self._detail = str(memo.get("detail", self._detail))
        waits = memo.get("status") == "WAITING"
        if waits:
            yield "waiting", f"waiting: {short(self._detail, MAX_WAITING)}"
        elif self._waiting:
            yield "goes_on", "goes on"
        self._waiting = waits

    def _signalled(self, happening: Happening) -> Lines:
        values = happening.values
        if happening.name == contracts.STOP:
            stop = inbox.read_stop(values)
            yield "message", f"stop ({stop.mode}): {short(stop.reason) or 'no reason given'}"
        elif happening.name == contracts.SET_LIMITS:
            yield "message", f"limits changed by a message that waits for a worker: {_changes(values)}"
        elif happening.name == contracts.TELL:
            yield "message", f"a user's message that waits for a worker: {_told(values)}"
        elif happening.name in ANSWERS:
            yield "message", f"{_answer(happening)}, by a message that waits for a worker"
        elif happening.name in (contracts.PAUSE, contracts.RESUME):
            yield "message", happening.name
        else:
            yield "message", f"a signal of no known name, which changes nothing: {short(happening.name)}"

    def _updated(self, happening: Happening) -> Lines:
        if happening.name == contracts.SET_LIMITS:
            yield "message", f"limits changed: {_changes(happening.values)}"
        elif happening.name in ANSWERS:
            yield "message", _answer(happening)
        else:
            yield "message", f"{short(happening.name)}: {_told(happening.values)}"

    def _cancel_requested(self, happening: Happening) -> Lines:
        yield "message", f"cancel{_because(happening)}"


def _subject(asked: Happening) -> str:
    """What an activity is called in a story."""
    if asked.name == contracts.CALL_MODEL:
        request = _read(CallModel, asked.values)
        return f"model call {request.number}" if request else "a model call"
    if asked.name in (contracts.RUN_TOOL, contracts.SETTLE_EFFECT):
        settling = _read(SettleEffect, asked.values) if asked.name == contracts.SETTLE_EFFECT else None
        tool = settling.call if settling else _read(RunTool, asked.values)
        if tool is None:
            return "a tool call"
        return f"{short(tool.call.name, 64)} {short_json(tool.call.arguments)}"
    return {contracts.OPEN_RUN: "opening the run", contracts.CLOSE_RUN: "recording the end"}.get(asked.name, asked.name)


def _turn(asked: Happening, called: CalledModel) -> str:
    turn, request = called.turn, _read(CallModel, asked.values)
    calls, text = turn.message.calls, short(turn.message.content)
    answer = "summary" if request is not None and request.asks_for_summary else "answer"
    what = _count(calls, "call") if calls else answer if text else "neither text nor calls"
    tokens = turn.usage.output_tokens
    used = f"{tokens} tokens" if tokens is not None else "tokens not reported"
    said = f": {text}" if text else ""
    return f"{what}, {used}, {turn.milliseconds / 1000:.1f} s{said}"


def _undispatched(entries: Sequence[Entry]) -> Lines:
    """Calls that no worker was asked to run, since the workflow itself knew the observation: unknown tools and such."""
    for entry in entries:
        if isinstance(entry.message, ToolMessage):
            yield "tool", f"{short(entry.message.name, 64)}, not run: {_observed(entry.message)}"


def _observed(message: Message) -> str:
    try:
        body = observations.read(message.content if isinstance(message, ToolMessage) else "")
    except ValueError:
        return "an observation that cannot be read"
    error = body.get("error")
    if isinstance(error, dict):
        return f"error {short(str(error['kind']), 40)}: {short(str(error['message']))}"
    return "ok"


def _settled(settled: SettledEffect) -> str:
    if settled.ran is not None:
        return _observed(settled.ran.observation.message)
    if settled.fence is not None and settled.unknown is None:
        return "it was surely not run"
    return f"it may or may not have happened: {short(settled.unknown or 'nothing is known of it')}"


def _answer(happening: Happening) -> str:
    """What a person answered to a question."""
    value = happening.values[0] if happening.values else None
    given = value if isinstance(value, dict) else {}
    outcome = f": {_sent(given.get('outcome'))}" if happening.name == contracts.RESOLVE else ""
    result = f" with {short_json(given['result'])}" if "result" in given else ""
    reason = f", since: {_sent(given['reason'])}" if given.get("reason") else ""
    return f"{ANSWERS[happening.name]} {_sent(given.get('call_id', 'no call'), 64)}{outcome}{result}{reason}"


def _changes(values: Sequence[Any]) -> str:
    value = values[0] if values else None
    if not isinstance(value, dict):
        return "not an object, which is refused"
    return short(", ".join(f"{name} {_sent(new)}" for name, new in value.items() if name != "request_id"))


def _told(values: Sequence[Any]) -> str:
    value = values[0] if values else ""
    return _sent(value.get("text", "") if isinstance(value, dict) else value)


def _sent(value: object, characters: int = MAX_TEXT) -> str:
    """Whatever a stranger sent, as one short line: a text as it stands, another value as its JSON."""
    return short(value, characters) if isinstance(value, str) else short_json(value, characters)


def _because(happening: Happening) -> str:
    return f": {short(happening.reason)}" if happening.reason else ""


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _read(model: type[Model], values: Sequence[Any]) -> Model | None:
    """The first value as what it should be; None where it is something else, which a story passes over."""
    try:
        return model.model_validate(values[0] if values else None)
    except ValidationError:
        return None
