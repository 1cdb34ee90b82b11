"""Scenes of the kept histories, played anew with their journals: the audit says nothing of a run that is sound.

`SCENES` are all of them; those played here have what no other test that audits its runs has.
"""

from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from client.audit import read_evidence
from client.audit_rebuilding import rebuild
from tests.histories import record
from tests.histories.record import SCENES
from tests.workflows.test_audit import differing
from tests.workflows.test_rebuild import comparable, empty

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLAYED = ("retries-after-failures", "idempotent-effect-again", "fund-used-up", "summarized", "worker-lost", "chain")


@pytest.mark.parametrize("name", PLAYED)
async def test_the_audit_finds_no_difference_and_a_rebuild_makes_the_same_rows(
    client: Client, rolling_server: WorkflowEnvironment, queue: str, journal_url: str, name: str,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setattr(record, "HERE", tmp_path)
    where = rolling_server.client if SCENES[name].in_parts else client
    run_id = f"{name}-{queue}"
    await record.record(where, run_id, SCENES[name], journal_url)
    found = await read_evidence(where, journal_url, run_id)
    assert differing(found.checks()) == {}
    assert found.journal is not None
    empty(journal_url)
    made = await rebuild(where, journal_url, run_id)
    again = await read_evidence(where, journal_url, run_id)
    assert differing(again.checks()) == {}
    assert made.lost == {}
    assert again.journal is not None
    assert comparable(again.journal) == comparable(found.journal)
