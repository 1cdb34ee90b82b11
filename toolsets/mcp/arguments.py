"""A call's arguments, checked against the JSON schema that a server gives."""

from dataclasses import dataclass
from typing import Any

from jsonschema.exceptions import ValidationError
from pydantic import JsonValue
from referencing.exceptions import Unresolvable

from longshift import jsontext
from longshift.signatures import MAX_PLACE, BadArguments, shown
from toolsets.mcp import schemas
from toolsets.mcp.errors import Unusable


@dataclass(frozen=True)
class SchemaArguments:
    """How the arguments of a server's tool are read: as one dictionary, for a handler that hands them on."""

    schema: dict[str, JsonValue]
    """JSON schema of the arguments object, of any draft; the newest where it names none."""
    context: str | None = "context"
    """The handler's parameter that is given the call's context."""

    def read(self, text: str) -> dict[str, Any]:
        """The keyword `arguments`, with the object that the JSON text holds.

        Raises BadArguments.
        """
        given = jsontext.parse(text)
        try:
            errors = sorted(schemas.errors(self.schema, given), key=lambda error: [str(step) for step in error.path])
            problems = dict.fromkeys(text for error in errors for text in _problems(error))
        except schemas.TooLong:
            reason = f"they could not be checked against the tool's schema within {schemas.SECONDS:g} s"
            raise BadArguments([f"the arguments: {reason}; give shorter ones, or take another tool"]) from None
        except (Unresolvable, RecursionError) as error:
            reason = f"the tool's own schema cannot be used ({type(error).__name__}); take another tool"
            raise BadArguments([f"the arguments: {reason}"]) from None
        if problems:
            raise BadArguments(list(problems))
        return {"arguments": given}


def check_schema(schema: dict[str, JsonValue]) -> None:
    """Raise Unusable for what is no JSON schema of an object."""
    if schema.get("type") != "object":
        raise Unusable('its schema is not of type "object"')
    try:
        errors = schemas.errors_of_schema(schema)
    except (RecursionError, schemas.TooLong) as error:
        raise Unusable(f"its schema cannot be checked ({type(error).__name__})") from None
    if errors:
        place = ".".join(str(step) for step in errors[0].absolute_path)[:MAX_PLACE] or "the schema"
        raise Unusable(f"its schema is no JSON schema (at {place})")


def _problems(error: ValidationError) -> list[str]:
    """One bad argument in words, or several that are missing or too many: where, what was expected, what was given."""
    steps = [str(step) for step in error.absolute_path]
    place = ".".join(steps)[:MAX_PLACE] or "the arguments"
    rule: Any = error.validator_value
    given = error.instance
    match error.validator:
        case "required" if isinstance(given, dict):
            properties = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
            return [_missing([*steps, name], properties.get(name)) for name in rule if name not in given]
        case "additionalProperties" if isinstance(given, dict) and isinstance(error.schema, dict):
            if steps:
                return [f"{'.'.join([*steps, error.message])[:MAX_PLACE]}: is not expected here"]
            names = ", ".join(error.schema.get("properties", {})) or "none"
            return [f"{error.message[:MAX_PLACE]}: is no argument of it; the arguments are: {names}"]
        case "type":
            kinds = " or ".join(rule) if isinstance(rule, list) else rule
            return [f"{place}: must be of type {kinds}, not {shown(given)}"]
        case "enum":
            return [f"{place}: must be one of {', '.join(map(shown, rule))}, not {shown(given)}"]
        case "anyOf" | "oneOf":
            return [f"{place}: fits none, or more than one, of the forms that its schema allows, not {shown(given)}"]
        case _:
            return [f"{place}: must satisfy {error.validator} {shown(rule)}, not {shown(given)}"]


def _missing(steps: list[str], schema: object) -> str:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return f"{'.'.join(steps)[:MAX_PLACE]}: is missing" + (f", must be of type {kind}" if isinstance(kind, str) else "")
