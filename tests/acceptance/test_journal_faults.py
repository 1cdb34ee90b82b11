"""A journal that cannot be used keeps its runs waiting, who say why; mended, they go on, and nothing was done twice."""

import asyncio
import contextlib
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.api.sdk.v1 import WorkflowMetadata

from client import show
from client.shifts import Shifts, Snapshot
from examples.shop.tools import SUPPLIER
from longshift import contracts
from longshift.questions import Question
from tests.acceptance.order_house import LOOK_SECONDS, OrderHouse, Verdict, order_house
from tests.acceptance.shift_house import PATIENCE
from worker.child import Child

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

DISK = 4 * 1024 * 1024
"""Bytes of the disk that is filled."""
METADATA = "__temporal_workflow_metadata"
"""The query with which the Temporal UI asks for the current details."""
Fault = Callable[[Path], AbstractContextManager[None]]
"""Takes a journal's file; breaks it while the body runs, and mends it."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OrderHouse]:
    """One server and one supplier for all of these tests."""
    async with order_house(tmp_path_factory.mktemp("faults")) as built:
        yield built


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    _as_root("mount", "-t", "tmpfs", "-o", f"size={DISK}", "journal", str(place))
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)  # the worker may still have its files open


def _as_root(*command: str) -> None:
    """Run what only root may; skip the test where it is refused."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{command[0]} is refused here: {done.stderr.strip()}")


@contextmanager
def full(journal: Path) -> Iterator[None]:
    """Not a byte is left on its disk."""
    filler = journal.with_name("filler")
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert shutil.disk_usage(journal.parent).free == 0
    yield
    filler.unlink()


