"""Where the lines and bars of a report's pictures go. Pure geometry: the templates draw it as SVG.

However many points there are, a picture has at most a few for each of its columns.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from client.report.budgets import Points, Series

WIDTH, HEIGHT = 640, 180
"""Of a picture, in its own units."""
LEFT, RIGHT, TOP, BOTTOM = 72, 24, 10, 24
"""Margins, for the figures of the axes."""
HIGHEST = 4
"""A limit of more than so many times what was used lies above the picture, since the line would lie on its floor."""
LANE = 20
"""Height of a lane of the timeline."""


@dataclass(frozen=True)
class Tick:
    """A figure of an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Plot:
    """A line over time, and its limit."""

    name: str
    words: str
    """What the picture shows, for who does not see it."""
    used: str
    """Path of the line."""
    limit: str
    """Path of the limit; empty where it lies above the picture, or there is none."""
    note: str
    """Where the limit is that is not drawn."""
    across: Sequence[Tick]
    up: Sequence[Tick]


@dataclass(frozen=True)
class Bar:
    """A time in which something was under way."""

    x: float
    width: float


@dataclass(frozen=True)
class Lane:
    """What was under way of one kind."""

    name: str
    words: str
    kind: str
    bars: Sequence[Bar]
    y: int


@dataclass(frozen=True)
class Timeline:
    """Lanes below each other."""

    lanes: Sequence[Lane]
    across: Sequence[Tick]
    height: int


Times = Sequence[tuple[float, float]]
"""Beginnings and ends, in seconds since the run began."""


def plot(series: Series, seconds: float) -> Plot:
    """The picture of a series over so many seconds."""
    seconds = max(seconds, 1e-3)
    most = max((value for _, value in series.used), default=0)
    limits = [value for _, value in series.limit]
    drawn = bool(limits) and max(limits) <= HIGHEST * most
    top = max([most, *(limits if drawn else [])]) * 1.08 or 1
    last = limits[-1] if limits else None
    words = f"{series.name}: {figure(most)} at most in {duration(seconds)}"
    words += f"; the limit is {figure(last)} in the end" if last is not None else "; there is no limit"
    return Plot(
        name=series.name,
        words=words,
        used=_path(((0.0, 0.0), *series.used), seconds, top),
        limit=_path(series.limit, seconds, top) if drawn else "",
        note=f"the limit, {figure(last)}, lies above the picture" if last is not None and not drawn else "",
        across=_across(seconds),
        up=[Tick(_y(value, top), figure(value)) for value in _ticks(top, whole=series.whole)],
    )


def timeline(lanes: Iterable[tuple[str, str, Times]], seconds: float) -> Timeline:
    """The picture of what was under way when: name, kind and times of each lane."""
    seconds = max(seconds, 1e-3)
    placed: list[Lane] = []
    for name, kind, times in lanes:
        total = sum(end - start for start, end in times)
        words = f"{name}: {len(times)} times, {duration(total)} in all"
        placed.append(Lane(name, words, kind, _bars(times, seconds), TOP + LANE * len(placed)))
    return Timeline(placed, _across(seconds), TOP + LANE * len(placed) + BOTTOM)


def figure(value: float) -> str:
    """A number as people read it."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.10g}"


def duration(seconds: float) -> str:
    """A time as people read it, such as 1 h 5 min."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    parts, left = [], round(seconds)
    for name, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts[:2])


def _path(points: Points, seconds: float, top: float) -> str:
    """A line of steps through `points`, to the end of the time."""
    kept: dict[int, tuple[float, float, float]] = {}
    for at, value in points:  # of the points in one column, what stands at its end and the highest in it
        x = _x(min(max(at, 0.0), seconds), seconds)
        highest = max(kept[int(x)][2], value) if int(x) in kept else value
        kept[int(x)] = (x, value, highest)
    if not kept:
        return ""
    words, first = [], True
    for x, value, highest in kept.values():
        if first:
            words.append(f"M{x:.1f} {_y(value, top):.1f}")
        else:
            peak = f"V{_y(highest, top):.1f}" if highest != value else ""
            words.append(f"H{x:.1f}{peak}V{_y(value, top):.1f}")
        first = False
    return f"{''.join(words)}H{WIDTH - RIGHT}"


def _bars(times: Times, seconds: float) -> list[Bar]:
    """Bars of these times; those that would touch are one."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(times):
        left, right = _x(min(max(start, 0), seconds), seconds), _x(min(max(end, 0), seconds), seconds)
        right = max(right, left + 1)
        if found and left <= found[-1][1] + 0.5:
            found[-1] = (found[-1][0], max(found[-1][1], right))
        else:
            found.append((left, right))
    return [Bar(round(left, 1), round(right - left, 1)) for left, right in found]


def _across(seconds: float) -> list[Tick]:
    return [Tick(round(_x(value, seconds), 1), duration(value)) for value in _times(seconds)]


def _times(seconds: float) -> list[float]:
    """Times to name on an axis: round ones of the unit that fits."""
    for unit in (86_400, 3600, 60):
        if seconds >= 2 * unit:
            return [value * unit for value in _ticks(seconds / unit)]
    return _ticks(seconds)


def _ticks(top: float, *, whole: bool = False) -> list[float]:
    """At most five round values from 0 to `top`; whole numbers only, where asked for."""
    power = 10 ** math.floor(math.log10(top / 4))
    step = next(power * one for one in (1, 2, 2.5, 5, 10) if top / (power * one) < 5)
    step = max(1, math.ceil(step)) if whole else step
    return [round(step * n, 12) for n in range(int(top / step) + 1)]


def _x(at: float, seconds: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at / seconds


def _y(value: float, top: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top, 1)
