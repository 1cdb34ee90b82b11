"""Effects in the pure loop: what holds whatever becomes of their dispatches and whatever people answer."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from longshift import Status
from longshift.agent import AgentSpec
from longshift.contracts import RunResult
from longshift.effects import MAX_AGAIN
from longshift.inbox import MessageRefused
from longshift.messages import ToolCall, ToolMessage, arguments_digest
from longshift.observations import kind_of, ok
from longshift.questions import ApprovalRule
from longshift.tools import ToolSpec
from longshift.turns import Turn
from tests.unit.authored import agent, call, turn
from tests.unit.loop_driver import Driver, Fate, Moment, Ran, checked
from tests.unit.test_loop_rules import EVENTS, LIMITS, Watched

TOOLS = (
    ToolSpec(name="look", kind="read"),
    ToolSpec(name="send", kind="effect"),
    ToolSpec(name="post", kind="effect", idempotent=True),
    ToolSpec(name="buy", kind="effect", needs_approval=ApprovalRule(argument="n", above=0)),
    ToolSpec(name="mend", kind="effect", needs_approval=True, idempotent=True, repeatable=True),
)
ANSWER = turn("Done.")
Reply = tuple[str, dict[str, Any]]
"""What a person answers when asked: the message's name, and its fields beside those that bind it to the question."""
APPROVE: Reply = ("approve", {})
DENY: Reply = ("deny", {"reason": "no"})
HAPPENED: Reply = ("resolve", {"outcome": "happened", "result": 7})
NOT: Reply = ("resolve", {"outcome": "did_not_happen"})
STOP: Reply = ("resolve", {"outcome": "stop"})


def buyer(limits: dict[str, Any] | None = None, **fields: Any) -> AgentSpec:
    """An agent with these tools."""
    return agent(limits=limits or {}, **fields).model_copy(update={"tools": TOOLS})


class Person(Watched):
    """A hook that also answers what the run asks, with one reply after the other as long as there are any."""

    def __init__(self, replies: Sequence[Reply], events: dict[int, list[tuple[str, Any]]]) -> None:
        super().__init__(events)
        self._replies = list(replies)
        self.approved: list[tuple[str, str]] = []
        """Ids and digests of the calls that were approved."""

    def __call__(self, driver: Driver, moment: Moment) -> None:
        """Send what is due, then answer."""
        super().__call__(driver, moment)
        asked = driver.state.question
        if moment != "hold" or asked is None or driver.state.persons_answer or not self._replies:
            return
        name, fields = self._replies.pop(0)
        given = {"call_id": asked.call_id, "arguments_sha256": asked.arguments_sha256, **fields}
        try:
            getattr(driver, name)(given)
        except MessageRefused:
            assert (name == "resolve") != (asked.kind == "outcome")
            driver.pause(driver.state.paused)  # sent as a signal, it wakes the run all the same
            return
        if name == "approve":
            self.approved.append((asked.call_id, asked.arguments_sha256))


def play(
    *turns: Turn, fates: dict[str, Sequence[Fate]] | None = None, replies: Sequence[Reply] = (), **fields: Any
) -> tuple[Driver, RunResult]:
    """A run of these turns; its transcript is checked."""
    driver = Driver(buyer(**fields), turns, hook=Person(replies, {}), fates=fates or {})
    return driver, checked(driver)


def kinds(driver: Driver) -> list[str]:
    """The kinds of the observations, in order."""
    return [kind_of(message.content) for message in driver.transcript if isinstance(message, ToolMessage)]


@pytest.mark.parametrize(
    ("made", "fates", "replies", "told", "ran"),
    [
        (call("a", "send"), ["lost", "lost", "ran"], [], "ok", 1),
        (call("a", "send"), ["lost", "missing"], [], "unavailable", 0),
        (call("a", "send"), ["unknown"], [HAPPENED], "ok", 1),
        (call("a", "send"), ["unknown"], [NOT], "not_executed", 1),
        (call("a", "post"), ["unknown", "unknown", "lost"], [], "ok", 3),
        (call("a", "post"), ["unknown", *["missing"] * 9], [HAPPENED], "ok", 1),
        (call("a", "post"), ["unknown"] * 9, [NOT], "not_executed", 1 + MAX_AGAIN),
        (call("a", "buy", None, n=0), ["ran"], [], "ok", 1),
        (call("a", "buy", None, n=1), ["ran"], [APPROVE], "ok", 1),
        (call("a", "buy", None, n=1), ["ran"], [HAPPENED, STOP, APPROVE], "ok", 1),
        (call("a", "buy", None, n=1), ["ran"], [DENY], "denied", 0),
        (call("a", "buy", None, n=1), ["lost", "unknown"], [APPROVE, APPROVE, NOT], "not_executed", 1),
        (call("a", "mend"), ["unknown", "ran"], [APPROVE], "ok", 2),
    ],
)
def test_whatever_becomes_of_an_effect_is_told_once_and_counts_once(
    made: ToolCall, fates: Sequence[Fate], replies: Sequence[Reply], told: str, ran: int
) -> None:
    driver, result = play(turn("", made), ANSWER, fates={"a": fates}, replies=replies)
    assert (result.status, result.tool_calls, kinds(driver)) == (Status.COMPLETED, 1, [told])
    assert len(driver.dispatched) == ran
    assert (result.unrun_calls, result.unknown_calls, driver.state.question) == ((), (), None)


