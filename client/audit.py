"""The audit of a run: what both sides hold of it, read in an order that gives no false alarm, and the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from temporalio.client import Client

from client.audit_reading import Recording, history_in, read_recording
from client.ending import open_journal
from client.errors import NoJournal, NoSuchRun
from longshift.audit.checks import Check, audit
from longshift.audit.sides import Rows

HELD, DIFFERS = 0, 1
"""Exit codes: all that could be checked held, or something differs."""


@dataclass(frozen=True)
class Evidence:
    """What both sides hold of a run."""

    run_id: str
    recording: Recording | None
    """What Temporal holds; None where it holds nothing any more."""
    known: Mapping[str, int]
    """How many events each Temporal run had before the journal was read: rows are held against what came before."""
    journal: Rows | None
    """What the journal holds; None where it could not be read."""
    without: Mapping[str, str] = field(default_factory=dict)
    """Why a side is None."""

    def checks(self) -> list[Check]:
        """Audit it.

        Raises client.errors.Unreadable where a payload of the history cannot be read.
        """
        if self.recording is None:
            return audit(self.run_id, None, self.journal, self.without)
        since = history_in(self.recording)
        then = since if self.known == self.recording.events else history_in(self.recording, dict(self.known))
        return audit(self.run_id, then, self.journal, self.without, since)


async def read_evidence(client: Client, journal_url: str, run_id: str) -> Evidence:
    """Read what both sides hold of a run.

    Raises:
        NoSuchRun: neither of them knows it.
        NoServer: the server does not answer.
    """
    recording: Recording | None = None
    without: dict[str, str] = {}
    try:
        recording = await read_recording(client, run_id)
    except NoSuchRun:
        without["history"] = "the server does not hold the run, or keeps it no longer"
    known = recording.events if recording is not None else {}
    rows: Rows | None = None
    try:
        rows = await read_rows(journal_url, run_id)
    except NoJournal as error:
        without["journal"] = str(error)
    if recording is None and not any((rows or {}).values()):
        raise NoSuchRun(run_id)
    if recording is not None and not recording.closed:
        # It has gone on meanwhile: what the journal may hold is in the history as it is now.
        recording = await read_recording(client, run_id)
    return Evidence(run_id, recording, known, rows, without)


async def read_rows(journal_url: str, run_id: str) -> Rows:
    """All rows that a journal holds of a run.

    Raises NoJournal where it cannot be read.
    """
    async with open_journal(journal_url) as journal:
        return await journal.rows(run_id)


def exit_code(checks: list[Check]) -> int:
    """The exit code for what came out."""
    return DIFFERS if any(check.verdict == "differs" for check in checks) else HELD


def document(run_id: str, checks: list[Check], digest: str | None = None) -> dict[str, Any]:
    """An audit as `--json` prints it."""
    verdict = "differs" if exit_code(checks) else "held"
    found: dict[str, Any] = {"run_id": run_id, "verdict": verdict, "checks": [vars(check) for check in checks]}
    return found | ({"digest": digest} if digest is not None else {})
