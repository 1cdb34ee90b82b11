"""The figures as text: ratios first, what they are made of below."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from bench.shifts import Sample, Subject
from bench.starts import Starts

GOALS = {"wall": 1.25, "cpu": 1.5, "history": 1.3}
"""Most that Longshift may cost, in floors."""


def shifts(samples: Sequence[Sample]) -> Iterator[str]:
    """Lines on the shifts."""
    lengths = sorted({sample.steps for sample in samples})
    yield f"{'Longshift / floor':32}" + "".join(f"{f'{steps} steps':>24}" for steps in lengths)
    yield _ratios("wall time", samples, lengths, lambda s: s.wall, GOALS["wall"])
    yield _ratios("worker CPU", samples, lengths, lambda s: s.cpu, GOALS["cpu"])
    yield _ratios("history bytes", samples, lengths, lambda s: s.history.bytes, GOALS["history"])
    yield _ratios("history events", samples, lengths, lambda s: s.history.events)
    yield _ratios("server CPU", samples, lengths, lambda s: s.server_cpu)
    yield ""
    for subject in ("floor", "longshift"):
        yield f"{f'{subject}, a step':32}" + "".join(f"{f'{steps} steps':>24}" for steps in lengths)
        own = [sample for sample in samples if sample.subject == subject]
        yield _medians("wall time, ms", own, lengths, lambda s: 1000 * s.wall)
        yield _medians("worker CPU, ms", own, lengths, lambda s: 1000 * s.cpu)
        yield _medians("server CPU, ms", own, lengths, lambda s: 1000 * s.server_cpu)
        yield _medians("history, bytes", own, lengths, lambda s: s.history.bytes)
        yield _medians("history, events", own, lengths, lambda s: s.history.events)
        yield from _slopes(own, lengths)
        yield from _by_step(own, lengths[-1])
        yield ""


def _ratios(
    name: str,
    samples: Sequence[Sample],
    lengths: Sequence[int],
    of: Callable[[Sample], float],
    goal: float | None = None,
) -> str:
    """Longshift over floor of the same round: the median, and the least and most."""
    cells = []
    for steps in lengths:
        floors, ours = (_of(samples, subject, steps, of) for subject in ("floor", "longshift"))
        ratios = [b / a for a, b in zip(floors, ours, strict=True) if a]
        spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
        cells.append(f"{statistics.median(ratios):.2f}{spread}" if ratios else "")
    told = f"  {name}{f', goal {goal}' if goal else ''}"
    return f"{told:32}" + "".join(f"{cell:>24}" for cell in cells)


def _of(samples: Sequence[Sample], subject: Subject, steps: int, of: Callable[[Sample], float]) -> list[float]:
    return [of(sample) for sample in samples if sample.subject == subject and sample.steps == steps]


def _medians(name: str, own: Sequence[Sample], lengths: Sequence[int], of: Callable[[Sample], float]) -> str:
    cells = (statistics.median(of(s) for s in own if s.steps == steps) / steps for steps in lengths)
    return f"{f'  {name}':32}" + "".join(f"{cell:>24.1f}" for cell in cells)


def _slopes(own: Sequence[Sample], lengths: Sequence[int]) -> Iterator[str]:
    """What one more step costs, apart from opening and closing: the slope between the first two lengths."""
    if len(lengths) < 2:
        return
    first, second = ([s for s in own if s.steps == steps] for steps in lengths[:2])
    figures: Mapping[str, Callable[[Sample], float]] = {
        "ms wall": lambda s: 1000 * s.wall,
        "ms worker CPU": lambda s: 1000 * s.cpu,
        "bytes": lambda s: s.history.bytes,
    }
    slopes = []
    for name, of in figures.items():
        low, high = (statistics.median(map(of, samples)) for samples in (first, second))
        slopes.append(f"{(high - low) / (lengths[1] - lengths[0]):.1f} {name}")
    yield f"  one more step, from {lengths[0]} to {lengths[1]}: {', '.join(slopes)}"


def _by_step(own: Sequence[Sample], steps: int) -> Iterator[str]:
    history = [s.history for s in own if s.steps == steps][-1]
    at = ", ".join(f"{history.at(step)} at step {step}" for step in (10, 50, 200, 1000) if step <= steps)
    yield f"  bytes of one step of {steps}: {at}"
    yield f"  runs in its chain: {history.runs}, the heaviest of {history.largest_run} bytes"


def starts(found: Starts) -> Iterator[str]:
    """Lines on the starts."""
    interpreter, help_, worker, demo = map(statistics.median, (found.interpreter, found.help, found.worker, found.demo))
    yield f"longshift --help / bare interpreter, goal 10: {help_ / interpreter:.1f}"
    yield f"  ({1000 * help_:.0f} ms and {1000 * interpreter:.0f} ms, medians of {len(found.help)})"
    yield f"worker start to first poll, goal 2 s: {worker:.2f} s (median of {len(found.worker)})"
    yield f"longshift demo, goal 20 s: {demo:.1f} s (median of {len(found.demo)})"
