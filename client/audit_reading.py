"""Reading what Temporal holds of a run, all of it: the chain, and every way that a reset has left.

Payloads are decoded with the client's own converter, so that histories that a codec encrypts can be audited by whoever
has its key.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from client.errors import NoSuchRun, Unreadable, rpc_border
from client.happenings import Happening
from client.history import converter_of, happening, next_run
from client.snapshots import describe
from longshift import contracts
from longshift.audit.history import NOT_TAKEN, Failed, History, Part, Request, Returned, Step, history_of
from longshift.contracts import (
    CalledModel,
    CallModel,
    CloseRun,
    OpenedRun,
    OpenRun,
    RanTool,
    RunResult,
    RunTool,
    SettledEffect,
    SettleEffect,
)
from longshift.run_input import RunInput
from longshift.state import Carried
from longshift.turns import ModelFailure
from worker import plugin

Model = TypeVar("Model", bound=BaseModel)

REQUESTS: dict[str, TypeAdapter[Request]] = {
    contracts.OPEN_RUN: TypeAdapter(OpenRun),
    contracts.CALL_MODEL: TypeAdapter(CallModel),
    contracts.RUN_TOOL: TypeAdapter(RunTool),
    contracts.SETTLE_EFFECT: TypeAdapter(SettleEffect),
    contracts.CLOSE_RUN: TypeAdapter(CloseRun),
}
RESULTS: dict[str, TypeAdapter[Returned]] = {
    contracts.OPEN_RUN: TypeAdapter(OpenedRun),
    contracts.CALL_MODEL: TypeAdapter(CalledModel),
    contracts.RUN_TOOL: TypeAdapter(RanTool),
    contracts.SETTLE_EFFECT: TypeAdapter(SettledEffect),
    contracts.CLOSE_RUN: TypeAdapter(None),
}
"""What each activity takes and gives back."""
CLOSED = ("COMPLETED", "FAILED", "CANCELED", "TERMINATED", "TIMED_OUT", "CONTINUED_AS_NEW")
"""Temporal's words for how a run closes."""


@dataclass(frozen=True)
class TemporalRun:
    """The events of one Temporal run, and which runs it belongs to."""

    run: str
    """Temporal's id of it."""
    events: tuple[Happening, ...]
    continued_from: str = ""
    """Temporal's id of the run before it in the chain."""
    reset_from: str = ""
    """Temporal's id of the run that a reset made it from."""
    goes_on_in: str = ""
    """Temporal's id of the run after it in the chain."""


@dataclass(frozen=True)
class Recording:
    """All that Temporal holds of a run."""

    latest: str
    """Temporal's id of the run that counts."""
    runs: tuple[TemporalRun, ...]
    missing: tuple[str, ...] = ()
    """Ids of runs that belong to it and are not there any more."""

    @property
    def closed(self) -> bool:
        """Whether the run that counts has closed."""
        events = next(run.events for run in self.runs if run.run == self.latest)
        return bool(events) and _closing(events[-1]) != ""

    @property
    def events(self) -> dict[str, int]:
        """How many events each run has."""
        return {run.run: len(run.events) for run in self.runs}


def _closing(event: Happening) -> str:
    """Temporal's word for how a run closed with its last event; empty where it did not."""
    word = event.event.removeprefix("WORKFLOW_EXECUTION_")
    return word if word in CLOSED else ""


async def read_recording(client: Client, run_id: str) -> Recording:
    """Read all that Temporal holds of a run.

    Raises:
        NoSuchRun: the server does not know it, or keeps it no longer; or it is no run of ours.
        NoServer: the server does not answer.
    """
    converter = converter_of(client, run_id)
    with rpc_border(run_id):
        latest = (await describe(client, run_id)).run_id
        linked = [latest]  # named by the run itself: where one of these is gone, something is missing
        waiting, found, gone = [latest, *await _listed(client, run_id)], dict[str, TemporalRun](), set[str]()
        while waiting:
            current = waiting.pop(0)
            if current in found or current in gone:
                continue
            run = await _read_run(client, run_id, current, converter)
            if run is None:
                gone.add(current)
                continue
            found[current] = run
            named = [one for one in (run.continued_from, run.reset_from, run.goes_on_in) if one]
            linked += named
            waiting += named
    if latest not in found:
        raise NoSuchRun(run_id)
    return Recording(latest, tuple(found.values()), tuple(one for one in dict.fromkeys(linked) if one in gone))


async def _listed(client: Client, run_id: str) -> list[str]:
    """Temporal's ids of all runs that the server lists under a run's id. Whoever starts an ended run again, under its
    own id, makes another chain on the same journal."""
    if "'" in run_id:
        return []  # no id of ours, and the query knows no way to write it
    found = client.list_workflows(f"WorkflowId = '{run_id}'")
    return [execution.run_id async for execution in found]


async def _read_run(client: Client, run_id: str, run: str, converter: DataConverter) -> TemporalRun | None:
    """One Temporal run; None where the server keeps it no longer."""
    try:
        return await decoded(run, client.get_workflow_handle(run_id, run_id=run).fetch_history_events(), converter)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


async def decoded(run: str, events: AsyncIterator[HistoryEvent], converter: DataConverter) -> TemporalRun:
    """One Temporal run of its events, as the server sends them."""
    found: list[Happening] = []
    continued_from = reset_from = goes_on_in = ""
    async for event in events:
        found.append(await happening(event, converter))
        if event.HasField("workflow_execution_started_event_attributes"):
            continued_from = event.workflow_execution_started_event_attributes.continued_execution_run_id
        elif event.HasField("workflow_task_failed_event_attributes"):
            reset_from = event.workflow_task_failed_event_attributes.base_run_id or reset_from
        goes_on_in = next_run(event) or goes_on_in
    return TemporalRun(run, tuple(found), continued_from, reset_from, goes_on_in)


