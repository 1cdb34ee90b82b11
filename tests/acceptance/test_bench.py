"""The bench measures what it says: the smallest shift that shows it."""

from pathlib import Path

import pytest

from bench.samples import Sample
from bench.shifts import measure_shifts
from bench.subjects import BY_NAME, FLOOR, LONGSHIFT

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

STEPS = 5


async def test_a_shift_of_the_floor_and_one_of_ours_are_measured(tmp_path: Path) -> None:
    found: list[Sample] = []
    subjects = [BY_NAME[FLOOR], BY_NAME[LONGSHIFT]]
    await measure_shifts(tmp_path, subjects, [STEPS], rounds=1, cap=60, tell=found.append)
    assert [(sample.subject, sample.reached, sample.failure) for sample in found] == [
        (FLOOR, STEPS, None),
        (LONGSHIFT, STEPS, None),
    ]
    floor, ours = found
    assert floor.history is not None
    assert ours.history is not None
    assert len(floor.history.by_step) == len(ours.history.by_step) == STEPS
    assert ours.history.bytes > floor.history.bytes > STEPS * 1024
    assert (floor.stored, ours.stored > 0) == (0, True)
    assert all(sample.wall and sample.cpu and sample.peak and sample.replay for sample in found)
