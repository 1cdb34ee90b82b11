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
    if len(rest) == 2 and _is_moment(rest[1]):
        rest.pop()
    return undated(run, rest[0]) if len(rest) == 1 else name


def _is_moment(text: str) -> bool:
    if text.isdecimal() and text.isascii():
        return True
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