@pytest.mark.parametrize(
    ("made", "fates", "replies", "fields", "status", "unknown"),
    [
        (call("a", "send"), ["unknown"], [STOP], {}, Status.OUTCOME_UNKNOWN, ("a",)),
        (call("a", "send"), ["unknown"], [], {}, Status.TIME_LIMIT, ("a",)),
        (call("a", "send"), ["unknown"], [], {"unknown_outcome": "stop"}, Status.OUTCOME_UNKNOWN, ("a",)),
        (call("a", "post"), ["unknown"] * 9, [], {"unknown_outcome": "stop"}, Status.OUTCOME_UNKNOWN, ("a",)),
        (call("a", "mend"), [], [], {}, Status.TIME_LIMIT, ()),
    ],
)
def test_a_run_that_ends_over_an_effect_says_whether_it_may_have_happened(
    made: ToolCall,
    fates: Sequence[Fate],
    replies: Sequence[Reply],
    fields: dict[str, Any],
    status: Status,
    unknown: Any,
) -> None:
    driver, result = play(turn("", made, call("b")), ANSWER, fates={"a": fates}, replies=replies, **fields)
    assert (result.status, result.unrun_calls, result.unknown_calls) == (status, ("a", "b"), unknown)
    assert kinds(driver) == []
    assert result.tool_calls == len(unknown)


def test_the_model_is_told_of_an_unknown_outcome_and_goes_on() -> None:
    driver, result = play(turn("", call("a", "send")), ANSWER, fates={"a": ["unknown"]}, unknown_outcome="tell")
    assert (result.status, kinds(driver), result.unknown_calls) == (Status.COMPLETED, ["outcome_unknown"], ())


@st.composite
def batches(draw: DrawFn) -> tuple[Turn, ...]:
    """Turns with calls of all tools, and the answer."""
    names = st.sampled_from(["look", "look", "send", "post", "buy", "mend", "fly"])
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    turns = [
        turn("", *(call(f"{number}.{at}", draw(names), None, n=draw(st.integers(0, 3))) for at in range(size)))
        for number, size in enumerate(sizes)
    ]
    return (*turns, ANSWER)


def brought(made: ToolCall) -> Ran:
    """What a handler brings."""
    return Ran(ok(f"brought by {made.id}"), milliseconds=10)


IDS = [f"{number}.{at}" for number in range(5) for at in range(5)]
FATES = st.dictionaries(
    st.sampled_from(IDS), st.lists(st.sampled_from(["ran", "unknown", "unknown", "lost", "missing"]), max_size=8)
)
REPLIES = st.lists(st.sampled_from([APPROVE, APPROVE, DENY, HAPPENED, NOT, STOP]), max_size=12)


@settings(max_examples=200, deadline=None)
@given(LIMITS, batches(), FATES, REPLIES, EVENTS, st.sampled_from(["ask", "tell", "stop"]))
def test_no_effect_runs_unapproved_or_more_often_than_it_may_and_what_it_brought_is_told(
    limits: dict[str, Any],
    turns: tuple[Turn, ...],
    fates: dict[str, list[Fate]],
    replies: list[Reply],
    events: dict[int, list[tuple[str, Any]]],
    policy: str,
) -> None:
    outcomes = []
    tools = {tool.name: tool for tool in TOOLS}
    for carry in (False, True):
        person = Person(replies, events)
        handlers = dict.fromkeys(tools, brought)
        spec = buyer(limits, unknown_outcome=policy)
        driver = Driver(spec, turns, handlers, hook=person, fates=fates, carry=carry)
        result = checked(driver)
        person.check(driver)
        assert (driver.state.question, driver.state.persons_answer) == (None, None)

        runs = Counter(made.id for made in driver.dispatched)
        told = {message.call_id: message.content for message in driver.transcript if isinstance(message, ToolMessage)}
        for made in driver.dispatched:
            tool = tools[made.name]
            if tool.kind == "effect":
                assert runs[made.id] <= (1 + MAX_AGAIN if tool.idempotent else 1)
            needed = tool.needs_approval is True or (tool.name == "buy" and made.arguments["n"] != 0)
            assert not needed or (made.id, arguments_digest(made)) in person.approved
            known = told.get(made.id) == brought(made).content
            assert known or "unknown" in fates.get(made.id, ()) or made.id in result.unrun_calls
        assert set(result.unknown_calls) <= set(result.unrun_calls) & set(runs)
        for call_id in result.unrun_calls:  # what ran and was not told may have happened, if it is an effect
            made_effect = call_id in runs and tools[_named(turns, call_id)].kind == "effect"
            assert (call_id in result.unknown_calls) == made_effect
        outcomes.append((result, driver.transcript, driver.dispatched, driver.offered))
    assert outcomes[0] == outcomes[1], "what continue-as-new carries changes nothing"


def _named(turns: Sequence[Turn], call_id: str) -> str:
    return next(made.name for turn in turns for made in turn.message.calls if made.id == call_id)
