"""A run's history as an audit reads it: what its workflow asked for, step by step, and what came back.

Nothing here knows Temporal's events; client/audit_reading.py makes these facts of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from longshift import contracts
from longshift.contracts import (
    JOURNAL_AWAY,
    CalledModel,
    CallModel,
    CloseRun,
    OpenedRun,
    OpenRun,
    RanTool,
    RunResult,
    RunSpec,
    RunTool,
    SettledEffect,
    SettleEffect,
)
from longshift.run_input import RunInput
from longshift.state import Carried
from longshift.turns import ModelFailure, Turn

Request = OpenRun | CallModel | RunTool | SettleEffect | CloseRun
Returned = OpenedRun | CalledModel | RanTool | SettledEffect | None
NOT_TAKEN = "NotTaken"
"""The type of the failure of a step that no worker took."""
Place = tuple[int, int, str]
"""Of a tool call: number of the model call, position in its batch, the call's id."""


@dataclass(frozen=True)
class Failed:
    """A step that brought nothing."""

    type: str
    """The failure's own type, or Temporal's word for the time-out or the cancellation."""
    message: str
    failure: ModelFailure | None = None
    """What `call_model` reported, where it did."""


@dataclass(frozen=True)
class Step:
    """One activity that a workflow asked for."""

    number: int
    """Of the event that scheduled it."""
    at: float
    """Seconds since the epoch: when it was scheduled."""
    id: str
    """The activity's id."""
    request: Request
    ended_at: float | None = None
    done: bool = False
    """It returned."""
    returned: Returned = None
    failed: Failed | None = None

    @property
    def again(self) -> bool:
        """Whether it hands out what was handed out before."""
        return contracts.AGAIN in self.id

    @property
    def turn(self) -> Turn | None:
        """The turn that a model call brought."""
        return self.returned.turn if isinstance(self.returned, CalledModel) else None

    @property
    def model_failure(self) -> ModelFailure | None:
        """The failure that a model call reported."""
        return self.failed.failure if self.failed else None

    @property
    def not_entered(self) -> bool:
        """Whether the journal surely holds nothing of a model call by this step: it was refused before."""
        failure = self.model_failure
        return failure is not None and (failure.kind == "fund" or (failure.kind == "journal" and not failure.transient))

    @property
    def journal_away(self) -> bool:
        """Whether the journal was away when the step was to be entered: nothing was done then, though a commit may have
        been lost with its answer."""
        if self.failed is None:
            return False
        reported = self.model_failure
        return self.failed.type == JOURNAL_AWAY or (reported is not None and reported.kind == "journal")

    @property
    def entered(self) -> bool:
        """Whether the journal surely took what a model call, or the end, brought along."""
        return self.done or (self.model_failure is not None and not self.not_entered and not self.journal_away)

    @property
    def ran(self) -> RanTool | None:
        """What a tool call brought, from its handler or from the ledger."""
        if isinstance(self.returned, SettledEffect):
            return self.returned.ran
        return self.returned if isinstance(self.returned, RanTool) else None

    @property
    def tool(self) -> RunTool | None:
        """The tool call that it is about."""
        if isinstance(self.request, SettleEffect):
            return self.request.call
        return self.request if isinstance(self.request, RunTool) else None


@dataclass(frozen=True)
class Part:
    """One Temporal run: a whole run, or one part of its chain, or of a way that a reset has left."""

    run: str
    """Temporal's id of it."""
    steps: tuple[Step, ...] = ()
    given: RunInput | None = None
    """What the run was started with, in the first part."""
    carried: Carried | None = None
    """What the part before handed over, in a later one."""
    hands_over: Carried | None = None
    """What it handed to the next part."""
    closed: str = ""
    """Temporal's word for how it closed, such as COMPLETED; empty while it is open."""
    result: RunResult | None = None
    """What it ended with, where it ended with a result."""
    refused: bool = False
    """Its input was bad, and no shift began."""
    continued_from: str = ""
    """Temporal's id of the part before."""
    reset_from: str = ""
    """Temporal's id of the run that a reset made it from."""
    problem: str | None = None
    """What cannot be right with its events, such as one that is missing."""


@dataclass(frozen=True)
class History:
    """All that Temporal holds of a run."""

    path: tuple[Part, ...] = ()
    """The way that counts, from its beginning."""
    ways: tuple[tuple[Part, ...], ...] = ()
    """Ways that a reset has left, each from its beginning."""
    missing: tuple[str, ...] = ()
    """Temporal's ids of runs that belong to it and are not there any more."""

    @property
    def parts(self) -> Iterator[Part]:
        """Every part once, those of the path first."""
        seen: set[str] = set()
        for part in [*self.path, *(part for way in self.ways for part in way)]:
            if part.run not in seen:
                seen.add(part.run)
                yield part

    @property
    def whole(self) -> bool:
        """Whether the path is there from its beginning."""
        return bool(self.path) and self.path[0].carried is None and not self.path[0].continued_from

    @property
    def spec(self) -> RunSpec | None:
        """What the run works with, as far as it was opened."""
        return opened_by(self.path)

    @property
    def closed(self) -> str:
        """How the latest part closed; empty while the run goes on."""
        return self.path[-1].closed if self.path else ""

    @property
    def result(self) -> RunResult | None:
        """What the run ended with: from its end, or, where Temporal keeps none, from the recording of it."""
        if not self.path:
            return None
        recorded = [step.request.result for step in self.path[-1].steps if isinstance(step.request, CloseRun)]
        return self.path[-1].result or (recorded[-1] if recorded and self.closed else None)


def history_of(parts: Sequence[Part], latest: str, missing: Sequence[str] = ()) -> History:
    """Put Temporal runs in order: the chain that ends with `latest`, and those that end elsewhere."""
    known = {part.run: part for part in parts}

    def chain(last: str) -> tuple[Part, ...]:
        found: dict[str, Part] = {}
        while last in known and last not in found:
            found[last] = known[last]
            last = known[last].continued_from
        return tuple(reversed(found.values()))

    path = chain(latest)
    ours = {part.run for part in path}
    others = [run for run in known if run not in ours]
    continued = {known[run].continued_from for run in others}
    return History(path, tuple(chain(run) for run in others if run not in continued), tuple(missing))


def opened_by(parts: Sequence[Part]) -> RunSpec | None:
    """What a run works with, as it was recorded when it was opened or handed over."""
    for part in parts:
        if part.carried is not None:
            return part.carried.spec
        for step in part.steps:
            if isinstance(step.returned, OpenedRun):
                return step.returned.spec
    return None


@dataclass
class Steps:
    """The steps of a way, by what they are about."""

    opened: OpenedRun | None = None
    calls: dict[int, list[Step]] = field(default_factory=dict)
    """Of each model call, by its number, in order."""
    tools: dict[Place, list[Step]] = field(default_factory=dict)
    """Of each tool call: dispatches and questions to the ledger."""
    closing: Step | None = None

    @classmethod
    def of(cls, parts: Sequence[Part]) -> "Steps":
        """The steps of these parts."""
        found = cls()
        for step in (step for part in parts for step in part.steps):
            if isinstance(step.returned, OpenedRun):
                found.opened = step.returned
            if isinstance(step.request, CallModel):
                found.calls.setdefault(step.request.number, []).append(step)
            elif isinstance(step.request, CloseRun):
                found.closing = step
            if (tool := step.tool) is not None:
                found.tools.setdefault((tool.model_call, tool.position, tool.call.id), []).append(step)
        return found
