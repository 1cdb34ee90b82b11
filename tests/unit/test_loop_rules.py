"""What holds for every run, whatever the model says, whatever fails and whatever people send."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from longshift import Status
from longshift.inbox import MessageRefused
from longshift.messages import ToolMessage
from longshift.turns import ModelFailure, Turn
from tests.unit.authored import agent, call, failure, turn
from tests.unit.loop_driver import Driver, Moment, checked

IDS = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h", *(f"fresh-{n}" for n in range(30))])
MONEY = st.sampled_from([0, 1, 4_999, 10_000, 25_000])


@st.composite
def any_turn(draw: DrawFn) -> Turn | ModelFailure:
    """A reply or a failure, more often good than bad."""
    milliseconds = draw(st.sampled_from([0, 0, 10, 900]))
    if draw(st.integers(0, 7)) == 0:
        wait = draw(st.sampled_from([None, 0.0, 2.5, 1e9]))
        cost = draw(st.none() | MONEY)
        return failure(transient=draw(st.booleans()), retry_after=wait, cost=cost, milliseconds=milliseconds)
    names = st.sampled_from(["look", "look", "add", "send", "ring", "fly"])
    made = st.builds(lambda id_, name, n: call(id_, name, n=n), IDS, names, st.integers(0, 2))
    calls = draw(st.lists(made, max_size=5))
    text = draw(st.sampled_from(["", " ", "Done."]))
    tokens = draw(st.sampled_from([None, 0, 1, 5, 5, 5, 99]))
    return turn(text, *calls, tokens=tokens, cost=draw(st.none() | MONEY), milliseconds=milliseconds)


LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "model_calls": st.integers(1, 8),
        "tool_calls": st.integers(1, 12),
        "seconds": st.sampled_from([0.5, 3, 60]),
        "working_seconds": st.sampled_from([None, 0.5, 2]),
        "context_bytes": st.sampled_from([400, 1500, 32768]),
        "output_tokens": st.integers(5, 50),
        "total_output_tokens": st.integers(5, 100),
        "estimated_call_cents": st.sampled_from([0, 0.25, 1]),
        "model_budget_cents": st.sampled_from([1, 3, 100]),
        "repeats": st.integers(0, 4),
        "model_retries": st.integers(0, 3),
        "on_limit": st.sampled_from(["end", "wait"]),
        "wrap_up": st.booleans(),
    },
)
SENT: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    st.tuples(st.just("stop"), st.sampled_from([None, {"mode": "now"}, 17, "enough"])),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("set_limits"), LIMITS),
    st.tuples(st.just("tell"), st.sampled_from(["And?", "", None])),
)
EVENTS = st.dictionaries(st.integers(0, 30), st.lists(SENT, max_size=2), max_size=5)


@st.composite
def runs(draw: DrawFn) -> tuple[dict[str, Any], list[Turn | ModelFailure], dict[int, list[tuple[str, Any]]]]:
    """Limits, turns, and what is sent at which moment."""
    return draw(LIMITS), draw(st.lists(any_turn(), min_size=1, max_size=10)), draw(EVENTS)


class Watched:
    """A hook that sends what was drawn, and looks at the counters before and after."""

    def __init__(self, events: dict[int, list[tuple[str, Any]]]) -> None:
        self.events = events
        self.moments = 0
        self.model_calls = self.tool_calls = self.output_tokens = self.exposure = 0
        self.most_tokens = self.largest_budget = 0
        """The largest values that these limits had so far."""

    def __call__(self, driver: Driver, moment: Moment) -> None:
        """Send what is due."""
        self.check(driver)
        for kind, value in self.events.get(self.moments, ()):
            try:
                getattr(driver, kind)(value)
            except MessageRefused:
                assert kind != "stop"
        self.moments += 1
        self.check(driver)

    def check(self, driver: Driver) -> None:
        """No counter decreases, and none advances past its limit.

        Tokens and exposure of a call that is out are counted after a limit may have been lowered: they are held
        against the largest value it had. A settled cost above its estimate may bring the exposure past the budget,
        by the difference.
        """
        state, limits = driver.state, driver.state.limits
        assert state.model_calls == self.model_calls or self.model_calls < state.model_calls <= limits.model_calls
        assert state.tool_calls == self.tool_calls or self.tool_calls < state.tool_calls <= limits.tool_calls
        self.most_tokens = max(self.most_tokens, limits.total_output_tokens)
        self.largest_budget = max(self.largest_budget, limits.budget)
        assert self.output_tokens <= state.output_tokens <= self.most_tokens
        assert 0 <= state.exposure <= self.largest_budget + driver.overcharged
        self.model_calls, self.tool_calls, self.output_tokens = state.model_calls, state.tool_calls, state.output_tokens


@settings(max_examples=100, deadline=None)
@given(runs())
def test_whatever_happens_the_counters_the_exposure_and_the_transcript_keep_their_rules(run: Any) -> None:
    limits, turns, events = run
    outcomes = []
    for carry in (False, True):
        watched = Watched(events)
        driver = Driver(agent(limits=limits), turns, hook=watched, carry=carry)
        result = checked(driver)
        watched.check(driver)
        if result.unrun_calls:
            assert result.status in (
                Status.STOP_REQUESTED,
                Status.TIME_LIMIT,
                Status.TOOL_FATAL,
                Status.TOOL_LIMIT,
            )
        observed = [message.call_id for message in driver.transcript if isinstance(message, ToolMessage)]
        assert len(observed) == len(set(observed))
        assert not set(observed) & set(result.unrun_calls)
        assert result.partial is None or result.status is not Status.COMPLETED
        outcomes.append((result, driver.transcript, driver.dispatched, driver.offered))
    assert outcomes[0] == outcomes[1], "what continue-as-new carries changes nothing"
