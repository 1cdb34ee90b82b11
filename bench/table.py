"""The figures as Markdown: ratios beside what they are made of."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bench.samples import Crowd, Paused, Results, Resume, Sample, Starts
from bench.series import gauge_at, longest, step_seconds, stored_between
from bench.subjects import BY_NAME, FLOOR, LONGSHIFT

GOALS = {"wall": 1.15, "CPU": 1.3, "history": 1.3}
"""Most that Longshift may cost at 200 steps, in floors."""
NUMBERS = (10, 50, 200, 1000, 5000, 10_000)
"""Step numbers whose cost is told."""
AROUND = 20
"""Steps on either side of one whose cost is told: the median of all is told."""
TELLING = 50
"""Steps from which on a database's growth tells something: few looks were taken before."""
MB = 10**6

Of = Callable[[Sample], float | None]


def lines(results: Results) -> Iterator[str]:
    """All there is to tell."""
    yield "; ".join(f"{name} {value}" for name, value in results.machine.items())
    for steps in sorted({sample.steps for sample in results.shifts}):
        yield from _shifts([sample for sample in results.shifts if sample.steps == steps], steps)
    if results.shifts:
        yield from _by_number(longest(results.shifts))
    if results.crowds:
        yield from _crowds(results.crowds)
    if results.resumes:
        yield from _resumes(results.resumes)
    if results.paused:
        yield from _paused(results.paused)
    if results.starts:
        yield from _starts(results.starts)


def _shifts(samples: Sequence[Sample], steps: int) -> Iterator[str]:
    rounds = len({sample.round for sample in samples})
    yield from _title(
        f"A shift of {steps} steps, the median of {rounds}" if rounds > 1 else f"A shift of {steps} steps"
    )
    yield from _head(
        "",
        "ms a step",
        "/ floor",
        "worker CPU, ms a step",
        "/ floor",
        "history, bytes a step",
        "/ floor",
        "events a step",
        "server CPU, ms a step",
        "own database, bytes a step",
        "peak memory, MB",
        "replay, ms",
        "ended",
    )
    floors = {sample.round: sample for sample in samples if sample.subject == FLOOR and not sample.failure}
    for subject in dict.fromkeys(sample.subject for sample in samples):
        own = [sample for sample in samples if sample.subject == subject]
        well = [sample for sample in own if not sample.failure]
        weighed = well or own  # a shift that failed still has a history, as far as it got
        yield _line(
            _told(subject),
            _number(well, lambda s: 1000 * s.wall / s.steps, 1),
            ratio(well, floors, lambda s: s.wall),
            _number(well, lambda s: 1000 * s.cpu / s.steps, 1),
            ratio(well, floors, lambda s: s.cpu),
            _number(weighed, lambda s: _per_step(s, s.history_bytes)),
            ratio(well, floors, lambda s: s.history_bytes),
            _number(weighed, lambda s: _per_step(s, s.history_events), 1),
            _number(well, lambda s: 1000 * s.server_cpu / s.steps or None, 1),
            _number(weighed, lambda s: _per_step(s, s.stored or None)),
            _number(own, lambda s: s.peak / MB),
            _number(well, lambda s: s.replay and 1000 * s.replay),
            ended(own),
        )
    well = [sample for sample in samples if sample.subject == LONGSHIFT and not sample.failure]
    if well and floors:
        runs = statistics.median(sample.history.runs for sample in well if sample.history)
        yield ""
        yield f"Goals for Longshift: {', '.join(f'{name} {goal}' for name, goal in GOALS.items())} floors. " + (
            f"Its chain has {runs:g} runs." if runs > 1 else "Its chain has one run."
        )


def ratio(samples: Sequence[Sample], floors: Mapping[int, Sample], of: Of) -> str:
    """A figure over the floor's of the same round: the median, and the least and most."""
    found = []
    for sample in samples:
        floor = floors.get(sample.round)
        value, unit = of(sample), floor and of(floor)
        if value and unit:
            found.append(value / unit)
    if not found:
        return ""
    spread = f" ({min(found):.2f} to {max(found):.2f})" if len(found) > 1 else ""
    return f"{statistics.median(found):.2f}{spread}"


def ended(samples: Sequence[Sample]) -> str:
    """How the shifts of one subject and length ended: the first failure, if there is one."""
    for sample in samples:
        if sample.failure:
            return f"**step {sample.reached}**: {sample.failure.replace('|', '/')}"
    return "well"


