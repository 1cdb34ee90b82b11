"""The figures of many runs: how they ended, what they spent, how many steps they took, which limits bound. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

from longshift import jsontext
from longshift.limits import cents
from longshift.remedies import RAISED
from longshift.status import Status
from store.runs import RunFigures

NO_END = "NO END RECORDED"
"""Of a run that the journal holds no end of, where the server says nothing of it."""
LATEST = 500
"""Runs that are listed one by one: the latest."""
LIMITS = {**RAISED, Status.TIME_LIMIT: "seconds"}
"""The limit that each status ends a run at. Repetition is no limit that is used up."""


@dataclass(frozen=True)
class Row:
    """One run of the list."""

    figures: RunFigures
    status: str

    @property
    def seconds(self) -> float | None:
        """Wall time until its end; None where none is recorded."""
        closed = self.figures.closed_at
        return None if closed is None else closed - self.figures.opened_at


@dataclass(frozen=True)
class Spent:
    """What the runs of one agent on one model took."""

    name: str
    runs: int
    completed: int
    model_calls: int
    output_tokens: int
    exposure: int
    """Micro-USD."""


@dataclass(frozen=True)
class Spread:
    """How a figure is spread over runs: the least, the middle, what nine in ten stay within, the most."""

    name: str
    least: float
    middle: float
    nine_tenths: float
    most: float


@dataclass(frozen=True)
class Bound:
    """How often a limit bound."""

    limit: str
    ended: int
    """Runs that ended at it."""
    waited: int
    """Runs that waited at it at least once."""


@dataclass(frozen=True)
class Overview:
    """Many runs."""

    since: float
    """Seconds since the epoch, as `made_at`."""
    made_at: float
    note: str
    """Where the statuses of runs without a recorded end come from."""
    statuses: Sequence[tuple[str, int]]
    """The most frequent first."""
    days: Sequence[tuple[str, int]]
    """Micro-USD by the day on which runs began, UTC."""
    spent: Sequence[Spent]
    spreads: Sequence[Spread]
    """Of the runs that completed."""
    bounds: Sequence[Bound]
    rows: Sequence[Row]
    """The latest first, LATEST of them at most."""
    runs: int
    exposure: int
    """Micro-USD of all runs."""

    def document(self) -> dict[str, object]:
        """The figures as `--json` prints them; money in micro-USD and in US cents."""
        return {
            "since": self.since,
            "runs": self.runs,
            "exposure_micro_usd": self.exposure,
            "exposure_cents": cents(self.exposure),
            "statuses": dict(self.statuses),
            "days": dict(self.days),
            "spent": [vars(one) for one in self.spent],
            "completed": [vars(one) for one in self.spreads],
            "limits": [vars(one) for one in self.bounds],
        }


def overview(runs: Sequence[RunFigures], since: float, now: float, standing: Mapping[str, str], note: str) -> Overview:
    """The figures of some runs.

    Args:
        runs: in the order in which they began.
        since: seconds since the epoch, as `now`.
        standing: statuses by the server, of runs that the journal holds no end of.
        note: where they come from, or why there are none.
    """
    rows = [Row(one, one.status or standing.get(one.run_id, NO_END)) for one in reversed(runs)]
    days: defaultdict[str, int] = defaultdict(int)
    for one in runs:
        days[datetime.fromtimestamp(one.opened_at, UTC).strftime("%Y-%m-%d")] += one.exposure
    completed = [row for row in rows if row.status == Status.COMPLETED]
    figures: Mapping[str, Sequence[float]] = {
        "model calls": [row.figures.model_calls for row in completed],
        "tool calls": [row.figures.tool_calls for row in completed],
        "seconds": [row.seconds for row in completed if row.seconds is not None],
        "US cents": [cents(row.figures.exposure) for row in completed],
    }
    return Overview(
        since=since,
        made_at=now,
        note=note,
        statuses=Counter(row.status for row in rows).most_common(),
        days=list(days.items()),
        spent=_spent(rows),
        spreads=[_spread(name, values) for name, values in figures.items() if values],
        bounds=_bounds(rows),
        rows=rows[:LATEST],
        runs=len(rows),
        exposure=sum(one.exposure for one in runs),
    )


def _spent(rows: Sequence[Row]) -> list[Spent]:
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[f"{row.figures.agent} on {row.figures.model}"].append(row)
    found = [
        Spent(
            name=name,
            runs=len(group),
            completed=sum(row.status == Status.COMPLETED for row in group),
            model_calls=sum(row.figures.model_calls for row in group),
            output_tokens=sum(row.figures.output_tokens for row in group),
            exposure=sum(row.figures.exposure for row in group),
        )
        for name, group in groups.items()
    ]
    return sorted(found, key=lambda one: (-one.exposure, -one.runs, one.name))


def _spread(name: str, values: Iterable[float]) -> Spread:
    found = sorted(values)
    nine_tenths = found[-(-9 * len(found) // 10) - 1]
    return Spread(name, found[0], median(found), nine_tenths, found[-1])


def _bounds(rows: Sequence[Row]) -> list[Bound]:
    ended = Counter(row.status for row in rows)
    waited = Counter(status for row in rows for status in _waited_at(row.figures))
    found = [Bound(limit, ended[status], waited[status]) for status, limit in LIMITS.items()]
    return sorted((one for one in found if one.ended or one.waited), key=lambda one: -(one.ended + one.waited))


def _waited_at(run: RunFigures) -> set[str]:
    """The statuses of the limits at which a run waited, each once: so the reason of such a wait begins."""
    found = set()
    for detail in run.held:
        try:
            body = jsontext.parse(detail)
        except ValueError:
            continue
        reason = body.get("reason") if isinstance(body, dict) else None
        status = reason.partition(":")[0] if isinstance(reason, str) else ""
        if status in LIMITS:
            found.add(status)
    return found
