"""How a function becomes a tool, and how the arguments of a call are checked."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from longshift.tools import ArgumentsRefused, DeclarationRefused, Tool, ToolContext, tool


class Flavour(StrEnum):
    """Two flavours."""

    VANILLA = "vanilla"
    MINT = "mint"


class Lax(BaseModel):
    """A model that by itself would coerce and let unknown fields through."""

    model_config = ConfigDict(extra="allow")

    title: str
    count: int = 1


@dataclass
class Point:
    """A point."""

    x: float


CONTEXT = ToolContext(run_id="r", call_id="c", operation_id="o")


def refusal(call: Callable[[], object]) -> str:
    """The text with which a declaration is refused."""
    with pytest.raises(DeclarationRefused) as caught:
        call()
    return str(caught.value)


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


def test_a_bare_decorator_makes_an_effect_with_the_default_limits() -> None:
    @tool
    def place(sku: str) -> str:
        """Place it."""
        return sku

    assert place.spec.model_dump(exclude={"parameters"}) == {
        "name": "place",
        "description": "Place it.",
        "kind": "effect",
        "timeout_seconds": 30,
        "max_bytes": 16_384,
        "repeatable": False,
    }


def test_every_option_reaches_the_spec() -> None:
    @tool(kind="read", name="look-up", description="Said here.", timeout_seconds=2.5, max_bytes=256, repeatable=True)
    def look() -> None:
        """Not this."""

    assert look.spec.model_dump(exclude={"parameters"}) == {
        "name": "look-up",
        "description": "Said here.",
        "kind": "read",
        "timeout_seconds": 2.5,
        "max_bytes": 256,
        "repeatable": True,
    }


def test_a_tool_is_still_the_plain_function_and_frozen() -> None:
    @tool
    def twice(number: int) -> int:
        """Double it."""
        return 2 * number

    assert twice(4) == 8
    assert twice.handler(number=4) == 8
    with pytest.raises(FrozenInstanceError):
        twice.spec = twice.spec  # type: ignore[misc]


def test_an_async_tool_is_known_as_one_however_it_is_written() -> None:
    async def plain() -> None: ...

    class AsyncCall:
        """An object with an async call."""

        async def __call__(self, sku: str) -> str:
            return sku

    def sync() -> None: ...

    assert tool(plain).is_async
    assert tool(name="callable")(AsyncCall()).is_async
    assert not tool(sync).is_async


def test_the_schema_is_closed_typed_described_and_has_no_titles() -> None:
    @tool
    def order(
        sku: Annotated[str, Field(description="Which product.")],
        quantity: int,
        lax: Lax,
        title: str = "none",
        *,
        flavour: Flavour | None = None,
        context: ToolContext,
    ) -> None:
        """Order a product
        from the supplier.

        Never twice.

        Args:
            sku: not this, the type says it.
            quantity (int): how many: at least
                one tub.
            flavour: which.

        Returns:
            nothing: at all.
        """

    assert order.spec.description == "Order a product from the supplier."
    assert order.spec.parameters == {
        "$defs": {
            "Flavour": {"description": "Two flavours.", "enum": ["vanilla", "mint"], "type": "string"},
            "Lax": {
                "additionalProperties": False,
                "description": "A model that by itself would coerce and let unknown fields through.",
                "properties": {"count": {"default": 1, "type": "integer"}, "title": {"type": "string"}},
                "required": ["title"],
                "type": "object",
            },
        },
        "additionalProperties": False,
        "properties": {
            "sku": {"description": "Which product.", "type": "string"},
            "quantity": {"description": "how many: at least one tub.", "type": "integer"},
            "lax": {"$ref": "#/$defs/Lax"},
            "title": {"default": "none", "type": "string"},
            "flavour": {
                "anyOf": [{"$ref": "#/$defs/Flavour"}, {"type": "null"}],
                "default": None,
                "description": "which.",
            },
        },
        "required": ["sku", "quantity", "lax"],
        "type": "object",
    }


def test_a_tool_without_arguments_or_docstring_has_an_empty_closed_schema() -> None:
    @tool
    def look() -> None: ...

    assert look.spec.parameters == {"additionalProperties": False, "properties": {}, "type": "object"}
    assert look.spec.description == ""


def test_parameters_may_be_called_what_a_model_forbids() -> None:
    @tool
    def odd(copy: int, model_config: int, _x: int, json: int, argument_0: int = 7) -> int:
        """Odd names."""
        return copy + model_config + _x + json + argument_0

    values = {"copy": 1, "model_config": 2, "_x": 3, "json": 4}
    assert odd.validate(values) == values
    assert odd(**odd.validate({**values, "argument_0": 5})) == 15


def test_a_default_without_a_json_form_stays_out_of_the_schema() -> None:
    marker = object()

    @tool
    def look(depth: Any = marker) -> object:
        """Look."""
        return depth

    assert look.spec.parameters["properties"] == {"depth": {}}
    assert look(**look.validate({})) is marker


@pytest.mark.parametrize("name", ["", "a.b", "a/b", "a b", "цена", "x" * 65, "look\n"])
def test_a_name_that_providers_refuse_is_refused_with_the_rule(name: str) -> None:
    def look() -> None: ...

    text = refusal(lambda: tool(name=name)(look))
    assert "1 to 64 letters, digits, _ or -" in text
    assert repr(name) in text


def test_a_lambda_is_told_to_take_a_name() -> None:
    assert '@tool(name="...")' in refusal(lambda: tool(lambda: None))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "write"}, 'kind must be "read" or "effect"'),
        ({"timeout_seconds": 0}, "timeout_seconds must be a finite number"),
        ({"timeout_seconds": float("inf")}, "timeout_seconds must be a finite number"),
        ({"timeout_seconds": True}, "timeout_seconds must be a finite number"),
        ({"max_bytes": 255}, "max_bytes must be a whole number from 256"),
        ({"max_bytes": 1e6}, "max_bytes must be a whole number from 256"),
    ],
)
def test_a_bad_option_is_refused_by_name(options: dict[str, Any], words: str) -> None:
    def look() -> None: ...

    text = refusal(lambda: tool(**options)(look))
    assert text.startswith("tool look: ")
    assert words in text


def untyped(sku) -> None: ...  # type: ignore[no-untyped-def]
def any_number(*skus: str) -> None: ...
def any_names(**options: str) -> None: ...
def by_position(sku: str, /) -> None: ...
def with_field(sku: str = Field(description="Which.")) -> None: ...
def with_hidden_default(sku: Annotated[str, Field(default="x")]) -> None: ...
def with_two_contexts(one: ToolContext, two: ToolContext) -> None: ...
def with_callback(sku: str, then: Callable[[], None]) -> None: ...
def with_object(sku: str, it: memoryview) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (untyped, "parameter sku has no type; annotate it, for example sku: str"),
        (any_number, "parameter *skus takes any number of arguments; name each one, or take a list"),
        (any_names, "parameter **options takes any number"),
        (by_position, "parameter sku is positional-only and arguments come by name; remove the /"),
        (with_field, "parameter sku has a Field as its default; write sku: Annotated"),
        (with_hidden_default, "parameter sku has its default in a Field; give it in the signature"),
        (with_two_contexts, "parameters one and two both ask for the context; keep one"),
        (with_callback, "parameter then has a type that JSON cannot give"),
        (with_object, "parameter it has a type that JSON cannot give"),
    ],
)
def test_a_signature_that_cannot_serve_is_refused_with_tool_parameter_and_remedy(
    function: Callable[..., Any], words: str
) -> None:
    text = refusal(lambda: tool(function))
    assert text.startswith(f"tool {function.__name__}: ")
    assert words in text


def test_generators_and_types_out_of_sight_are_refused() -> None:
    def many() -> Iterator[int]:
        yield 1

    def unseen(value: "NotHere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    assert "return a list" in refusal(lambda: tool(many))
    assert "import them where the function's module can see them" in refusal(lambda: tool(unseen))
    assert "types cannot be read" in refusal(lambda: tool(name="partial")(functools.partial(int, "1")))


def test_a_return_type_that_only_a_type_checker_can_see_is_no_matter() -> None:
    def look(sku: "str") -> "NotHere": ...  # type: ignore[name-defined]  # noqa: F821

    assert tool(look).validate({"sku": "x"}) == {"sku": "x"}


def test_a_wrapped_function_keeps_its_signature() -> None:
    def look(sku: Flavour) -> str:
        """Look."""
        return sku.value

    @functools.wraps(look)
    def wrapped(*args: Any, **kwargs: Any) -> str:
        return look(*args, **kwargs).upper()

    declared = tool(wrapped)
    assert declared(**declared.validate({"sku": "mint"})) == "MINT"


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
