"""Making a run's rows in the journal from its history: reads both, lets the core decide, writes in one transaction."""

import time
from collections.abc import Callable

from temporalio.client import Client, WorkflowExecutionStatus

from client.audit_reading import history_in, read_recording
from client.ending import open_journal, shown
from client.errors import Refused, rpc_border
from longshift.audit.rebuilding import Rebuilt, rebuilt
from longshift.audit.sides import Sides


async def rebuild(client: Client, journal_url: str, run_id: str, clock: Callable[[], float] = time.time) -> Rebuilt:
    """Make a run's rows from its history, and write them where they are not what stands.

    Args:
        clock: seconds since the epoch, for the decision that says so.

    Raises:
        NoSuchRun: the server does not know the run, or keeps it no longer.
        NoServer: the server does not answer.
        NoJournal: the journal cannot be written.
        Refused: the run is at work or goes on meanwhile, or its history does not reach back to its beginning.
        Unreadable: a payload of the history cannot be read.
    """
    before = await _at_rest(client, run_id)
    recording = await read_recording(client, run_id)
    history = history_in(recording)
    if not history.whole or history.missing:
        raise Refused(
            f"run {run_id}: the server keeps its history no longer from the beginning, and a journal made of a part of "
            "it would lack messages; restore the journal from a backup"
        )
    if history.spec is None:
        raise Refused(f"run {run_id} was never opened, so no journal holds anything of it")
    async with open_journal(journal_url, make=True) as journal:
        standing = await journal.rows(run_id)
        made = rebuilt(Sides(run_id, history, standing), clock())
        if not made.changed:
            return made
        # A row that stands and that the history did not have yet was written for a step that it has by now.
        as_it_was = await _at_rest(client, run_id) == before
        if not as_it_was or not await journal.replace_rows(run_id, made.rows, standing):
            raise Refused(
                f"run {run_id}: it has gone on meanwhile, or a worker has written to the journal {shown(journal_url)}, "
                "and nothing was changed; pause the run, or end it, and try again"
            )
    return made


async def _at_rest(client: Client, run_id: str) -> tuple[str, int]:
    """Where a run stands of which no step is under way: Temporal's id of its latest run, and how many events that has.

    Raises Refused where one is: a worker at work writes rows that the history does not tell of yet.
    """
    with rpc_border(run_id):
        seen = await client.get_workflow_handle(run_id).describe()
    if seen.status is WorkflowExecutionStatus.RUNNING and seen.raw_description.pending_activities:
        raise Refused(
            f"run {run_id} is at work, and its rows are being written; pause it, with: longshift pause {run_id}; and "
            "try again once its step is over"
        )
    return seen.run_id, seen.history_length