def _by_number(samples: Mapping[str, Sample]) -> Iterator[str]:
    """What a step costs by its number, in the shift of each subject that got furthest."""
    figures: dict[str, Callable[[Sample, int], float | None]] = {
        "ms": lambda s, n: _around([1000 * seconds for seconds in step_seconds(s)], n),
        "bytes of history": lambda s, n: _around(s.history.by_step, n) if s.history else None,
        "bytes of its own database": lambda s, n: _grown(s, n) if n >= TELLING else None,
        "the worker's memory, MB": lambda s, n: gauge.resident / MB if (gauge := gauge_at(s, n - 1)) else None,
        "the worker's file handles": lambda s, n: gauge.files if (gauge := gauge_at(s, n - 1)) else None,
    }
    yield from _title("What a step costs by its number, in the longest shift of each")
    numbers = [number for number in NUMBERS if any(number <= sample.reached for sample in samples.values())]
    yield from _head("a step's", "", *(f"at step {number}" for number in numbers))
    for name, of in figures.items():
        for subject, sample in samples.items():
            cells = [of(sample, number) if number <= sample.reached else None for number in numbers]
            if any(cell is not None for cell in cells):
                yield _line(name, _told(subject), *("" if cell is None else _figure(cell, 0) for cell in cells))


def _per_step(sample: Sample, total: int | None) -> float | None:
    return None if total is None else total / max(1, sample.reached)


def _grown(sample: Sample, step: int) -> float | None:
    """Bytes a step of its own database over as many steps around one as it has before it, if they were done."""
    start, end = step // 2, min(step * 3 // 2, sample.reached - 1)
    return stored_between(sample, start, end) or None if end > step else None


def _around(values: Sequence[float], step: int) -> float | None:
    around = values[max(0, step - 1 - AROUND) : step + AROUND]
    return statistics.median(around) if around else None


def _crowds(crowds: Sequence[Crowd]) -> Iterator[str]:
    yield from _title(f"Many shifts of {crowds[0].steps} steps at once")
    yield from _head(
        "", "workers", "shifts", "steps a second", "CPU, ms a step", "peak memory, MB", "slowest shift, s", "failed"
    )
    for key in dict.fromkeys((crowd.shifts, crowd.subject, crowd.workers) for crowd in crowds):
        own = [crowd for crowd in crowds if (crowd.shifts, crowd.subject, crowd.workers) == key]
        yield _line(
            _told(key[1]),
            key[2],
            key[0],
            _median(crowd.shifts * crowd.steps / crowd.wall for crowd in own),
            _median((1000 * crowd.cpu / crowd.shifts / crowd.steps for crowd in own), 1),
            _median(crowd.peak / MB for crowd in own),
            _median((crowd.slowest for crowd in own), 1),
            sum(crowd.failed for crowd in own),
        )


def _resumes(resumes: Sequence[Resume]) -> Iterator[str]:
    yield from _title("A worker killed half-way, and another one started at once")
    first, allowed = "seconds from its start to its first step (least to most)", "heartbeat time-out, s"
    yield from _head("", first, allowed, "at most past it, s, goal 1.5")
    for subject in dict.fromkeys(resume.subject for resume in resumes):
        own = [resume for resume in resumes if resume.subject == subject]
        seconds = [resume.seconds for resume in own]
        spread = f"{_median(seconds, 1)} ({min(seconds):.1f} to {max(seconds):.1f})"
        heartbeats = {resume.heartbeat for resume in own} - {None}
        told = " or ".join(f"{seconds:g}" for seconds in sorted(filter(None, heartbeats))) or "none"
        past = f"{max(r.seconds - r.heartbeat for r in own if r.heartbeat):.1f}" if heartbeats else "-"
        yield _line(_told(subject), spread, told, past)


def _paused(paused: Paused) -> Iterator[str]:
    yield from _title("Shifts that wait")
    each = (paused.after - paused.before) / paused.shifts / 1000
    yield (
        f"{paused.shifts} shifts that wait after {paused.steps} steps each, all in one worker's memory: "
        f"{paused.after / MB:.0f} MB, {paused.before / MB:.0f} MB before them, so {each:.0f} KB each; "
        f"{paused.started / MB:.0f} MB before it had done any at once; "
        f"{paused.files} file handles."
    )


def _starts(found: Starts) -> Iterator[str]:
    interpreter, help_, worker, demo = map(statistics.median, (found.interpreter, found.help, found.worker, found.demo))
    yield from _title("Starts")
    yield f"- `longshift --help` / bare interpreter, goal 10: {help_ / interpreter:.1f}"
    yield f"  ({1000 * help_:.0f} ms and {1000 * interpreter:.0f} ms, medians of {len(found.help)})"
    yield f"- worker start to first poll, goal 2 s: {worker:.2f} s (median of {len(found.worker)})"
    yield f"- `longshift demo`, goal 20 s: {demo:.1f} s (median of {len(found.demo)})"


def _told(subject: str) -> str:
    return BY_NAME[subject].told


def _title(text: str) -> Iterator[str]:
    yield from ("", f"### {text}", "")


def _head(*cells: str) -> Iterator[str]:
    yield _line(*cells)
    yield _line(*("---" if not cell else "---:" for cell in cells))


def _line(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _number(samples: Iterable[Sample], of: Of, digits: int = 0) -> str:
    values = [value for sample in samples if (value := of(sample)) is not None]
    return _median(values, digits) if values else ""


def _median(values: Iterable[float], digits: int = 0) -> str:
    return _figure(statistics.median(values), digits)


def _figure(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"
