"""From a function's signature to its arguments: how JSON is read into them, their JSON schema, their descriptions."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, Protocol, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PydanticUserError, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from longshift import jsontext

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())
"""No coercion, no unknown argument, finite numbers."""

NAMES_OF_SCHEMAS = frozenset({"properties", "$defs"})
"""JSON schema keywords whose value maps names of the author's to schemas."""
PLAIN_VALUES = frozenset({"default", "const", "enum", "examples", "required"})
"""JSON schema keywords whose value is data, not a schema."""

MAX_PLACE = 120
"""Characters of the path to a bad argument that an error shows."""
MAX_SHOWN = 60
"""Characters of a bad value that an error shows."""

SECTION = re.compile(r"(?:Args|Arguments|Parameters):\s*")
ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")


class SignatureRefused(TypeError):
    """A parameter cannot be an argument of a tool; the text names it and the remedy."""


class BadArguments(ValueError):
    """The arguments of a call do not fit. `problems` has a text for each: where, what was expected, what was given."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))


class Arguments(Protocol):
    """How the arguments of a call become those of a tool's handler."""

    @property
    def context(self) -> str | None:
        """The handler's parameter that is given the call's context."""

    def read(self, text: str) -> dict[str, Any]:
        """The handler's keyword arguments for the arguments object that the JSON text holds. Raises BadArguments."""


@dataclass(frozen=True)
class Signature:
    """How the arguments of one function are read."""

    model: type[BaseModel]
    """One field for each parameter, under a name of ours, with the parameter's name as its alias: a parameter may be
    called what a pydantic model forbids (`copy`, `model_config`, `_x`)."""
    schema: dict[str, JsonValue]
    """Closed JSON schema of the arguments object."""
    context: str | None
    """The parameter that is given the call's context."""

    def read(self, text: str) -> dict[str, Any]:
        """The Python values of the arguments that the JSON text gives.

        Raises BadArguments.
        """
        try:
            # Given here, `strict` and `extra` hold for nested models too, whatever these say themselves.
            read = self.model.model_validate_json(text, strict=True, extra="forbid")
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False)
            raise BadArguments([self._problem(details) for details in found]) from None
        return {
            cast(str, info.alias): getattr(read, field)
            for field, info in self.model.model_fields.items()
            if field in read.model_fields_set
        }

    def _problem(self, details: Any) -> str:
        """One bad argument in words: where it is, what was expected and what was given."""
        place = ".".join(str(part) for part in details["loc"])[:MAX_PLACE] or "the arguments"
        properties = cast("dict[str, dict[str, JsonValue]]", self.schema["properties"])
        match details["type"]:
            case "missing":
                expected = properties.get(place, {}).get("type")
                return f"{place}: is missing" + (f", must be of type {expected}" if expected else "")
            case "extra_forbidden" if len(details["loc"]) == 1:
                return f"{place}: is no argument of it; the arguments are: {', '.join(properties) or 'none'}"
            case "extra_forbidden":
                return f"{place}: is not expected here"
            case "value_error" | "assertion_error":
                return f"{place}: {details['msg'].partition(', ')[2]}"
            case _:
                rule = details["msg"].replace("Input should", "must", 1)
                return f"{place}: {rule}, not {shown(details['input'])}"