@contextmanager
def locked(journal: Path) -> Iterator[None]:
    """A process that is not the worker holds its write lock."""
    holder = sqlite3.connect(journal, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    yield
    holder.execute("ROLLBACK")
    holder.close()


@contextmanager
def read_only(journal: Path) -> Iterator[None]:
    """Nothing can be written to it, not even by root."""
    files = [str(journal), f"{journal}-wal"]  # the third is shared memory, which the kernel guards by killing its user
    _as_root("chattr", "+i", *files)
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", *files], check=True)


@contextmanager
def vanished(journal: Path) -> Iterator[None]:
    """Its folder was moved away while the worker had it open."""
    away = journal.parent.with_name("away")
    journal.parent.rename(away)
    written = {file: file.read_bytes() for file in away.iterdir()}
    yield
    assert {file: file.read_bytes() for file in away.iterdir()} == written
    assert not journal.parent.exists()
    away.rename(journal.parent)


class Runs:
    """Runs that stand at different points when their journal breaks. Each orders once; all but one get it."""

    def __init__(self, house: OrderHouse, name: str) -> None:
        self.house = house
        self.name = name
        self.at_supplier = f"counted-plain-{name}"
        self.approved = f"approval-asking-{name}1"
        self.denied = f"approval-asking-{name}2"
        self.late = f"late-plain-{name}"
        """Started once the journal is broken."""

    @property
    def all(self) -> Sequence[str]:
        return (self.at_supplier, self.approved, self.denied, self.late)

    async def stand(self) -> None:
        """Bring them to their points."""
        house = self.house
        await house.begin(("approval",), ("asking",), [f"{self.name}1", f"{self.name}2"])  # type: ignore[list-item]
        asked = await house.questions([self.approved, self.denied])
        assert set(asked) == {self.approved, self.denied}
        await house.begin(("counted",), ("plain",), [self.name])  # type: ignore[list-item]
        await house.at_their_points([self.at_supplier])
        self.asked = asked

    async def go_on(self) -> None:
        """Have each of them take the step that needs the journal."""
        house = self.house
        await house.answer({self.approved: self.asked[self.approved]})
        question = self.asked[self.denied]
        denial = {"call_id": question.call_id, "arguments_sha256": question.arguments_sha256, "reason": "not today"}
        await house.handle(self.denied).execute_update(contracts.DENY, denial)
        house.let_go_on([self.at_supplier])
        await house.begin(("late",), ("plain",), [self.name])  # type: ignore[list-item]


async def until_said(shifts: Shifts, run_id: str, words: Sequence[str]) -> Snapshot:
    """Wait until a run waits and says these words."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await shifts.state(run_id)
            if found.status == "WAITING" and all(word in found.detail for word in words):
                return found
            await asyncio.sleep(LOOK_SECONDS)


async def until_listed(shifts: Shifts, run_id: str, words: str) -> None:
    """Wait until a list shows a run as waiting, with these words."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = next(run for run in await shifts.list(limit=100) if run.run_id == run_id)
            if found.status == "WAITING" and words in found.detail:
                return
            await asyncio.sleep(LOOK_SECONDS)


async def until_detailed(house: OrderHouse, run_id: str, words: str) -> None:
    """Wait until the Temporal UI shows these words above the history: not while the run tries the journal again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            metadata: Any = await house.handle(run_id).query(METADATA, result_type=WorkflowMetadata)
            if words in str(metadata.current_details):
                return
            await asyncio.sleep(LOOK_SECONDS)


def worker(house: OrderHouse, journal: Path) -> Any:
    """Start a worker on a journal, which the house looks into from then on."""
    house.journal_url = f"sqlite:///{journal}"
    return house.worker(**{SUPPLIER: house.supplier.url, "LONGSHIFT_JOURNAL__URL": house.journal_url})


async def ended_well(house: OrderHouse, runs: Runs) -> None:
    """Each run completed, counted each step once, and has the one order that it should have."""
    verdicts = await house.verdicts(runs.all)
    wanted = {run_id: int(run_id != runs.denied) for run_id in runs.all}
    assert verdicts == [Verdict(run_id, wanted[run_id], wanted[run_id], None) for run_id in runs.all]
    shifts = await house.shifts()
    async with house.journal() as journal:
        for run_id in runs.all:
            result = await shifts.result(run_id)
            assert (result.model_calls, result.tool_calls, result.messages) == (2, 1, 5)
            assert [call.state for call in await journal.model_calls(run_id)] == ["answered", "answered"]
            row = await journal.run(run_id)
            assert row is not None
            assert (row.digest, row.status) == (result.digest, "COMPLETED")


async def keeps_waiting_and_goes_on(house: OrderHouse, journal: Path, fault: Fault, remedy: str) -> None:
    """Break a journal under a worker at work, look, mend it, and see all runs to their ends."""
    runs = Runs(house, fault.__name__.replace("_", ""))
    child: Child = await worker(house, journal)
    try:
        await runs.stand()
        shifts = await house.shifts()
        with fault(journal):
            await runs.go_on()
            words = (str(journal), remedy)
            for run_id in runs.all:
                found = await until_said(shifts, run_id, words)
                assert remedy in show.summary(found)
            for run_id in (runs.approved, runs.denied):
                await until_detailed(house, run_id, remedy)
            for run_id in (runs.at_supplier, runs.late):
                await until_listed(shifts, run_id, remedy)
            for run_id in (runs.approved, runs.denied):
                await until_listed(shifts, run_id, f"its journal is away; longshift state {run_id} says why")
        await ended_well(house, runs)
        assert "Traceback" not in house.log.read_text("utf-8")
    finally:
        await child.kill()


async def test_a_full_disk(house: OrderHouse, disk: Path) -> None:
    await keeps_waiting_and_goes_on(house, disk / "store" / "journal.db", full, "its disk is full: free some space")


async def test_a_locked_journal(house: OrderHouse, tmp_path: Path) -> None:
    remedy = "another process holds its write lock: find and end that transaction"
    await keeps_waiting_and_goes_on(house, tmp_path / "store" / "journal.db", locked, remedy)


async def test_a_read_only_journal(house: OrderHouse, tmp_path: Path) -> None:
    remedy = "check the disk, and that it is mounted for writing"
    await keeps_waiting_and_goes_on(house, tmp_path / "store" / "journal.db", read_only, remedy)


async def test_a_vanished_journal(house: OrderHouse, tmp_path: Path) -> None:
    remedy = "its file is gone; bring it back to where it was"
    await keeps_waiting_and_goes_on(house, tmp_path / "store" / "journal.db", vanished, remedy)


async def test_an_empty_journal_in_the_place_of_one_with_history(house: OrderHouse, tmp_path: Path) -> None:
    journal = tmp_path / "store" / "journal.db"
    runs = Runs(house, "empty")
    remedy = "bring back the journal that the run began in"
    first: Child = await worker(house, journal)
    await runs.stand()
    await first.kill()
    journal.parent.rename(tmp_path / "away")
    second: Child = await worker(house, journal)  # begins an empty one
    shifts = await house.shifts()
    await runs.go_on()
    for run_id in (runs.at_supplier, runs.approved, runs.denied):
        found = await until_said(shifts, run_id, (str(journal), "is empty or another one", run_id, remedy))
        assert remedy in show.summary(found)
    async with house.journal() as other:  # what it does not know it learns nothing of
        assert await other.tool_calls(runs.at_supplier) == []
        assert await other.tool_calls(runs.approved) == []
    assert len(await house.verdicts([runs.late])) == 1  # a run that began there is at home there
    await second.stop(PATIENCE)
    journal.parent.rename(tmp_path / "empty")
    (tmp_path / "away").rename(journal.parent)
    third: Child = await worker(house, journal)
    try:
        asked: dict[str, Question] = await house.questions([runs.at_supplier, runs.approved, runs.denied])
        assert list(asked) == [runs.at_supplier]  # its first worker was killed: only the supplier knows
        await house.answer(asked)
        verdicts = await house.verdicts([runs.at_supplier, runs.approved, runs.denied])
        assert [(verdict.orders, verdict.requests, verdict.problem) for verdict in verdicts] == [
            (1, 1, None),
            (1, 1, None),
            (0, 0, None),
        ]
    finally:
        await third.kill()
