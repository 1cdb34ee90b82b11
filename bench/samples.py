"""What is measured, as it is kept in JSON: a table can be made of it again."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from bench.histories import Weighed


class Measured(BaseModel):
    """Base of all of it."""

    model_config = ConfigDict(frozen=True)


class Gauge(Measured):
    """A look at a worker while it works."""

    at: float
    """Seconds since 1970."""
    resident: int
    """Bytes of memory."""
    files: int
    """File handles."""
    stored: int
    """Bytes of its own database."""


class Sample(Measured):
    """One shift."""

    subject: str
    steps: int
    round: int
    wall: float
    """Seconds from asking for it to having its result, or to its failure."""
    cpu: float
    """Seconds of the worker's CPU, user and system."""
    server_cpu: float = 0
    """Seconds of the Temporal server's CPU."""
    peak: int
    """Bytes of memory, the most the worker had."""
    stored: int
    """Bytes that its own database grew by."""
    history: Weighed | None = None
    """None: it is not on Temporal."""
    replay: float | None = None
    """Seconds in which the longest run of the history is replayed, as a worker does that has it not in its cache; None:
    a peer's, whose code is not in this environment."""
    began: list[float]
    """When each model call began, in seconds since 1970."""
    gauges: list[Gauge]
    failure: str | None = None
    """Why the shift did not end well."""

    @property
    def reached(self) -> int:
        """Steps that it began."""
        return min(len(self.began), self.steps)

    @property
    def history_bytes(self) -> int | None:
        """Bytes of its history, if it has one."""
        return self.history.bytes if self.history else None

    @property
    def history_events(self) -> int | None:
        """Events of its history, if it has one."""
        return self.history.events if self.history else None


class Crowd(Measured):
    """Many shifts at once."""

    subject: str
    workers: int
    shifts: int
    steps: int
    """Of each shift."""
    round: int
    wall: float
    """Seconds from asking for the first to the result of the last."""
    cpu: float
    """Seconds of all workers' CPU."""
    peak: int
    """Bytes of memory, the most that the workers had, added up."""
    slowest: float
    """Seconds of the shift that took longest."""
    failed: int
    """Shifts that did not end well."""


class Resume(Measured):
    """A worker killed at work, and another one in its place."""

    subject: str
    steps: int
    round: int
    seconds: float
    """From the new worker's start to the first activity that is completed after it."""
    heartbeat: float | None
    """Seconds without a sign of life after which the dead worker's activity is given up; None: it waits for the
    activity's whole time."""


class Paused(Measured):
    """Shifts that wait, in a worker's cache."""

    shifts: int
    steps: int
    """That each did before it waited."""
    started: int
    """Bytes of the worker's memory after its first shift."""
    before: int
    """After as many at once as are started at once here, which have ended: what grows once for all shifts to come has
    grown."""
    after: int
    """With all of them waiting."""
    files: int
    """File handles then."""


class Starts(Measured):
    """Seconds of wall time, each measured one after the other."""

    interpreter: list[float]
    """`python -c pass`."""
    help: list[float]
    """`longshift --help`."""
    worker: list[float]
    """From the start of `python -m worker` to the server's seeing it poll; the journal is new each time."""
    demo: list[float]
    """`longshift demo`, from start to end."""


class Results(BaseModel):
    """All of one call of the command, or of several."""

    machine: dict[str, Any] = Field(default_factory=dict)
    """Versions and machine."""
    shifts: list[Sample] = Field(default_factory=list)
    crowds: list[Crowd] = Field(default_factory=list)
    resumes: list[Resume] = Field(default_factory=list)
    paused: Paused | None = None
    starts: Starts | None = None


def together(parts: Sequence[Results]) -> Results:
    """What was measured in several calls, with all that they say of commit, versions and machine."""
    names = dict.fromkeys(name for part in parts for name in part.machine)
    said = {name: dict.fromkeys(str(part.machine[name]) for part in parts if name in part.machine) for name in names}
    return Results(
        machine={name: ", ".join(values) for name, values in said.items()},
        shifts=[sample for part in parts for sample in part.shifts],
        crowds=[crowd for part in parts for crowd in part.crowds],
        resumes=[resume for part in parts for resume in part.resumes],
        paused=next((part.paused for part in parts if part.paused), None),
        starts=next((part.starts for part in parts if part.starts), None),
    )
