"""What a run remembers of its calls: exact after ten thousand of them, and no burden to what it carries on."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine

from longshift.admission import End
from longshift.agent import AgentSpec
from longshift.chain import Head
from longshift.contracts import CallModel, EndpointFacts, RunSpec
from longshift.judgement import Batch, judge
from longshift.limits import Limits
from longshift.messages import AssistantMessage, ToolCall
from longshift.recording import record
from longshift.state import Carried, RunState
from longshift.status import Status
from longshift.tools import ToolSpec
from longshift.turns import Turn, Usage
from store import memory
from store.migrations import upgrade

CALLS, FEW = 10_000, 600
MOST_CARRIED = 64 * 1024
"""Bytes."""
AGENT = AgentSpec(
    name="long",
    tools=(ToolSpec(name="look", kind="read"), ToolSpec(name="send", kind="effect")),
    limits=Limits().changed({"tool_calls": 10 * CALLS, "model_calls": 10 * CALLS}),
)
SPEC = RunSpec(
    agent=AGENT, endpoint=EndpointFacts(name="e", kind="replay", model="m", timeout_seconds=1), heartbeat_seconds=5
)


class Run:
    """A run as its workflow and its journal see its calls."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.state = RunState(run_id="run-1", started_at=0, limits=AGENT.limits)
        self.state.follow("summarize")
        self.number = 0

    def asks(self, *calls: ToolCall) -> str:
        """What becomes of a turn: the status that ends the run, or for each call whether it `r`uns or is `t`old."""
        self.number += 1
        state = self.state
        request = CallModel(
            run_id=state.run_id,
            number=self.number,
            reply=self.number,
            head=Head(),
            output_tokens=1,
            forgotten=state.forgotten or None,
            resets=state.resets if state.forgot else None,
        )
        memory.remember(self.connection, request)
        state.journaled(len(state.entries), 0)
        if request.resets is not None:
            state.recalled = memory.recall(self.connection, request, calls)
        reply = record(AssistantMessage(content="", calls=calls))
        verdict = judge(state, AGENT, Turn(reply=reply, stop_reason="tool_calls", usage=Usage()), self.number)
        if isinstance(verdict, End):
            return verdict.status.value
        assert isinstance(verdict, Batch)
        state.tool_calls += len(calls)
        return "".join("t" if item.repeat_of else "r" for item in verdict.planned)


def look(number: int, again: str = "") -> ToolCall:
    """One look at something of its own, under an id as long as providers make them."""
    return ToolCall(id=f"call_{number:024d}{again}", name="look", arguments={"what": number})


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """A run after so many different calls."""
    with create_engine("sqlite://").begin() as connection:
        upgrade(connection)
        run = Run(connection)
        for number in range(request.param):
            assert run.asks(look(number)) == "r"
        yield run


@pytest.mark.parametrize("run", [CALLS], indirect=True)
def test_after_ten_thousand_calls_nothing_is_forgotten_and_little_is_carried(run: Run) -> None:
    assert len(Carried(spec=SPEC, state=run.state).model_dump_json().encode()) < MOST_CARRIED
    first = look(7)
    assert run.asks(first) == Status.REPEATED_CALL_ID
    assert [run.asks(look(7, again)) for again in "abc"] == ["r", "t", Status.LOOP_DETECTED]
    assert run.asks(look(CALLS - 1)) == Status.REPEATED_CALL_ID  # the state remembers this one
    assert run.asks(ToolCall(id="s-1", name="send")) == "r"
    assert [run.asks(look(9, again)) for again in "abcd"] == ["r", "r", "t", Status.LOOP_DETECTED]


@pytest.mark.parametrize("run", [FEW], indirect=True)
def test_a_reset_is_told_what_was_remembered_at_its_point(run: Run) -> None:
    state = run.state.model_copy(deep=True)
    number = run.number
    assert run.asks(look(8, "a")) == "r"
    for later in range(FEW, FEW + 300):  # so that the journal remembers the second look at 8
        run.asks(look(later))
    assert [run.asks(look(8, again)) for again in "bc"] == ["t", Status.LOOP_DETECTED]
    memory.forget(run.connection, "run-1", number + 1)
    run.state, run.number = state, number
    assert [run.asks(look(8, again)) for again in "def"] == ["r", "t", Status.LOOP_DETECTED]
