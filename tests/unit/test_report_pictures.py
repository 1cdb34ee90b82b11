"""The pictures of reports: where their lines and bars go, and figures in words."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.report import plots
from client.report.budgets import Series


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0"), (3.0, "3"), (10_800.5, "10,800.5"), (12_345.6789, "12,345.6789")]
)
def test_a_figure_loses_nothing(value: float, words: str) -> None:
    assert plots.figure(value) == words


@pytest.mark.parametrize("top", [1.08, 2, 11.9, 12.4, 24, 124, 1e6])
def test_an_axis_of_whole_numbers_has_few_ticks(top: float) -> None:
    ticks = plots.plot(Series("x", ((0.0, top / 1.08),), ()), 10).up
    assert 2 <= len(ticks) <= 5
    assert all(float(tick.text.replace(",", "")).is_integer() for tick in ticks)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e12)), max_size=3000),
    st.lists(st.floats(0, 1e12), max_size=3),
    st.floats(0, 1e6),
)
def test_a_line_has_a_few_points_a_column_and_stays_in_its_picture(
    points: list[tuple[float, float]], limits: list[float], seconds: float
) -> None:
    series = Series("x", tuple(sorted(points)), tuple((0.0, one) for one in limits))
    found = plots.plot(series, seconds)
    for path in (found.used, found.limit):
        numbers = [(letter, float(value)) for letter, value in re.findall(r"([HV])(-?[\d.]+)", path)]
        assert len(numbers) <= 3 * (plots.WIDTH + 1)
        for letter, value in numbers:
            low, high = (plots.LEFT, plots.WIDTH) if letter == "H" else (0, plots.HEIGHT)
            assert low <= value <= high
    assert len(found.up) <= 6
    assert len(found.across) <= 6


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), max_size=2000))
def test_a_lane_never_has_more_bars_than_columns(times: list[tuple[float, float]]) -> None:
    spans = [(start, start + length) for start, length in times]
    lane = plots.timeline([("reads", "read", spans)], 200).lanes[0]
    assert len(lane.bars) <= plots.WIDTH
    for one, other in zip(lane.bars, lane.bars[1:], strict=False):
        assert one.x + one.width <= other.x + 0.2


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.25, "0.25 s"), (59.9, "59.9 s"), (60, "1 min"), (3900, "1 h 5 min"), (3_000_000, "34 d 17 h")],
)
def test_a_time_in_words(seconds: float, words: str) -> None:
    assert plots.duration(seconds) == words
