"""Several worker processes on one SQLite file."""

import asyncio
import sys
from pathlib import Path

import pytest

from store.journal import Journal

pytestmark = pytest.mark.asyncio

STEPS = 15

WORKER = f"""
import asyncio, sys
from store.journal import Journal
from tests.store.shift import Shift, call

async def main(url, *run_ids):
    journal = await Journal.open(url)
    shifts = [await Shift(journal, run_id).open() for run_id in run_ids]
    sys.stdin.readline()
    for number in range({STEPS}):
        await asyncio.gather(*(shift.step("look", call(f"id-{{number}}"), "[]") for shift in shifts))
    for shift in shifts:
        await shift.close()
        assert await journal.transcript(shift.run_id, shift.head) == shift.messages
    await journal.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_processes_write_their_runs_into_one_file_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    workers = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            WORKER,
            url,
            f"{name}-1",
            f"{name}-2",
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        for name in ("left", "right")
    ]
    ended = await asyncio.gather(*(worker.communicate(b"go\n") for worker in workers))
    assert [error.decode() for _, error in ended] == ["", ""]
    assert [worker.returncode for worker in workers] == [0, 0]
    journal = await Journal.open(url)
    for run_id in ("left-1", "left-2", "right-1", "right-2"):
        run = await journal.run(run_id)
        assert run is not None
        assert (run.length, run.status) == (2 + 2 * STEPS, "COMPLETED")
        assert await journal.verify_chain(run_id) is None
    await journal.close()
