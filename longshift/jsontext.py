"""JSON as Longshift reads and writes it: strict on the way in, canonical on the way out.

Canonical JSON (sorted keys, no blanks, UTF-8, no NaN) is what is hashed, measured and stored, so that the same
value always has the same bytes. Strict reading refuses what Python's parser lets through and RFC 8259 does not
guarantee to survive: NaN and Infinity, numbers beyond a double, repeated keys, deep nesting, lone surrogates.
"""

import hashlib
import json
import math
from typing import Any, NoReturn, cast

from pydantic import JsonValue

MAX_DEPTH = 64
"""Levels of nesting accepted from outside. The payload converter of a workflow gives up near 255; no known tool
schema passes 20."""


class JsonRefused(ValueError):
    """The text is not JSON that can be taken as it stands; the message says why."""


def canonical(value: object) -> str:
    """The canonical JSON text of `value`, which holds JSON types only.

    Raises ValueError for NaN or infinity, TypeError for what is not JSON.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def size(text: str) -> int:
    """Bytes of `text` in UTF-8."""
    return len(text.encode("utf-8"))


def sha256(text: str) -> str:
    """Hex SHA-256 of `text` in UTF-8."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def parse(text: str | bytes) -> JsonValue:
    """Read strict JSON.

    Raises JsonRefused, and nothing else, for whatever is wrong with the text.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise JsonRefused(f"not UTF-8 at byte {error.start}") from None
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_no_constant,
            parse_float=_finite_float,
            parse_int=_int_of_a_double,
        )
    except JsonRefused:
        raise
    except RecursionError:
        raise JsonRefused(f"nested deeper than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as error:
        raise JsonRefused(f"{error.msg} at character {error.pos}") from None
    except ValueError:  # an integer past Python's limit on digits
        raise JsonRefused("a number has too many digits") from None
    check(value)
    return cast(JsonValue, value)


def check(value: object) -> None:
    """Raise JsonRefused when a parsed value is nested too deep or holds text that is not Unicode."""
    level: list[Any] = [value]
    depth = 0
    while level:
        depth += any(isinstance(item, (dict, list)) for item in level)
        if depth > MAX_DEPTH:
            raise JsonRefused(f"nested deeper than {MAX_DEPTH} levels")
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, str):
                _whole_text(item)
            elif isinstance(item, dict):
                for key in item:
                    _whole_text(key)
                deeper.extend(item.values())
            elif isinstance(item, list):
                deeper.extend(item)
        level = deeper


def _whole_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise JsonRefused("a string holds a lone surrogate, which is not Unicode text") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise JsonRefused(f"the key {name[:60]!r} stands twice in one object")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise JsonRefused(f"{name} is not JSON")


def _int_of_a_double(text: str) -> int:
    number = int(text)
    try:
        float(number)  # exact or not: what reads it as a double must not make an infinity of it
    except OverflowError:
        raise JsonRefused(f"the number {text[:40]} is out of range") from None
    return number


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise JsonRefused(f"the number {text[:40]} is out of range")
    return number
