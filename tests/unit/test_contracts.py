"""What a run starts with, and the result's document."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longshift import Status, jsontext
from longshift.contracts import RunResult, shared_spec, spec_text
from longshift.messages import UserMessage
from longshift.run_input import MAX_INPUT_BYTES, InputRefused, RunInput, read_input
from tests.store.shift import SPEC

FIELDS = st.sampled_from(["agent", "task", "messages", "limits", "endpoint", "role", "content", "state"])
ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from(["user", 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS | st.text(), inner, max_size=4),
    max_leaves=8,
)
GOOD: dict[str, Any] = {"agent": "shop", "task": "Look."}


def problems(*args: Any) -> dict[str, str]:
    """What is wrong with an input."""
    with pytest.raises(InputRefused) as caught:
        read_input(args)
    str(caught.value).encode()
    return caught.value.problems


@given(st.lists(ANY_JSON, max_size=2) | st.dictionaries(FIELDS, ANY_JSON).map(lambda one: [GOOD | one]))
@example([{"agent": "a", "task": "\ud800"}])
@example([{"agent": "a", "task": "x", "limits": {"seconds": 10**400}}])
@example([{"agent": "a", "messages": [{"role": "user", "content": "x", "more": 10**5000}]}])
@example([{"agent": "a", "task": float("nan")}])
def test_any_json_is_an_input_or_is_refused_in_unicode(args: list[Any]) -> None:
    try:
        given_input = read_input(tuple(args))
    except InputRefused as refused:
        str(refused).encode()
        return
    assert RunInput.model_validate_json(given_input.model_dump_json()) == given_input


def test_a_task_or_messages_begin_a_run() -> None:
    assert read_input((GOOD,)) == RunInput(agent="shop", task="Look.")
    given_input = read_input(({"agent": "shop", "messages": [{"role": "user", "content": "Look."}]},))
    assert given_input.messages == (UserMessage(content="Look."),)


@pytest.mark.parametrize("args", [(), (None,), ("shop",), ([],), (GOOD, GOOD), (17,)])
def test_an_input_is_exactly_one_object(args: tuple[Any, ...]) -> None:
    assert problems(*args) == {"input": 'must be exactly one JSON object, like {"agent": "shop", "task": "..."}'}


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        ({"task": None}, "task", "give either a task"),
        ({"messages": [{"role": "user", "content": "x"}]}, "task", "give either a task"),
        ({"task": " \n"}, "task", "is blank"),
        ({"task": 3}, "task", "valid string"),
        ({"agent": None}, "agent", "valid string"),
        ({"taks": "x"}, "taks", "not permitted"),
        ({"limits": {"model_calls": 1.5}}, "limits.model_calls", "must be a whole number above 0, not 1.5"),
        ({"limits": {"model_cals": 1}}, "limits.model_cals", "is no limit"),
        ({"limits": []}, "limits", "valid dictionary"),
        ({"endpoint": 1}, "endpoint", "valid string"),
        ({"task": None, "messages": [{"role": "boss", "content": "x"}]}, "messages.0", "does not match"),
        ({"task": None, "messages": [{"role": "user"}]}, "messages.0.user.content", "required"),
        ({"task": "\ud800"}, "input", "lone surrogate"),
        ({"task": "x" * MAX_INPUT_BYTES}, "input", "at most 262144 are accepted"),
        ({"limits": {"seconds": [[[]]]}}, "limits.seconds", "must be a finite number"),
    ],
)
def test_a_bad_input_is_refused_with_its_field(change: dict[str, Any], field: str, text: str) -> None:
    found = problems({name: value for name, value in (GOOD | change).items() if value is not None or name == "agent"})
    assert text in found[field]


def test_an_input_without_an_agent_or_nested_too_deep_is_refused() -> None:
    assert "agent" in problems({"task": "x"})
    deep: Any = "x"
    for _ in range(80):
        deep = [deep]
    assert problems(GOOD | {"messages": deep}) == {"input": "nested deeper than 64 levels"}


def test_the_largest_input_is_counted_in_bytes() -> None:
    room = MAX_INPUT_BYTES - jsontext.size(jsontext.canonical(GOOD | {"task": ""}))
    assert read_input((GOOD | {"task": "é" * (room // 2)},)).task
    assert "input" in problems(GOOD | {"task": "é" * (room // 2 + 1)})


@pytest.mark.parametrize(
    "change",
    [
        {"messages": [0] * 80_000, "task": None},
        {"limits": {f"name-{n}": 0 for n in range(12_000)}},
        {f"name-{n}": 0 for n in range(12_000)},
    ],
)
def test_a_refusal_stays_small_however_much_is_wrong(change: dict[str, Any]) -> None:
    found = problems(GOOD | change)
    assert sum(len(name) + len(text) for name, text in found.items()) < 5_000


def test_what_is_read_is_not_changed() -> None:
    given_input = {"agent": "shop", "task": "Look.", "limits": {"seconds": 5}}
    copy = {"agent": "shop", "task": "Look.", "limits": {"seconds": 5}}
    read_input((given_input,))
    assert given_input == copy


@pytest.mark.parametrize(("exposure", "shown"), [(0, 0), (30_000, 3), (12_345, 1.2345)])
def test_a_result_tells_money_in_cents_and_in_micro_usd(exposure: int, shown: float) -> None:
    result = RunResult(run_id="r", status=Status.COMPLETED, detail="x", exposure=exposure)
    document = result.document()
    assert (document["exposure_cents"], document["exposure_micro_usd"]) == (shown, exposure)
    assert document["status"] == "COMPLETED"
    assert "exposure" not in document


def test_runs_with_the_same_specification_hold_one() -> None:
    again = SPEC.model_copy(deep=True)
    assert shared_spec(spec_text(SPEC)) == SPEC
    assert shared_spec(spec_text(SPEC)) is shared_spec(spec_text(again))
    assert shared_spec(spec_text(SPEC.model_copy(update={"heartbeat_seconds": 3.0}))) != SPEC
