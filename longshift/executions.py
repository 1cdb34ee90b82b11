"""What the journal calls the execution of an activity that sent or began something."""

from datetime import datetime

RUN_CHARACTERS = 12
"""Of a workflow run's id, its last ones, which are random: two rows a step have the name, so it is short."""


def execution(run: str, activity_id: str, started: datetime) -> str:
    """One execution, by the run of its workflow, the activity's id, and when it started, in microseconds since the
    epoch. Id and attempt would not do: an operator can set the attempts back, and the platform counts from 1 again."""
    return f"{undated(run, activity_id)}/{round(started.timestamp() * 1_000_000)}"


def undated(run: str, activity_id: str) -> str:
    """An execution as far as a history knows it."""
    return f"{run[-RUN_CHARACTERS:]}/{activity_id}"


def without_date(name: str) -> str:
    """The undated name in what the journal holds: of an execution by this version, or by an earlier one, which wrote
    the whole id of the run, and the time as ISO 8601 or not at all. Anything else as it is."""
    run, *rest = name.split("/")
    if len(rest) == 2 and _moment(rest[1]) is not None:
        rest.pop()
    return undated(run, rest[0]) if len(rest) == 1 else name


def precedes(name: str, other: str) -> bool:
    """Whether one execution surely began before another, by the platform's clock. Earlier versions may have named
    either without a date: then nobody can say."""
    began, other_began = _began(name), _began(other)
    return began is not None and other_began is not None and began < other_began


def _began(name: str) -> int | None:
    parts = name.split("/")
    return _moment(parts[2]) if len(parts) == 3 else None


def _moment(text: str) -> int | None:
    """A time in microseconds since the epoch; None for what is no time."""
    try:
        if text.isdecimal() and text.isascii():
            return int(text)
        given = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round(given.timestamp() * 1_000_000) if given.tzinfo is not None else None