def history_in(recording: Recording, known: dict[str, int] | None = None) -> History:
    """The facts of a recording.

    Args:
        known: of a run at work, how many events there were before its journal was read. What came of a step, and of
            the run, after that is not taken as known: its row may have been read before it was written.

    Raises Unreadable where a payload cannot be read, such as an encrypted one without its key.
    """
    parts = [_part(run, len(run.events) if known is None else known.get(run.run, 0)) for run in recording.runs]
    return history_of(parts, recording.latest, recording.missing)


def _part(run: TemporalRun, until: int) -> Part:
    reading = _Reading(run, until)
    for event in run.events:
        reading.take(event)
    return reading.part()


class _Reading:
    """Makes the facts of one Temporal run of its events."""

    def __init__(self, run: TemporalRun, until: int) -> None:
        self.run, self.until = run, until
        self.scheduled: dict[int, tuple[Happening, Request]] = {}
        self.begun: set[int] = set()
        self.ended: dict[int, Happening] = {}
        self.first: Happening | None = None
        self.last: Happening | None = None
        self.problem: str | None = None

    def take(self, event: Happening) -> None:
        """Take the next event."""
        number = self.last.number + 1 if self.last else 1
        if event.number != number and self.problem is None:
            self.problem = f"event {number} is missing"
        self.last = event
        match event.event:
            case "WORKFLOW_EXECUTION_STARTED":
                self.first = event
            case "ACTIVITY_TASK_SCHEDULED" if event.name in REQUESTS:
                self.scheduled[event.number] = (event, self._value(event, REQUESTS[event.name]))
            case "ACTIVITY_TASK_STARTED":
                self.begun.add(event.about)
            case (
                "ACTIVITY_TASK_COMPLETED"
                | "ACTIVITY_TASK_FAILED"
                | "ACTIVITY_TASK_TIMED_OUT"
                | "ACTIVITY_TASK_CANCELED"
            ):
                if event.number <= self.until:
                    self.ended[event.about] = event

    def part(self) -> Part:
        """The facts."""
        first, last = self.first, self.last
        carried = self._read(Carried, first) if first is not None and self.run.continued_from else None
        given = self._read(RunInput, first) if first is not None and not self.run.continued_from else None
        closed = _closing(last) if last is not None and last.number <= self.until else ""
        if self.run.continued_from and carried is None:
            self.problem = self.problem or "what it was handed cannot be read"
        result, refused = None, False
        if closed == "COMPLETED":
            result = self._read(RunResult, last)
        elif closed == "FAILED" and last is not None and last.failure is not None:
            refused = last.failure.type == contracts.INPUT_REFUSED
            result = _read(RunResult, last.failure.details)
        return Part(
            run=self.run.run,
            steps=tuple(self._step(*self.scheduled[number]) for number in sorted(self.scheduled)),
            given=given,
            carried=carried,
            hands_over=self._read(Carried, last) if closed == "CONTINUED_AS_NEW" else None,
            closed=closed,
            result=result,
            refused=refused,
            continued_from=self.run.continued_from,
            reset_from=self.run.reset_from,
            problem=self.problem,
        )

    def _step(self, event: Happening, request: Request) -> Step:
        end = self.ended.get(event.number)
        step = Step(number=event.number, at=event.at, id=event.id, request=request)
        if end is None:
            return step
        if end.event != "ACTIVITY_TASK_COMPLETED":
            return Step(event.number, event.at, event.id, request, end.at, failed=self._failed(event, end))
        try:
            returned = self._value(end, RESULTS[event.name])
        except Unreadable as error:  # for want of no key: the request could be read
            why = f"the result of {event.id} is none that {event.name} gives, as where it was completed by hand"
            self.problem = self.problem or f"{why}: {error}"
            failed = Failed(contracts.RESULT_MISFIT, why)  # as the workflow took it
            return Step(event.number, event.at, event.id, request, end.at, failed=failed)
        return Step(event.number, event.at, event.id, request, end.at, done=True, returned=returned)

    def _failed(self, event: Happening, end: Happening) -> Failed:
        not_taken = event.number not in self.begun and end.event == "ACTIVITY_TASK_CANCELED"
        if not_taken or (end.failure is not None and end.failure.type == "SCHEDULE_TO_START"):
            return Failed(NOT_TAKEN, "no worker took it")
        if end.failure is None:
            return Failed("Cancelled", "it was cancelled")
        reported = _read(ModelFailure, end.failure.details) if end.failure.type == contracts.MODEL_FAILURE else None
        return Failed(end.failure.type, end.failure.message, reported)

    def _value(self, event: Happening, adapter: TypeAdapter[Any]) -> Any:
        """The one payload of an event of ours. Raises Unreadable."""
        where = f"event {event.number} of Temporal run {self.run.run}"
        if not event.values or isinstance(event.values[0], plugin.Unreadable):
            raise Unreadable(f"{where} has a payload that cannot be read: use the codec and the key of the workers")
        try:
            return adapter.validate_python(event.values[0])
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "value"
            raise Unreadable(f"{where} is of another version, or was changed: {place}: {first['msg']}") from None

    def _read(self, model: type[Model], event: Happening | None) -> Model | None:
        return _read(model, event.values) if event is not None else None


def _read(model: type[Model], values: Sequence[Any]) -> Model | None:
    try:
        return model.model_validate(values[0] if values else None)
    except ValidationError:
        return None
