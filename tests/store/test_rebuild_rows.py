"""All rows of a run, as they stand and written anew, on both databases."""

import asyncio
import copy
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # ships no types
import pytest

from store.journal import Journal
from store.rebuilding import OF_A_RUN
from tests.store.shift import Shift, call

pytestmark = pytest.mark.asyncio

SEEN = '{"ok":true,"value":6}'


async def ended(journal: Journal, run_id: str = "shift-1") -> Shift:
    """A run with rows of every table but the remembered."""
    shift = await Shift(journal, run_id).open()
    await shift.step("Look.", call(f"{run_id}-c1"), SEEN)
    await shift.step("Order.", call(f"{run_id}-c2", "place_order", sku="SKU-1"), SEEN, "effect")
    await shift.turn("Done.")
    await shift.close()
    return shift


async def test_what_is_written_anew_stands_as_it_was_read(journal: Journal) -> None:
    await ended(journal)
    await ended(journal, "shift-2")
    rows, others = await journal.rows("shift-1"), await journal.rows("shift-2")
    assert set(rows) == set(OF_A_RUN)
    assert [len(rows[table]) for table in ("runs", "messages", "model_calls", "tool_calls")] == [1, 7, 3, 2]
    assert await journal.replace_rows("shift-1", {}, rows)
    assert not any((await journal.rows("shift-1")).values())
    assert await journal.replace_rows("shift-1", rows, {})
    assert await journal.rows("shift-1") == rows
    assert await journal.rows("shift-2") == others
    assert await journal.verify_chain("shift-1") is None


async def test_nothing_is_written_where_other_rows_stand_than_were_read(journal: Journal) -> None:
    await ended(journal)
    rows = await journal.rows("shift-1")
    changed: Any = copy.deepcopy(rows)
    changed["runs"][0]["status"] = "EMPTY_REPLY"
    assert not await journal.replace_rows("shift-1", {}, changed)
    assert not await journal.replace_rows("shift-1", changed, {})
    assert await journal.rows("shift-1") == rows


async def test_rows_that_stand_already_are_written_whatever_was_expected_and_in_whatever_order(
    journal: Journal,
) -> None:
    """The connection was lost with the commit, and the transaction is repeated."""
    await ended(journal)
    rows = await journal.rows("shift-1")
    fewer = {**rows, "tool_calls": rows["tool_calls"][:1]}
    backwards = {table: [*reversed(kept)] for table, kept in fewer.items()}
    for _ in range(2):
        assert await journal.replace_rows("shift-1", backwards, rows)
    assert await journal.rows("shift-1") == fewer
    for _ in range(2):
        assert await journal.replace_rows("shift-1", {}, fewer)
    assert not await journal.replace_rows("shift-1", rows, fewer)


async def test_a_rebuilt_run_is_read_anew_and_not_from_memory(journal: Journal) -> None:
    shift = await ended(journal)
    assert len(await journal.transcript("shift-1", shift.head)) == 7
    spec = await journal.spec("shift-1")
    rows = await journal.rows("shift-1")
    changed: Any = copy.deepcopy(rows)
    changed["runs"][0]["spec"] = spec.model_copy(update={"heartbeat_seconds": 99.0}).model_dump_json()
    assert await journal.replace_rows("shift-1", changed, rows)
    assert (await journal.spec("shift-1")).heartbeat_seconds == 99.0


async def test_a_tool_call_that_a_worker_is_entering_is_waited_for_and_not_lost(migrated: str) -> None:
    journal = await Journal.open(migrated)
    await ended(journal, "rebuilt-meanwhile")
    rows = await journal.rows("rebuilt-meanwhile")
    worker = await asyncpg.connect(migrated)
    columns = "name, arguments_sha256, kind, state, dispatch, fatal, attempt, started_at"
    async with worker.transaction():
        await worker.execute(
            f"INSERT INTO tool_calls (run_id, model_call, position, call_id, {columns}) SELECT run_id, 9, 0, 'late', "
            f"{columns} FROM tool_calls WHERE run_id = 'rebuilt-meanwhile' LIMIT 1"
        )
        replacing = asyncio.create_task(journal.replace_rows("rebuilt-meanwhile", {}, rows))
        async with asyncio.timeout(30):
            while not replacing.done():  # a lock that is waited for can only be asked for
                if await worker.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                    break
                await asyncio.sleep(0.01)
    assert not await replacing
    await worker.close()
    assert [row["call_id"] for row in (await journal.rows("rebuilt-meanwhile"))["tool_calls"]][-1] == "late"
    await journal.close()
