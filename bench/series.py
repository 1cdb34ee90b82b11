"""Cost against step number: what a step took, and what it added to what is stored."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import mean, median

from bench.samples import Gauge, Sample

Points = list[tuple[float, float]]
"""Step number and cost."""
WIDEN, NARROWEST = 1.3, 5
"""Steps are put together in windows, each so many times as wide as the one before, at least so many steps wide:
a single step tells little, and continue-as-new falls on one of hundreds."""


def longest(samples: Sequence[Sample]) -> Mapping[str, Sample]:
    """By subject, a sample of the shift that got furthest."""
    found: dict[str, Sample] = {}
    for sample in samples:
        if sample.subject not in found or sample.reached > found[sample.subject].reached:
            found[sample.subject] = sample
    return found


def step_seconds(sample: Sample) -> list[float]:
    """Seconds of each step: from its model call to the next one. The last has no next one where no answer follows."""
    return [after - before for before, after in pairwise(sample.began)][: sample.steps]


def windows(steps: int) -> list[tuple[int, int]]:
    """Windows of steps that follow on each other: the first step, from 0, and the one after the last."""
    found, start = [], 0
    while steps - start >= NARROWEST:
        end = start + max(NARROWEST, int(start * (WIDEN - 1)))
        found.append((start, min(end, steps)))
        start = end
    return found


def wall_by_step(sample: Sample) -> Points:
    """Milliseconds a step, the median of each window."""
    seconds = step_seconds(sample)
    return [_point(window, 1000 * median(seconds[slice(*window)])) for window in windows(len(seconds))]


def bytes_by_step(sample: Sample) -> Points:
    """Bytes that a step adds to the history and to the database of its own, the mean of each window."""
    points: Points = []
    for window in windows(min(sample.reached, len(sample.began) - 1)):
        added = stored_between(sample, *window)
        if sample.history is not None:
            added += mean(sample.history.by_step[slice(*window)])
        if added > 0:
            points.append(_point(window, added))
    return points


def stored_between(sample: Sample, start: int, end: int) -> float:
    """Bytes a step by which its own database grew from one step, from 0, to another."""
    before, after = (gauge_at(sample, step) for step in (start, end))
    if before is None or after is None:
        return 0
    return (after.stored - before.stored) / (end - start)


def gauge_at(sample: Sample, step: int) -> Gauge | None:
    """The last look at its worker before a step, from 0, began; None where there was none."""
    at = sample.began[min(step, len(sample.began) - 1)]
    number = bisect_right([gauge.at for gauge in sample.gauges], at)
    return sample.gauges[number - 1] if number else None


def panels(samples: Sequence[Sample], names: Mapping[str, str]) -> list[dict[str, object]]:
    """What bench/peers/plot.py draws: the cost in time and in bytes, of the subjects by their names in `names`."""
    found = {names[subject]: sample for subject, sample in longest(samples).items() if subject in names}
    return [
        {
            "title": "milliseconds a step",
            "series": {name: points for name, sample in found.items() if (points := wall_by_step(sample))},
        },
        {
            "title": "bytes a step adds to history and database",
            "series": {name: points for name, sample in found.items() if (points := bytes_by_step(sample))},
        },
    ]


def _point(window: tuple[int, int], value: float) -> tuple[float, float]:
    return (window[0] + 1 + window[1]) / 2, value
