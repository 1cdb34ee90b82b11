"""What a watch shows: pictures of any width and height. Nothing here asks anybody anything."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from client import show
from client.inert import inert
from client.shifts import Listed, Snapshot
from client.story import StoryLine

DOING = 20
"""Columns of what a run does below which each run of a list gets two lines instead of a row."""
STEPS = 8
"""Latest steps shown where no height bounds them."""
KEYS = "p:pause  r:resume  s:stop  q:leave"
ANSWERS = "a:approve  d:deny  "
"""Keys beside them while a run asks whether an effect may be made."""
LEAVE = "q:leave"


@dataclass(frozen=True)
class Foot:
    """What stands below a picture, in any height."""

    away_since: float | None = None
    """When the server was asked that has not answered since, in seconds since the epoch."""
    notice: str = ""
    """What came of the latest key."""
    prompt: str = ""
    """What is asked of the person at the keys."""
    keys: str = ""
    """The keys that can be pressed."""

    def lines(self) -> list[Text]:
        """What of it there is."""
        away = ""
        if self.away_since is not None:
            away = away_words(self.away_since)
        told = ((away, "red"), (self.notice, "yellow"), (self.prompt, "bold"), (self.keys, "dim"))
        return [Text(inert(text), style) for text, style in told if text]


def away_words(since: float) -> str:
    """That the server does not answer."""
    return f"the Temporal server has not answered since {show.clock(since)}; the watch goes on when it does"


def one(
    found: Snapshot, steps: Sequence[StoryLine], foot: Foot, width: int, height: int | None = None
) -> RenderableType:
    """One run: where it stands, its budgets as bars, its latest steps.

    Args:
        foot: what stands below them.
        width: columns of the terminal.
        height: its lines, which are filled; None: as many as it takes, with few steps.
    """
    return _Fitted(
        (show.facts(found), show.bars(found, width)), [show.story_line(told) for told in steps], foot, height
    )


def every(
    runs: Sequence[Listed], ended: Sequence[Listed], foot: Foot, width: int, height: int | None = None
) -> RenderableType:
    """Runs that wait or are stuck, then those at work, then those that ended meanwhile. Sizes: as `one`."""
    shown = [*sorted(runs, key=lambda run: run.status == "RUNNING"), *ended]
    head = Text("no shift is at work or waits; this goes on looking" if not runs else _counted(runs), "bold")
    started = [show.clock(run.started_at) for run in shown]
    columns = ([_status(run) for run in shown], [inert(run.run_id) for run in shown], started)
    widths = [max(map(cell_len, cells), default=0) for cells in columns]
    room = width - sum(widths) - 2 * len(widths)
    if room < DOING:
        return _Fitted((head, Group(*(line for run in shown for line in _two_lines(run)))), [], foot, height)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, cells_wide in zip(("status", "run", "started", "what it does"), (*widths, room), strict=True):
        table.add_column(name, no_wrap=True, overflow="ellipsis", width=cells_wide)
    for run, *cells in zip(shown, *columns, strict=True):
        style = show.colour(run.status)
        table.add_row(Text(cells[0], style), Text(cells[1]), Text(cells[2]), Text(inert(doing(run))))
    return _Fitted((head, *((table,) if shown else ())), [], foot, height)


def _two_lines(run: Listed) -> tuple[Text, Text]:
    doing_it = Text(f"  {inert(doing(run))}", no_wrap=True, overflow="ellipsis")
    return Text(f"{_status(run)}  {inert(run.run_id)}", show.colour(run.status)), doing_it


def doing(run: Listed) -> str:
    """What a run waits for, what keeps it, how it ended, or else its task."""
    return run.stuck or run.detail or run.goal


def in_words(run: Listed) -> str:
    """How a run of a list stands, in one line."""
    what = doing(run)
    return f"{run.run_id}  {_status(run)}" + (f": {what}" if what else "")


def _status(run: Listed) -> str:
    return run.status if run.closed_at is None else f"ended: {run.status}"


def _counted(runs: Sequence[Listed]) -> str:
    waiting = sum(run.status == "WAITING" for run in runs)
    return f"{len(runs)} {'shift' if len(runs) == 1 else 'shifts'}, {waiting} waiting"


@dataclass(frozen=True)
class _Fitted:
    """Parts one below the other, in the height there is: where it is low, there are fewer steps, then less of the first
    part, and of the foot nothing is left out."""

    parts: Sequence[RenderableType]
    steps: Sequence[Text]
    foot: Foot
    height: int | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        free = options.reset_height()

        def drawn(parts: Sequence[RenderableType]) -> list[list[Segment]]:
            return [line for part in parts for line in console.render_lines(part, free, pad=False)]

        foot = drawn(self.foot.lines())
        parts = [lines for part in self.parts if (lines := drawn([part]))]
        if self.height is None:
            lines = _joined([*parts, drawn(self.steps[-STEPS:])])
        else:
            room = max(0, self.height - len(foot))
            lines = _joined(parts)
            if len(lines) > room and parts:  # what is between the parts goes first, then the end of the first
                first, *rest = parts
                kept = max(room - sum(map(len, rest)), room // 2)
                lines = [*first[:kept], *(line for part in rest for line in part)][:room]
            left = room - len(lines) - 2  # a line before the steps and one after them
            if left > 0 and self.steps:
                lines = _joined([lines, drawn(self.steps[-left:])])
            lines += [[] for _ in range(room - len(lines))]  # the foot is at the bottom
        for line in (*lines, *foot):
            yield from line
            yield Segment.line()


def _joined(parts: Sequence[list[list[Segment]]]) -> list[list[Segment]]:
    """Parts with an empty line between them."""
    lines: list[list[Segment]] = []
    for part in parts:
        if part:
            lines += [*([[]] if lines else []), *part]
    return lines
