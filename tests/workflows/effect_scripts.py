"""Scripts of runs with effects, and a model of the rules that says how each must end.

The model knows nothing of the loop, the ledger or Temporal: it is what spec and docs promise, once more and simpler.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hypothesis import strategies as st

from longshift.agent import UnknownOutcome
from longshift.effects import MAX_AGAIN
from longshift.status import Status

Action = Literal["stop", "stop now", "pause", "one call", "three calls"]
"""What people do at some moment: the last two set the limit of tool calls."""
LIMIT: Mapping[str, int] = {"one call": 1, "three calls": 3}
Moment = tuple[str, str]
"""`model` and the number of a model call; `tool` and the id of a call whose handler is at work for the first time;
`lost` and the id of a call of which a dispatch is lost for the first time before a handler began; `approval` or
`outcome` and the id of a call that a person is asked about."""
Did = Literal["ok", "refuse", "raise", "fatal", "transient", "unknown", "dropped"]
"""What a handler does."""
KINDS: Mapping[str, str] = {"ok": "ok", "refuse": "refused", "raise": "exception", "fatal": "fatal"} | {
    "transient": "transient",
    "unknown": "unknown",
    "dropped": "unknown",
}
"""The kind of observation that it brings; or its outcome is unknown."""
Point = Literal["before", "after", "no tool", "no journal"]
"""What becomes of a dispatch: lost before or after all its work, or it finds no tool or no journal."""
Resolved = Literal["happened", "did_not_happen", "stop"]
"""What a person says of an unknown outcome."""

READS = ("look", "fly")
"""Tools whose calls run side by side; `fly` does not exist."""
IDEMPOTENT = ("post", "mend")
APPROVED = ("buy", "mend")
"""Tools that need approval."""


@dataclass(frozen=True)
class Step:
    """One call of a turn, and all that comes of it."""

    id: str
    tool: str
    does: tuple[Did, ...] = ("ok",)
    """What its handler does each time it runs; the last one again and again."""
    dispatches: tuple[Point | None, ...] = ()
    """What becomes of each dispatch; those after the last one come to their end."""
    approved: bool = True
    resolved: Resolved = "happened"

    @property
    def effect(self) -> bool:
        """Whether it runs alone."""
        return self.tool not in READS

    def done(self, run: int) -> Did:
        """What the handler does when it runs for the so-manieth time, from 0."""
        return self.does[min(run, len(self.does) - 1)]

    def point(self, dispatch: int) -> Point | None:
        """What becomes of a dispatch, by its number from 0."""
        return self.dispatches[dispatch] if dispatch < len(self.dispatches) else None


@dataclass(frozen=True)
class Script:
    """A whole run."""

    turns: tuple[tuple[Step, ...], ...]
    """A turn without calls follows them: the answer."""
    unknown_outcome: UnknownOutcome = "ask"
    tool_calls: int = 16
    events: Mapping[Moment, Action] = field(default_factory=dict)
    by_signal: bool = False
    """The person answers by signals."""


@dataclass
class Expected:
    """How a script ends."""

    status: Status = Status.COMPLETED
    model_calls: int = 0
    tool_calls: int = 0
    observed: list[tuple[str, str]] = field(default_factory=list)
    """Call ids and the kinds of their observations, in the order of the transcript."""
    runs: dict[str, int] = field(default_factory=dict)
    """How often each handler ran, by call id; those that never ran are left out."""
    unrun: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class _Ended(Exception):
    def __init__(self, status: Status, unknown: str | None = None) -> None:
        self.status, self.unknown = status, unknown


def expected(script: Script) -> Expected:
    """How a script must end."""
    return _Model(script).play()


class _Model:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._events = dict(script.events)
        self._limit = script.tool_calls
        self._stopped = self._paused = False
        self._batch: tuple[Step, ...] = ()
        self._end = Expected()

    def play(self) -> Expected:
        try:
            for number, turn in enumerate((*self._script.turns, ()), start=1):
                self._turn(number, turn)
        except _Ended as ended:
            observed = {call_id for call_id, _ in self._end.observed}
            self._end.status = ended.status
            self._end.unrun = tuple(step.id for step in self._batch if step.id not in observed)
            self._end.unknown = (ended.unknown,) if ended.unknown else ()
        return self._end

    def _turn(self, number: int, turn: tuple[Step, ...]) -> None:
        self._batch = ()
        self._stop_holds()
        self._paused = False  # it is resumed as soon as it waits
        if self._end.tool_calls > self._limit:
            raise _Ended(Status.TOOL_LIMIT)
        self._end.model_calls += 1
        if self._happens("model", str(number)) == "stop now":
            raise _Ended(Status.STOP_REQUESTED)
        if not turn:
            return
        self._room_for(len(turn))
        self._batch = turn
        for portion in portions(turn):
            self._portion(portion)

    def _portion(self, portion: list[Step]) -> None:
        first = portion[0]
        asked = first.effect and first.tool in APPROVED
        self._stop_holds()
        if not self._paused:
            self._room_for(len(portion))
        if asked:  # a paused run is asked before the limits are looked at
            self._happens("approval", first.id)
            self._stop_holds()
        self._paused = False
        self._room_for(len(portion))
        self._end.tool_calls += len(portion)
        if asked and not first.approved:
            self._observe(first, "denied")
        elif first.effect:
            self._observe(first, self._effect(first))
        else:
            self._reads(portion)
        if any(kind == "fatal" for _, kind in self._end.observed[-len(portion) :]):
            raise _Ended(Status.TOOL_FATAL)

    def _reads(self, portion: list[Step]) -> None:
        for step in portion:
            if step.tool == "fly":
                self._observe(step, "unknown_tool")
            elif self._runs(step) == "stop now":
                raise _Ended(Status.STOP_REQUESTED)
            else:
                self._observe(step, KINDS[step.done(0)])

    def _effect(self, step: Step) -> str:
        """The kind of its observation."""
        again = dispatch = 0
        while True:
            point = step.point(dispatch)
            dispatch += 1
            if point not in (None, "after"):
                self._happens("lost", step.id)
            ran = self._end.runs.get(step.id, 0)
            if point in ("before", "no tool", "no journal") and not ran:
                if point == "no tool":
                    return "unavailable"
                self._stop_holds()
                continue
            if point in (None, "after"):
                self._runs(step)
                kind = KINDS[step.done(ran)]
                if kind != "unknown":
                    return kind
            elif point == "no journal":
                self._stop_holds(step)
                continue
            if step.tool not in IDEMPOTENT or again == MAX_AGAIN:
                return self._unknown(step)
            again += 1
            self._stop_holds(step)

    def _unknown(self, step: Step) -> str:
        if self._script.unknown_outcome == "tell":
            return "outcome_unknown"
        if self._script.unknown_outcome == "stop":
            raise _Ended(Status.OUTCOME_UNKNOWN, step.id)
        self._stop_holds(step)
        self._happens("outcome", step.id)
        self._stop_holds(step)
        if step.resolved == "stop":
            raise _Ended(Status.OUTCOME_UNKNOWN, step.id)
        return "ok" if step.resolved == "happened" else "not_executed"

    def _runs(self, step: Step) -> Action | None:
        self._end.runs[step.id] = self._end.runs.get(step.id, 0) + 1
        return self._happens("tool", step.id)

    def _happens(self, *moment: str) -> Action | None:
        action = self._events.pop((moment[0], moment[1]), None)
        self._stopped = self._stopped or action in ("stop", "stop now")
        self._paused = self._paused or action == "pause"
        self._limit = LIMIT.get(action or "", self._limit)
        return action

    def _stop_holds(self, unknown: Step | None = None) -> None:
        if self._stopped:
            raise _Ended(Status.STOP_REQUESTED, unknown.id if unknown else None)

    def _room_for(self, count: int) -> None:
        if self._end.tool_calls + count > self._limit:
            raise _Ended(Status.TOOL_LIMIT)

    def _observe(self, step: Step, kind: str) -> None:
        self._end.observed.append((step.id, kind))


def portions(turn: tuple[Step, ...]) -> list[list[Step]]:
    """What runs at the same time: neighbouring reads, an effect alone."""
    cut: list[list[Step]] = []
    for step in turn:
        if cut and not step.effect and not cut[-1][-1].effect:
            cut[-1].append(step)
        else:
            cut.append([step])
    return cut


DOES: tuple[Did, ...] = (
    "ok",
    "ok",
    "ok",
    "refuse",
    "raise",
    "fatal",
    "transient",
    "unknown",
    "unknown",
    "dropped",
)
READING: tuple[Did, ...] = ("ok", "ok", "ok", "refuse", "raise", "fatal")
POINTS: tuple[Point | None, ...] = (None, None, "before", "after", "no tool", "no journal")
RESOLUTIONS: tuple[Resolved, ...] = ("happened", "did_not_happen", "stop")
POLICIES: tuple[UnknownOutcome, ...] = ("ask", "ask", "tell", "stop")
ACTIONS: tuple[Action, ...] = ("stop", "stop now", "pause", "pause", "one call", "three calls")
# What stands twice is drawn more often.


@st.composite
def steps(draw: st.DrawFn, call_id: str) -> Step:
    """A call."""
    tool = draw(st.sampled_from(["look", "look", "look", "fly", "place", "post", "buy", "mend"]))
    if tool in READS:
        return Step(call_id, tool, (draw(st.sampled_from(READING)),))
    return Step(
        call_id,
        tool,
        tuple(draw(st.lists(st.sampled_from(DOES), min_size=1, max_size=3))),
        tuple(draw(st.lists(st.sampled_from(POINTS), max_size=3))),
        draw(st.booleans()),
        draw(st.sampled_from(RESOLUTIONS)),
    )


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """A run of up to three turns with calls, and up to three things that people do meanwhile."""
    turns = tuple(
        tuple(draw(steps(f"c{turn}.{place}")) for place in range(draw(st.integers(1, 4))))
        for turn in range(1, 1 + draw(st.integers(1, 3)))
    )
    moments: list[Moment] = [("model", str(number)) for number in range(1, len(turns) + 2)]
    for step in (step for turn in turns for step in turn):
        moments += [(kind, step.id) for kind in ("tool", "lost", "approval", "outcome")]
    events = draw(st.dictionaries(st.sampled_from(moments), st.sampled_from(ACTIONS), max_size=3))
    # A stop that breaks one of several reads off races with the end of the others.
    crowd = {("tool", step.id) for turn in turns for portion in portions(turn) for step in portion if len(portion) > 1}
    for when in crowd & {when for when, what in events.items() if what == "stop now"}:
        events[when] = "stop"
    return Script(
        turns,
        draw(st.sampled_from(POLICIES)),
        draw(st.sampled_from([16, 16, 16, 4, 2])),
        events,
        draw(st.booleans()),
    )


EDGES = [
    Script(((Step("c1.0", "place", dispatches=("before",)),),), events={("lost", "c1.0"): "stop"}),
    Script(((Step("c1.0", "post", ("unknown",), (None, "no tool", "before", "no journal")), Step("c1.1", "look")),)),
    Script(
        (
            (
                Step("c1.0", "look"),
                Step("c1.1", "mend", ("unknown", "dropped", "ok")),
                Step("c1.2", "buy", approved=False),
            ),
        ),
        events={("tool", "c1.0"): "pause", ("approval", "c1.2"): "pause"},
    ),
    Script(
        ((Step("c1.0", "place", ("unknown",), resolved="did_not_happen"),), (Step("c2.0", "place", ("dropped",)),)),
        events={("outcome", "c1.0"): "pause", ("outcome", "c2.0"): "stop now"},
    ),
]
"""Runs that rarely come by chance."""