def shown(value: object) -> str:
    """A bad value in an error: its JSON, cut short."""
    try:
        text = jsontext.canonical(value)
    except (TypeError, ValueError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def read_signature(function: Callable[..., Any], context_type: type) -> Signature:
    """How to read arguments for `function`.

    Args:
        function: every parameter typed, and to be given by name.
        context_type: the annotation of a parameter that is injected and is no argument.

    Raises:
        SignatureRefused: a parameter, or the function, cannot serve.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise SignatureRefused("a generator gives many values and a tool returns one; return a list")
    try:
        parameters = inspect.signature(function).parameters
        types = _types(function)
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise SignatureRefused(
            f"its types cannot be read ({error}); import them where the function's module can see them"
        ) from None
    documented = documented_arguments(function)
    context: str | None = None
    fields: dict[str, Any] = {}
    for name, parameter in parameters.items():
        _check_parameter(parameter, name in types)
        if types[name] is context_type:
            if context is not None:
                raise SignatureRefused(f"parameters {context} and {name} both ask for the context; keep one")
            context = name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[f"argument_{len(fields)}"] = (_described(types[name], name, documented.get(name)), default)
    model = _build(fields)
    return Signature(model, _closed_schema(model), context)


def describe(function: Callable[..., Any]) -> str:
    """The first paragraph of a function's docstring, on one line."""
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def documented_arguments(function: Callable[..., Any]) -> dict[str, str]:
    """What a Google-style Args section says of each parameter, each on one line."""
    found: dict[str, str] = {}
    name = ""
    entries = list(_section(inspect.getdoc(function) or ""))
    base = len(entries[0]) - len(entries[0].lstrip()) if entries else 0
    for line in entries:
        entry = ENTRY.fullmatch(line.strip()) if len(line) - len(line.lstrip()) == base else None
        if entry:
            name = entry[1]
            found[name] = entry[2].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _section(text: str) -> Iterator[str]:
    """The indented lines under the docstring's Args heading."""
    lines = iter(text.splitlines())
    for line in lines:
        if SECTION.fullmatch(line):
            break
    for line in lines:
        if line and not line[0].isspace():
            return
        if line.strip():
            yield line


def _types(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of the parameters. The return type is left alone: it may be importable for type checkers only."""
    plain = inspect.unwrap(function)
    if not inspect.isroutine(plain):
        plain = type(plain).__call__
    annotations = {name: hint for name, hint in plain.__annotations__.items() if name != "return"}
    scope = getattr(plain, "__globals__", {})
    return get_type_hints(SimpleNamespace(__annotations__=annotations), globalns=scope, include_extras=True)


def _check_parameter(parameter: inspect.Parameter, typed: bool) -> None:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise SignatureRefused(f"parameter {stars}{name} takes any number of arguments; name each one, or take a list")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise SignatureRefused(f"parameter {name} is positional-only and arguments come by name; remove the /")
    if not typed:
        raise SignatureRefused(f"parameter {name} has no type; annotate it, for example {name}: str")
    if isinstance(parameter.default, FieldInfo):
        raise SignatureRefused(
            f"parameter {name} has a Field as its default; write {name}: Annotated[..., Field(...)], "
            "and a default after it"
        )


def _described(hint: Any, name: str, documented: str | None) -> Any:
    """The type with the parameter's name, and with the docstring's words where the type has none of its own."""
    said = [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, FieldInfo)]
    if not all(part.is_required() for part in said):
        raise SignatureRefused(f"parameter {name} has its default in a Field; give it in the signature")
    own = any(part.description for part in said)
    field = Field(alias=name) if own or not documented else Field(alias=name, description=documented)
    return Annotated[hint, field]


def _build(fields: dict[str, Any]) -> type[BaseModel]:
    """The model, tried parameter by parameter first, so that a refusal names the one at fault."""
    for field, definition in fields.items():
        try:
            create_model("arguments", __config__=STRICT, **{field: definition}).model_json_schema(
                schema_generator=_Schema
            )
        except (PydanticUserError, TypeError, NameError, ValueError) as error:
            name = definition[0].__metadata__[-1].alias
            reason = str(error).splitlines()[0]
            raise SignatureRefused(
                f"parameter {name} has a type that JSON cannot give ({reason}); use JSON types, enums, dates, "
                "pydantic models or dataclasses"
            ) from None
    return create_model("arguments", __config__=STRICT, **fields)


class _Schema(GenerateJsonSchema):
    """A default without a JSON form is left out of the schema without a warning."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Titles made of names tell a model nothing."""
        return False


def _closed_schema(model: type[BaseModel]) -> dict[str, JsonValue]:
    schema = _tidy(model.model_json_schema(schema_generator=_Schema))
    return cast("dict[str, JsonValue]", {"properties": {}} | schema)


def _tidy(node: Any) -> Any:
    """A schema without titles, every object with named properties closed."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    tidied: dict[str, Any] = {}
    for key, value in node.items():
        if key in NAMES_OF_SCHEMAS:
            tidied[key] = {name: _tidy(schema) for name, schema in value.items()}
        elif key != "title":
            tidied[key] = value if key in PLAIN_VALUES else _tidy(value)
    if "properties" in tidied:
        tidied["additionalProperties"] = False
    return tidied
