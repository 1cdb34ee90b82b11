"""Batches: what becomes of each call, and which run side by side."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshift.batches import MAX_SIDE_BY_SIDE, Planned, plan, portions, refusal
from longshift.messages import ToolCall
from longshift.observations import kind_of, read
from longshift.repeats import Repetition
from tests.unit.authored import agent, call


def planned(*calls: ToolCall, told: Sequence[int] = (), unknown_tool: str = "recoverable") -> list[Planned]:
    """The plan of a batch, in which the run is told that it repeats the calls at some positions."""
    said = [Repetition(told=(1, 0)) if at in told else Repetition() for at in range(len(calls))]
    return plan(agent(unknown_tool=unknown_tool), calls, said)


def order(*names: str) -> list[str]:
    """The portions of a batch of calls of these tools, each with arguments of its own; a name a letter."""
    calls = [call(str(n), name, None, n=n) for n, name in enumerate(names)]
    return ["".join(item.call.name[0] for item in portion) for portion in portions(planned(*calls))]


def test_neighbouring_reads_run_together_and_an_effect_alone() -> None:
    assert order("look", "add", "send", "look", "ring", "send", "add", "look") == ["la", "s", "l", "r", "s", "al"]
    assert order() == []


def test_what_needs_no_tool_stands_beside_reads() -> None:
    assert order("look", "fly", "add") == ["lfa"]


@pytest.mark.parametrize("reads", [7, 8, 9, 16, 17, 32])
def test_no_more_reads_run_together_than_one_task_may_schedule(reads: int) -> None:
    sizes = [len(portion) for portion in order(*["look"] * reads)]
    assert sum(sizes) == reads
    assert max(sizes) <= MAX_SIDE_BY_SIDE
    assert len(sizes) == -(-reads // MAX_SIDE_BY_SIDE)


@given(st.lists(st.sampled_from(["look", "add", "send", "ring", "fly"]), max_size=32))
def test_portions_hold_each_call_once_in_order(names: list[str]) -> None:
    batch = planned(*(call(str(n), name) for n, name in enumerate(names)))
    cut = portions(batch)
    assert [item for portion in cut for item in portion] == batch
    assert all(len(portion) == 1 for portion in cut if any(item.alone for item in portion))


def test_a_told_repeat_comes_after_the_call_of_the_batch_that_it_tells_of() -> None:
    batch = planned(call("a"), call("b"), call("c"), call("d", "add"), call("e"), told=(2, 4))
    assert [[item.call.id for item in portion] for portion in portions(batch)] == [["a", "b"], ["c", "d", "e"]]


@pytest.mark.parametrize("name", ["fly", "", "Look", "look ", 'a"b', "x" * 256])
def test_an_unknown_tool_is_answered_with_the_tools_that_exist(name: str) -> None:
    (item,) = planned(call("a", name))
    assert item.observation is not None
    assert (item.observation.call_id, item.observation.name) == ("a", name)
    assert kind_of(item.observation.content) == "unknown_tool"
    assert "the tools are: add, look, ring, send" in item.observation.content
    assert len(item.observation.content) < 300
    assert not item.fatal


def test_an_unknown_tool_is_fatal_where_the_agent_says_so_and_still_observed() -> None:
    known, unknown = planned(call("a"), call("b", "fly"), unknown_tool="fatal")
    assert (known.fatal, unknown.fatal) == (False, True)
    assert unknown.observation is not None


def test_an_agent_without_tools_says_that_there_are_none() -> None:
    bare = agent().model_copy(update={"tools": ()})
    (item,) = plan(bare, [call("a")], [Repetition()])
    assert item.observation is not None
    assert "the tools are: none" in item.observation.content


def test_malformed_arguments_are_shown_to_the_model_and_no_handler_runs() -> None:
    (item,) = planned(call("a", "send", '{"sku": }'))
    assert item.observation is not None
    body = read(item.observation.content)
    text = 'the arguments must be one JSON object; this was sent: {"sku": }'
    assert body["error"] == {"kind": "invalid_arguments", "message": text}
    assert not item.alone


def test_of_identical_effects_in_one_turn_the_first_runs() -> None:
    batch = planned(call("a", "send"), call("b"), call("c", "send"), call("d", "send", None, n=1))
    assert [item.observation is None for item in batch] == [True, True, False, True]
    assert "identical call in the same turn, not executed" in str(batch[2].observation)


def test_identical_reads_and_repeatable_effects_all_run() -> None:
    batch = planned(call("a"), call("b"), call("c", "ring"), call("d", "ring"))
    assert all(item.observation is None for item in batch)


def test_a_told_call_runs_no_handler_and_does_not_stand_alone() -> None:
    read_, effect = planned(call("a"), call("b", "send"), told=(0, 1))
    assert (read_.repeat_of, effect.repeat_of) == ((1, 0), (1, 0))
    assert not effect.alone


@pytest.mark.parametrize("made", [call("a", "fly"), call("a", "look", "[1]")])
def test_what_needs_no_tool_is_told_of_its_repetition_with_what_was_said_before(made: ToolCall) -> None:
    (before,), (told,) = planned(made), planned(made, told=(0,))
    assert before.observation is not None
    assert told.observation is not None
    body = read(told.observation.content)
    assert isinstance(body["error"], dict)
    assert body["error"]["kind"] == "repeated"
    assert before.observation.content in str(body["error"]["message"])
    assert told.repeat_of is None


def test_a_failed_dispatch_is_an_observation_in_the_tools_name() -> None:
    message = refusal(call("a"), "timeout", "look did not answer in time")
    assert (message.call_id, message.name, kind_of(message.content)) == ("a", "look", "timeout")
