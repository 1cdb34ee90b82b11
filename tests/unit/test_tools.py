"""How a function becomes a tool: its options, its schema, and what is refused."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError
from typing import Annotated, Any

import pytest
from pydantic import Field

from longshift.questions import ApprovalRule
from longshift.tools import DeclarationRefused, ToolContext, tool
from tests.unit.argument_types import Flavour, Lax


def refusal(call: Callable[[], object]) -> str:
    """The text with which a declaration is refused."""
    with pytest.raises(DeclarationRefused) as caught:
        call()
    return str(caught.value)


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


def test_a_rule_on_an_argument_that_the_tool_does_not_have_is_refused() -> None:
    with pytest.raises(DeclarationRefused, match="looks at usdd, which is no argument of it; the arguments are: usd"):

        @tool(needs_approval=ApprovalRule(argument="usdd", above=50))
        def pay(usd: float) -> None:
            """Pay."""
