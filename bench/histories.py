"""What a history weighs: the bytes of its events as the server keeps and sends them, over the whole chain of a run."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory


class Weighed(BaseModel):
    """The weight of one shift's history."""

    model_config = ConfigDict(frozen=True)

    events: int
    bytes: int
    runs: int
    """Runs of its chain; more than one after continue-as-new."""
    largest_run: int
    """Bytes of the heaviest of these runs."""
    longest_run: int
    """Events of the longest of them."""
    by_step: list[int]
    """Bytes of each step's events: from the scheduling of its model call to that of the next one."""


@dataclass(frozen=True)
class Chain:
    """The histories of one shift's runs."""

    runs: Sequence[WorkflowHistory]
    model_call: str
    """The type of the activity that is its model call."""

    def weigh(self, steps: int) -> Weighed:
        """Weigh as many steps as that."""
        sizes = [sum(event.ByteSize() for event in run.events) for run in self.runs]
        by_step: list[int] = []
        for event in self._events():
            if self.begins_step(event):
                by_step.append(0)
            if by_step:
                by_step[-1] += event.ByteSize()
        return Weighed(
            events=sum(len(run.events) for run in self.runs),
            bytes=sum(sizes),
            runs=len(sizes),
            largest_run=max(sizes),
            longest_run=len(self.longest().events),
            by_step=by_step[:steps],
        )

    def began(self) -> list[float]:
        """When each model call was scheduled, in seconds since 1970."""
        return [seconds(event) for event in self._events() if self.begins_step(event)]

    def completed(self) -> list[float]:
        """When each activity was completed, in seconds since 1970."""
        done = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
        return [seconds(event) for event in self._events() if event.event_type == done]

    def begins_step(self, event: HistoryEvent) -> bool:
        """Whether it schedules a model call."""
        scheduled = event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        return scheduled and event.activity_task_scheduled_event_attributes.activity_type.name == self.model_call

    def longest(self) -> WorkflowHistory:
        """The run that has most events."""
        return max(self.runs, key=lambda run: len(run.events))

    def heartbeat(self) -> float | None:
        """Seconds without a heartbeat that the last activity is allowed; None: it sends none."""
        events = [event for event in self._events() if event.HasField("activity_task_scheduled_event_attributes")]
        allowed = events[-1].activity_task_scheduled_event_attributes.heartbeat_timeout.ToTimedelta()
        return allowed.total_seconds() or None

    def _events(self) -> list[HistoryEvent]:
        return [event for run in self.runs for event in run.events]


def seconds(event: HistoryEvent) -> float:
    """When an event was, in seconds since 1970."""
    return event.event_time.seconds + event.event_time.nanos / 1e9


async def fetch(client: Client, workflow_id: str, first_run_id: str, model_call: str) -> Chain:
    """The histories of a shift, as they stand."""
    runs: list[WorkflowHistory] = []
    run_id = first_run_id
    while run_id:
        runs.append(await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history())
        run_id = runs[-1].events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return Chain(runs, model_call)
