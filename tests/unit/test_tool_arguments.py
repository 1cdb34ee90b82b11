"""How the arguments of a call are checked, and what a refusal says."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, Field

from longshift.tools import ArgumentsRefused, Tool, ToolContext, tool
from tests.unit.argument_types import Flavour, Lax


@dataclass
class Point:
    """A point."""

    x: float


CONTEXT = ToolContext(run_id="r", call_id="c", operation_id="o")


def problem(declared: Tool[..., Any], arguments: dict[str, Any]) -> str:
    """The text with which arguments are refused."""
    with pytest.raises(ArgumentsRefused) as caught:
        declared.validate(arguments)
    return str(caught.value)


def taking(hint: Any) -> Tool[..., Any]:
    """A tool with one argument `value` of this type."""

    def probe(value: Any) -> None:
        """Take a value."""

    probe.__annotations__["value"] = hint
    return tool(probe)


@pytest.mark.parametrize(
    ("hint", "given", "value"),
    [
        (int, 6, 6),
        (float, 6, 6.0),
        (float, 0.5, 0.5),
        (bool, True, True),
        (str, "6", "6"),
        (date, "2031-01-02", date(2031, 1, 2)),
        (Flavour, "mint", Flavour.MINT),
        (Literal["a", "b"], "b", "b"),
        (UUID, "00000000-0000-0000-0000-000000000001", UUID(int=1)),
        (Decimal, "1.10", Decimal("1.10")),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 2, 2], {1, 2}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (int | None, None, None),
        (Point, {"x": 1}, Point(1.0)),
        (Lax, {"title": "t"}, Lax(title="t")),
        (list[Lax], [{"title": "t", "count": 2}], [Lax(title="t", count=2)]),
        (Any, {"a": [None]}, {"a": [None]}),
    ],
)
def test_json_becomes_the_python_value_of_its_type(hint: Any, given: Any, value: Any) -> None:
    read = taking(hint).validate({"value": given})["value"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("hint", "given", "words"),
    [
        (int, "6", 'value: must be a valid integer, not "6"'),
        (int, True, "value: must be a valid integer, not true"),
        (int, 6.0, "value: must be a valid integer, not 6.0"),
        (float, "0.5", 'value: must be a valid number, not "0.5"'),
        (float, True, "value: must be a valid number, not true"),
        (
            float,
            10**400,
            "the arguments are not JSON: the number 1000000000000000000000000000000000000000 is out of range",
        ),
        (bool, 1, "value: must be a valid boolean, not 1"),
        (bool, "true", 'value: must be a valid boolean, not "true"'),
        (str, 6, "value: must be a valid string, not 6"),
        (str, None, "value: must be a valid string, not null"),
        (Flavour, "lemon", "value: must be 'vanilla' or 'mint', not \"lemon\""),
        (list[int], "1,2", 'value: must be a valid array, not "1,2"'),
        (list[int], [1, "2"], 'value.1: must be a valid integer, not "2"'),
        (Annotated[int, Field(ge=1)], 0, "value: must be greater than or equal to 1, not 0"),
        (Lax, {"title": "t", "count": "2"}, 'value.count: must be a valid integer, not "2"'),
        (Lax, {"title": "t", "more": 1}, "value.more: is not expected here"),
        (Lax, {}, "value.title: is missing"),
        (str, "x" * 10_000, None),
        (int, "x" * 10_000, 'value: must be a valid integer, not "' + "x" * 56 + "..."),
    ],
)
def test_nothing_is_coerced_and_the_refusal_says_what_was_expected(hint: Any, given: Any, words: str | None) -> None:
    declared = taking(hint)
    if words is None:
        assert declared.validate({"value": given})
        return
    text = problem(declared, {"value": given})
    assert text.startswith(f"probe did not run: {words}")
    assert "http" not in text


def test_each_bad_argument_is_named_at_once() -> None:
    @tool
    def order(sku: str, quantity: int) -> None: ...

    assert problem(order, {"quantity": "six", "colour": "red"}) == (
        "order did not run: sku: is missing, must be of type string; "
        'quantity: must be a valid integer, not "six"; '
        "colour: is no argument of it; the arguments are: sku, quantity"
    )


def test_a_refusal_of_very_many_arguments_stays_short() -> None:
    text = problem(taking(int), {f"x{number}": number for number in range(500)})
    assert text.endswith("; and 491 more")
    assert len(text) < 1000


def test_an_authors_validator_speaks_for_itself() -> None:
    def even(number: int) -> int:
        if number % 2:
            raise ValueError("must be even, since tubs come in pairs")
        return number

    text = problem(taking(Annotated[int, AfterValidator(even)]), {"value": 3})
    assert text == "probe did not run: value: must be even, since tubs come in pairs"


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "given",
    [float("nan"), float("inf"), {1, 2}, object(), "\ud800", _cycle(), _deep(100), _deep(5000), 10**5000],
    ids=["nan", "infinity", "set", "object", "surrogate", "cycle", "deep", "deeper", "digits"],
)
def test_arguments_that_are_not_json_are_refused_whatever_the_type(given: Any) -> None:
    assert "did not run: the arguments are not JSON" in problem(taking(Any), {"value": given})


def test_an_argument_that_is_not_given_is_left_to_the_handlers_own_default() -> None:
    @tool
    def look(sku: str = "all", deep: bool = False) -> None: ...

    assert look.validate({}) == {}
    assert look.validate({"deep": True}) == {"deep": True}


def test_the_context_is_injected_and_cannot_be_given_by_a_model() -> None:
    @tool
    def place(sku: str, context: ToolContext) -> tuple[str, str]:
        return sku, context.operation_id

    assert place.bind({"sku": "x"}, CONTEXT) == {"sku": "x", "context": CONTEXT}
    assert place.spec.parameters["required"] == ["sku"]
    assert "context: is no argument" in problem(place, {"sku": "x", "context": {"run_id": "forged"}})


def test_the_given_arguments_are_not_changed() -> None:
    arguments: dict[str, Any] = {"value": {"title": "t", "nested": [1]}}
    read = taking(dict[str, Any]).validate(arguments)
    read["value"]["nested"].append(2)
    assert arguments == {"value": {"title": "t", "nested": [1]}}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


ANY = taking(Any)
SIMPLE = {hint: taking(hint) for hint in (int, str, bool, float)}


@settings(deadline=None)
@given(json_values)
def test_any_json_value_is_taken_as_it_is_or_refused(value: Any) -> None:
    assert ANY.validate({"value": value}) == {"value": value}
    for hint, declared in SIMPLE.items():
        if type(value) is hint or (hint is float and type(value) is int):
            assert declared.validate({"value": value}) == {"value": value}
        else:
            assert "value: must" in problem(declared, {"value": value})
