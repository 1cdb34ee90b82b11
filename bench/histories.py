"""What a history weighs: the bytes of its events as the server keeps and sends them, over the whole chain of a run."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

AROUND = 4
"""Steps on either side of one whose weight is asked for: the median of all is told, so that continue-as-new, which
falls on one step of hundreds, is seen in the average and not here."""


@dataclass(frozen=True)
class Weighed:
    """The weight of one shift's history."""

    events: int
    bytes: int
    runs: int
    """Runs of its chain; more than one after continue-as-new."""
    largest_run: int
    """Bytes of the heaviest of these runs."""
    by_step: Sequence[int]
    """Bytes of each step's events: from the scheduling of its model call to that of the next one."""

    def at(self, step: int) -> int:
        """Bytes of a step, from 1; the median of it and its neighbours."""
        around = self.by_step[max(0, step - 1 - AROUND) : step + AROUND]
        return int(statistics.median(around))


async def weigh(client: Client, workflow_id: str, first_run_id: str, steps: int) -> Weighed:
    """Fetch and weigh the history of a closed shift of so many steps."""
    events: list[HistoryEvent] = []
    sizes: list[int] = []
    run_id = first_run_id
    while run_id:
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        events += history.events
        sizes.append(sum(event.ByteSize() for event in history.events))
        run_id = events[-1].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    by_step: list[int] = []
    for event in events:
        scheduled = event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
        if scheduled and event.activity_task_scheduled_event_attributes.activity_type.name == "call_model":
            by_step.append(0)
        if by_step:
            by_step[-1] += event.ByteSize()
    return Weighed(len(events), sum(sizes), len(sizes), max(sizes), by_step[:steps])
