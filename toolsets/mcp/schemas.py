"""JSON schemas that servers give, used within bounds: none may hold up a worker, which has other runs to serve.

Texts are matched by RE2, in a time that grows with their length alone. What it does not take, and keywords that cost
more than that, are left to the server, which checks the arguments of its tools as well.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any

import attrs
import re2  # type: ignore[import-untyped]
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from pydantic import JsonValue
from referencing import Registry

SECONDS = 1.0
"""Seconds of the processor that one check may take."""
MAX_TEXT = 4096
"""Characters of a text that is matched with a pattern; a longer one is left to the server."""
PATTERN_BYTES = 128 * 1024
"""Bytes of memory for a compiled pattern; a larger one is left to the server."""
LEFT_OUT = ("unevaluatedItems", "unevaluatedProperties", "uniqueItems")
"""Keywords whose check by the library is quadratic or walks the schema anew, with patterns of its own matching."""

_OPTIONS = re2.Options()
_OPTIONS.max_mem = PATTERN_BYTES
_OPTIONS.never_capture = True
_OPTIONS.log_errors = False

_until: ContextVar[float] = ContextVar("until")

Keyword = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]


class TooLong(Exception):
    """A check took longer than SECONDS."""


def errors(schema: Mapping[str, JsonValue], given: object) -> list[ValidationError]:
    """What is wrong with a JSON value, by a schema of any draft; the newest where it names none.

    Raises TooLong, and for a schema that cannot be used RecursionError or Unresolvable.
    """
    return _errors(_bounded(validator_for(schema, default=Draft202012Validator)), schema, given)


def errors_of_schema(schema: Mapping[str, JsonValue]) -> list[ValidationError]:
    """What is wrong with the schema itself. Raises TooLong and RecursionError."""
    standard = validator_for(schema, default=Draft202012Validator)
    return _errors(_bounded(standard), standard.META_SCHEMA, schema)


def _errors(bounded: Any, schema: object, given: object) -> list[ValidationError]:
    token = _until.set(time.thread_time() + SECONDS)
    try:
        # The registry is empty, and so a reference that leaves the schema resolves to nothing and fetches nothing.
        return list(bounded(schema, registry=Registry()).iter_errors(given))
    finally:
        _until.reset(token)


@cache
def _bounded(standard: type[Validator]) -> Any:
    """The library's class for a draft, with our own matching and a time that every keyword looks at."""
    own: dict[str, Keyword] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }
    keywords: dict[str, Any] = {**standard.VALIDATORS, **own, **dict.fromkeys(LEFT_OUT, _left_out)}
    timed = {name: _timed(keyword) for name, keyword in keywords.items()}
    bounded: Any = extend(standard, timed)  # type: ignore[no-untyped-call]
    # The library's takes the standard class for a schema inside that names its draft.
    bounded.evolve = lambda self, **changes: attrs.evolve(self, **changes)
    return bounded


def _timed(keyword: Keyword) -> Keyword:
    def timed(validator: Any, rule: Any, given: Any, schema: Any) -> Iterable[ValidationError] | None:
        _look_at_the_time()
        return keyword(validator, rule, given, schema)

    return timed


def _look_at_the_time() -> None:
    if time.thread_time() > _until.get():
        raise TooLong


def _found(pattern: str, text: str) -> bool | None:
    """Whether a pattern is found in a text; None where that is left to the server."""
    _look_at_the_time()
    if len(text) > MAX_TEXT:
        return None
    try:
        return re2.compile(pattern, _OPTIONS).search(text) is not None
    except re2.error:
        return None


def _left_out(validator: Any, rule: Any, given: Any, schema: Any) -> None:
    return None


def _pattern(validator: Any, rule: Any, given: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(given, "string") and _found(rule, given) is False:
        yield ValidationError("does not match")


def _pattern_properties(validator: Any, rule: Any, given: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(given, "object"):
        for pattern, inner in rule.items():
            for name, value in given.items():
                if _found(pattern, name):
                    yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _additional_properties(validator: Any, rule: Any, given: Any, schema: Any) -> Iterator[ValidationError]:
    """An error for each name too many, which is its message."""
    if not validator.is_type(given, "object") or rule is True:
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in given.items():
        if name in known or any(_found(pattern, name) is not False for pattern in patterns):
            continue
        if validator.is_type(rule, "object"):
            yield from validator.descend(value, rule, path=name)
        else:
            yield ValidationError(name)
