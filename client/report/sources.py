"""What a report of a run is made of: its rows, how it stands, and the audit's verdict.

An ended run is told by its journal alone. The server, where it answers, knows more: how a run stands that has not
ended, the end that no loop wrote down, and the history that the journal is held against.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from temporalio.client import Client

from client.audit import Evidence, read_evidence, read_rows
from client.ending import open_journal, shown, with_journal
from client.errors import NoJournal, NoSuchRun, Unreadable
from client.report.overview import Overview, overview
from client.report.records import Records, records_of
from client.shifts import Shifts
from client.snapshots import Snapshot, snapshot
from longshift.audit.checks import Check
from longshift.contracts import RunResult
from worker.connection import NoServer, connect
from worker.settings import Settings

ASKED_FOR = 1000
"""Runs that the server is asked for where the journal holds no end of some: the latest."""


@dataclass(frozen=True)
class Sources:
    """What a report of a run is made of."""

    run_id: str
    made_at: float
    """Seconds since the epoch."""
    records: Records | None
    """What the journal holds; None where that is nothing, or it could not be read."""
    checks: Sequence[Check]
    """The audit."""
    found: Snapshot | None
    """How the run stands by the server; None where it did not answer or does not know the run."""
    no_server: str | None
    """Why `found` is None."""

    @property
    def result(self) -> RunResult | None:
        """How the run ended, as far as anybody knows."""
        if self.found is not None:
            return self.found.result
        return self.records.result if self.records is not None else None

    @property
    def status(self) -> str:
        """An end status, or a word for how it stands; UNKNOWN where only a worker or the server could say."""
        if self.found is not None:
            return self.found.status
        return self.result.status.value if self.result is not None else "UNKNOWN"

    @property
    def ended(self) -> bool:
        """Whether the run is known to have ended."""
        return self.result is not None or (self.found is not None and self.found.closed_at is not None)


async def read_sources(settings: Settings, run_id: str) -> Sources:
    """Read all that can be had of a run.

    Raises:
        NoSuchRun: server and journal do not know it.
        NoJournal: no server answers, and the journal cannot be read or does not hold the run.
    """
    url = settings.journal.url
    try:
        client = await connect(settings)
        evidence = await read_evidence(client, url, run_id)
    except NoServer as error:
        evidence = await _without_server(url, run_id, str(error))
        return _sources(evidence, evidence.checks(), None, str(error))
    found, why = await _standing(client, url, run_id)
    return _sources(evidence, _checks(evidence), found, why)


async def _standing(client: Client, url: str, run_id: str) -> tuple[Snapshot | None, str | None]:
    try:
        found = await snapshot(client, run_id)
    except NoSuchRun:
        return None, "the server keeps the run no longer"
    if found.result is not None:
        result = await with_journal(found.result, url)
        found = replace(found, result=result)
    return found, None


async def _without_server(url: str, run_id: str, why: str) -> Evidence:
    try:
        rows = await read_rows(url, run_id)
    except NoJournal as error:
        raise NoJournal(f"{error}; and {why}") from None
    if not any(rows.values()):
        raise NoJournal(f"the journal {shown(url)} holds nothing of run {run_id}, and {why}")
    return Evidence(run_id, None, {}, rows, {"history": why})


def _checks(evidence: Evidence) -> list[Check]:
    try:
        return evidence.checks()
    except Unreadable as error:
        return replace(evidence, recording=None, without={**evidence.without, "history": str(error)}).checks()


def _sources(evidence: Evidence, checks: Sequence[Check], found: Snapshot | None, why: str | None) -> Sources:
    records = records_of(evidence.journal) if evidence.journal is not None else None
    return Sources(evidence.run_id, time.time(), records, checks, found, why)


async def read_overview(settings: Settings, since: float, now: float) -> Overview:
    """The figures of the runs that began since then; times are seconds since the epoch.

    Raises NoJournal where the journal cannot be read.
    """
    async with open_journal(settings.journal.url) as journal:
        runs = await journal.figures(since)
    standing: dict[str, str] = {}
    note = ""
    if any(one.status is None for one in runs):
        try:
            shifts = Shifts(await connect(settings), settings.task_queue, settings.journal.url)
            standing = {one.run_id: one.status for one in await shifts.list(ASKED_FOR)}
            note = "How shifts without a recorded end stand is what the server says."
        except NoServer as error:
            note = f"How shifts without a recorded end stand is not known: {error}."
    return overview(runs, since, now, standing, note)
