"""Repetition: which calls are the same, when a run is told, when it loops, and what resets the counts."""

from typing import Any

import pytest

from longshift.memory import Seen
from longshift.messages import ToolCall
from longshift.recording import record
from longshift.repeats import Repetition, count, key_of
from tests.unit.authored import call, turn

EFFECTS = {"send"}


class Run:
    """Counts the batches of a run, one after the other."""

    def __init__(self, repeats: int = 3) -> None:
        self.repeats = repeats
        self.seen: dict[str, Seen] = {}
        self.calls = 0

    def asks(self, *calls: ToolCall) -> str:
        """What is said of a batch, a letter each: `r`uns, `t`old, `l`oops."""
        self.calls += 1
        said, self.seen, _ = count(
            self.seen, [(made, made.name not in EFFECTS) for made in calls], self.calls, self.repeats
        )
        self.said = said
        return "".join("l" if one.loops else "t" if one.told else "r" for one in said)

    def each(self, *calls: ToolCall) -> str:
        """The same for batches of one call, until the run ends."""
        said = ""
        for made in calls:
            said += self.asks(made)
            if said.endswith("l"):
                break
        return said


LOOK = call("x")
OTHER = call("x", "look", None, sku=1)
SEND = call("x", "send")


@pytest.mark.parametrize(
    ("repeats", "said"), [(0, "rrrrrr"), (1, "rtl"), (2, "rtl"), (3, "rrtl"), (4, "rrrtl"), (7, "rrrrrr")]
)
@pytest.mark.parametrize("made", [LOOK, SEND])
def test_the_repeats_th_identical_call_is_told_and_the_next_loops(repeats: int, said: str, made: ToolCall) -> None:
    assert Run(repeats).each(*[made] * 6) == said


def test_calls_of_one_batch_cannot_have_read_that_they_repeat() -> None:
    run = Run()
    assert run.asks(*[LOOK] * 5) == "rrttt"
    assert run.said[4] == Repetition(told=(1, 1))
    assert run.asks(LOOK) == "l"


def test_other_arguments_are_never_a_repeat() -> None:
    run = Run()
    assert run.each(*(call("x", "look", None, n=n) for n in range(20))) == "r" * 20
    assert run.each(LOOK, OTHER, LOOK, OTHER, LOOK, OTHER) == "rrrrtt"


def test_an_effect_resets_the_counts_of_reads_and_of_no_effect() -> None:
    run = Run()
    assert run.each(LOOK, LOOK, SEND, LOOK, LOOK, SEND, LOOK, LOOK, LOOK, LOOK) == "rrrrrrrrtl"
    assert run.each(SEND, SEND) == "tl"


def test_an_effect_that_is_only_told_resets_nothing() -> None:
    assert Run().each(SEND, SEND, LOOK, LOOK, SEND, LOOK) == "rrrrtt"


def test_an_effect_in_the_same_batch_makes_looking_again_legitimate() -> None:
    run = Run()
    assert run.each(LOOK, LOOK, LOOK) == "rrt"
    assert run.asks(SEND, LOOK, LOOK, LOOK) == "rrrt"
    assert run.asks(LOOK, SEND) == "lr"


def test_the_earlier_call_is_the_latest_one_that_ran() -> None:
    run = Run()
    run.each(LOOK, OTHER, LOOK, LOOK)
    assert run.said == [Repetition(told=(3, 0))]
    run = Run()
    run.asks(OTHER, SEND, SEND)
    assert run.asks(SEND) == "t"
    assert run.said == [Repetition(told=(1, 1))], "the second one of a batch does not run"


def test_a_limit_that_changes_in_mid_run_holds_from_then_on() -> None:
    run = Run(3)
    assert run.each(LOOK, LOOK, LOOK) == "rrt"
    run.repeats = 5
    assert run.each(LOOK, LOOK, LOOK) == "rtl"
    run.repeats = 0
    assert run.each(LOOK) == "r"
    run.repeats = 1
    assert run.each(LOOK, OTHER) == "tr"


def test_counting_does_not_change_the_counts_it_was_given() -> None:
    seen: dict[str, Seen] = {}
    count(seen, [(LOOK, True)], 1, 3)
    assert seen == {}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": {"c": 1, "b": 2}}, {"a": {"b": 2, "c": 1}}, True),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": None}, {}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": "é"}, {"a": "e\u0301"}, False),
    ],
)
def test_calls_are_the_same_by_their_canonical_arguments(
    one: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    keys = [key_of(ToolCall(id=id_, name="look", arguments=made)) for id_, made in (("1", one), ("2", other))]
    assert (keys[0] == keys[1]) == same


def test_a_name_is_part_of_the_call_and_malformed_arguments_are_arguments_of_their_own() -> None:
    calls = [call("x"), call("x", "Look"), call("x", "look", "{}"), call("x", "look", "[1]"), call("x", "look", "[2]")]
    assert len({key_of(made) for made in calls}) == len(calls)


@pytest.mark.parametrize("made", [call("x", "look", None, text="x" * 20_000), call("x", "look", "x" * 20_000)])
def test_a_call_that_a_history_holds_cut_is_still_the_same_call(made: ToolCall) -> None:
    kept = turn("", made).message.calls[0]
    assert kept != made
    assert key_of(kept) == key_of(made)
    assert record(turn("", made).message).whole is None, "what was cut is small"
