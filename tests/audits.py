"""Audits of tests' own runs: what a scenario leaves behind must hold, whatever was killed, lost or reset on the way."""

from temporalio.client import Client

from client.audit import Evidence
from client.audit_reading import read_recording
from longshift.audit.checks import Check
from store.journal import Journal


async def evidence(client: Client, journal: Journal, run_id: str) -> Evidence:
    """What both sides hold of a run that does nothing now."""
    recording = await read_recording(client, run_id)
    return Evidence(run_id, recording, recording.events, await journal.rows(run_id))


async def differences(client: Client, journal: Journal, run_id: str) -> list[Check]:
    """The checks of a run that did not hold."""
    found = await evidence(client, journal, run_id)
    return [check for check in found.checks() if check.verdict == "differs"]
