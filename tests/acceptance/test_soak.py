"""Shifts under load outlive the workers that are killed one after another. `python -m bench.soak` is the long one."""

from pathlib import Path

import pytest

from bench.soak import Plan, soak, table

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


async def test_every_shift_ends_as_it_should_and_none_orders_twice_whichever_worker_is_killed(tmp_path: Path) -> None:
    found = await soak(Plan(shifts=24, workers=2, seconds=12, kill_every=3), tmp_path)
    assert found.faults == []
    assert (found.kills, found.twice, found.statuses) == (4, 0, {"COMPLETED": 24})
    assert found.asked_for >= found.orders
    assert 24 - found.unknown <= found.orders <= 24  # a person may have said that one did not happen
    assert "- ends: 24 COMPLETED" in list(table(found))
