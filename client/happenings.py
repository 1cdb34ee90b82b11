"""What a history holds, decoded: the few facts of each event that a story, or a terminated run's end, is told from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Failure:
    """Why an activity or a workflow task failed."""

    type: str
    """The failure's own type, or the kind of time-out in Temporal's words, such as HEARTBEAT."""
    message: str
    details: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Happening:
    """One event of a history, decoded: the few facts of it that a story needs."""

    at: float
    """Seconds since the epoch."""
    event: str
    """The event's type in Temporal's words, such as ACTIVITY_TASK_SCHEDULED."""
    number: int
    """Its number in the history."""
    about: int = 0
    """Number of the event in which the activity was scheduled that this one is about."""
    name: str = ""
    """What it names: the activity, the signal, the update, the activity's own id."""
    id: str = ""
    """The activity's id."""
    values: tuple[Any, ...] = ()
    """Its payloads, as JSON values."""
    memo: Mapping[str, Any] | None = None
    summary: str = ""
    """The summary of a timer."""
    seconds: float = 0
    """How long a timer runs."""
    attempt: int = 1
    failure: Failure | None = None
    reason: str = ""
    who: str = ""
    """Identity of the person or process that sent it."""
    again: bool = False
    """The run goes on in another run of its chain."""
