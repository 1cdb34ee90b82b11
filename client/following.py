"""Reading a run's history as it grows: its story, line by line, and its end.

A run is a chain of Temporal runs: it goes on in another after continue-as-new, and after an operator's reset.
"""

from collections.abc import AsyncIterator

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistoryEventFilterType
from temporalio.service import RPCError, RPCStatusCode

from client.errors import rpc_border
from client.history import converter_of, happening, next_run
from client.story import Story, StoryLine


async def follow(client: Client, run_id: str) -> AsyncIterator[StoryLine]:
    """The story of a run from its beginning, then live, until it has ended.

    Raises:
        NoSuchRun: the server does not know the run.
        NoServer: the server does not answer any more.
    """
    converter = converter_of(client, run_id)
    story, told, floor = Story(), 0.0, 0.0
    with rpc_border(run_id):
        current = await _first_run(client, run_id)
        while True:
            following = ""
            handle = client.get_workflow_handle(run_id, run_id=current)
            async for event in handle.fetch_history_events(wait_new_event=True):
                seen = await happening(event, converter)
                lines = story.tell(seen)
                if seen.at > floor:
                    for line in lines:
                        yield line
                following = next_run(event)
                if not _closes(event):
                    told = seen.at
            if not following:
                following = await _latest_run(client, run_id)
                if following == current:
                    return
                floor = told  # a reset copies the events before its point, with their times
            current = following


async def end_of(client: Client, run_id: str) -> tuple[HistoryEvent, str]:
    """Wait for a run's end.

    Returns:
        The event that ended it, and Temporal's id of the run in which it did.

    Raises: as `follow`.
    """
    with rpc_border(run_id):
        current = await _latest_run(client, run_id)
        while True:
            handle = client.get_workflow_handle(run_id, run_id=current)
            closing = [
                event
                async for event in handle.fetch_history_events(
                    wait_new_event=True,
                    event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT,
                    skip_archival=True,
                )
            ][-1]
            following = next_run(closing) or await _latest_run(client, run_id)
            if following == current:
                return closing, current
            current = following


async def _latest_run(client: Client, run_id: str) -> str:
    return (await client.get_workflow_handle(run_id).describe()).run_id


async def _first_run(client: Client, run_id: str) -> str:
    """Temporal's id of the first run of the chain that the server still holds."""
    latest = await client.get_workflow_handle(run_id).describe()
    first: str = latest.raw_info.first_run_id or latest.run_id
    try:
        await client.get_workflow_handle(run_id, run_id=first).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return latest.run_id  # its retention passed
    return first


def _closes(event: HistoryEvent) -> bool:
    name = event.WhichOneof("attributes") or ""
    return name.startswith("workflow_execution_") and name.split("_")[2] in (
        "completed",
        "failed",
        "canceled",
        "terminated",
        "timed",
        "continued",
    )
