"""What answers a tool call: any value, any exception, of any size."""

import collections
import enum
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel, SecretStr

from longshift import jsontext
from longshift.observations import cut, error, kind_of, ok, read
from longshift.plainjson import MAX_INT_BITS, MAX_LEVELS


class Colour(enum.Enum):
    """One colour."""

    RED = "red"


@dataclass
class Tub:
    """A tub."""

    sku: str
    inside: Any = None


class Model(BaseModel):
    """A model with what JSON has no word for."""

    day: date = date(2031, 1, 2)
    key: SecretStr = SecretStr("hunter2")
    ratio: float = math.nan
    raw: bytes = b"\xff"


class Hostile(dict[str, Any]):
    """A mapping that cannot be read."""

    def items(self) -> Any:
        """Fail."""
        raise RuntimeError("no")


def value_of(content: str) -> Any:
    """The value a model reads."""
    return read(content)["value"]


def failure_of(content: str) -> tuple[str, str]:
    """Kind and message a model reads."""
    failure: Any = read(content)["error"]
    return failure["kind"], failure["message"]


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_an_observation_is_canonical_json_of_two_shapes() -> None:
    assert ok({"b": 1, "a": "ü\n|"}) == '{"ok":true,"value":{"a":"ü\\n|","b":1}}'
    assert error("refused", "no") == '{"error":{"kind":"refused","message":"no"},"ok":false}'


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        (Colour.RED, "red"),
        (Tub("a", Tub("b")), {"sku": "a", "inside": {"sku": "b", "inside": None}}),
        (RootModel[int](3), 3),
        (date(2031, 1, 2), "2031-01-02"),
        (datetime(2031, 1, 2, tzinfo=UTC), "2031-01-02T00:00:00Z"),
        (timedelta(hours=36), "P1DT12H"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/a/b"), "/a/b"),
        (b"text", "text"),
        (bytearray(b"text"), "text"),
        ((1, "a"), [1, "a"]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (collections.deque([1, 2]), [1, 2]),
        (range(3), [0, 1, 2]),
        ({"b": 1, "a": 2}.keys(), ["b", "a"]),
        ({"a": 1}.values(), [1]),
        ({7: "a", None: "b", True: "c", 0.5: "d"}, {"7": "a", "null": "b", "true": "c", "0.5": "d"}),
        ({Colour.RED: "a", date(2031, 1, 2): "b"}, {"red": "a", "2031-01-02": "b"}),
        (2**MAX_INT_BITS - 1, 2**MAX_INT_BITS - 1),
        ("\ud83d\ude00", "😀"),
    ],
)
def test_python_values_have_a_defined_json_form_without_a_note(returned: object, value: Any) -> None:
    assert read(ok(returned)) == {"ok": True, "value": value}


@pytest.mark.parametrize(
    ("returned", "value", "words"),
    [
        (math.nan, "NaN", "NaN and infinite numbers"),
        ([math.inf, -math.inf], ["Infinity", "-Infinity"], "NaN and infinite numbers"),
        (2**MAX_INT_BITS, hex(2**MAX_INT_BITS), "hexadecimal"),
        ([-(10**9000)], [hex(-(10**9000))], "hexadecimal"),
        ("a\ud800b", "a\ufffdb", "U+FFFD"),
        ({"\udcff": 1}, {"\ufffd": 1}, "U+FFFD"),
        (PurePosixPath("a\udcff"), "a\ufffd", "U+FFFD"),
        (b"\xff", "/w==", "Base64"),
    ],
)
def test_what_cannot_be_given_exactly_is_made_safe_and_noted(returned: object, value: Any, words: str) -> None:
    observation = read(ok(returned))
    assert observation["value"] == value
    assert words in str(observation["note"])


def test_a_model_is_given_as_its_fields_with_its_secrets_hidden() -> None:
    observation = read(ok(Model()))
    assert observation["value"] == {"day": "2031-01-02", "key": "**********", "ratio": "NaN", "raw": "/w=="}
    assert "Base64" in str(observation["note"])
    assert "NaN" in str(observation["note"])


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append({"again": cycle})
    return cycle


def _endless() -> Iterator[int]:
    yield from itertools.count()


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (object(), "a object has no JSON form"),
        (Tub, "a type has no JSON form"),
        (len, "has no JSON form"),
        (ValueError("x"), "a ValueError has no JSON form"),
        (itertools.count(), "a count has no JSON form"),
        (_endless(), "a generator has no JSON form"),
        (_cycle(), "a list holds itself"),
        (_nested(MAX_LEVELS + 1), f"nested deeper than {MAX_LEVELS} levels"),
        (_nested(10_000), f"nested deeper than {MAX_LEVELS} levels"),
        ({(1, 2): 3}, "a tuple is a key"),
        ({1: "a", "1": "b"}, "two keys of one dict are the same text, '1'"),
        (Hostile(a=1), "reading a Hostile raised RuntimeError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_json_form_is_a_bad_result_that_says_the_tool_ran(returned: object, words: str) -> None:
    kind, message = failure_of(ok(returned))
    assert kind == "bad_result"
    assert message.startswith("the tool ran to its end, but what it returned cannot be given: ")
    assert words in message


def test_the_deepest_value_that_is_taken_can_be_read_back() -> None:
    assert value_of(ok(_nested(MAX_LEVELS))) == _nested(MAX_LEVELS)


def test_a_value_that_stands_twice_is_no_cycle() -> None:
    tub = Tub("a")
    assert value_of(ok([tub, tub])) == [{"sku": "a", "inside": None}] * 2


def test_a_message_is_verbatim_and_made_safe() -> None:
    assert failure_of(error("refused", 'line\n| "pipe" \x1b[31m')) == ("refused", 'line\n| "pipe" \x1b[31m')
    observation: Any = read(error("refused", "\udcff"))
    assert (observation["error"]["message"], "U+FFFD" in observation["note"]) == ("\ufffd", True)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
leaves = (
    json_values
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=20)
    | st.dates()
    | st.datetimes()
    | st.timedeltas()
    | st.times()
    | st.decimals()
    | st.uuids()
    | st.complex_numbers()
    | st.builds(object)
    | st.builds(lambda bits: 2**bits, st.integers(0, 20_000))
)
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(st.characters(), max_size=3) | st.integers() | st.dates(), inner, max_size=3)
        | st.builds(Tub, st.text(max_size=3), inner)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(json_values)
def test_a_json_value_reaches_the_model_verbatim(value: Any) -> None:
    assert read(ok(value)) == {"ok": True, "value": value}


@settings(deadline=None)
@given(anything, st.integers(256, 2000))
def test_whatever_a_tool_returns_there_is_one_valid_observation_within_the_limit(value: Any, max_bytes: int) -> None:
    whole = ok(value)
    assert kind_of(whole) in ("ok", "bad_result")
    assert ok(value) == whole
    shown = cut(whole, max_bytes)
    body: Any = read(shown)
    assert jsontext.size(jsontext.canonical(body.get("value", body.get("error", {}).get("message")))) <= max_bytes


@settings(deadline=None)
@given(st.text(max_size=3000) | st.lists(st.text(max_size=300), max_size=10), st.integers(256, 1500))
def test_a_cut_keeps_the_beginning_says_how_much_there_was_and_cuts_once(value: Any, max_bytes: int) -> None:
    whole = ok(value)
    shown = cut(whole, max_bytes)
    assert cut(shown, max_bytes) == shown
    if len(jsontext.canonical(value).encode()) <= max_bytes:
        assert shown == whole
        return
    text = value if isinstance(value, str) else jsontext.canonical(value)
    kept, marker = str(value_of(shown)).rsplit("\n[cut here: ", 1)
    assert text.startswith(kept)
    assert marker == f"{len(text.encode())} bytes in all, the whole is in the journal]"
    full = len(jsontext.canonical(value_of(shown)).encode())
    assert max_bytes - 12 < full <= max_bytes, "no more is cut than must be: one character more would not fit"


def test_a_message_is_cut_like_a_value_and_keeps_its_kind() -> None:
    kind, message = failure_of(cut(error("refused", "no " * 1000), 256))
    assert kind == "refused"
    assert message.endswith("\n[cut here: 3000 bytes in all, the whole is in the journal]")


def test_a_cut_keeps_the_note() -> None:
    shown = cut(ok(["x" * 500, math.nan]), 256)
    assert "NaN" in str(read(shown)["note"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "Expecting value"),
        ("plain text", "Expecting value"),
        ("[]", 'no object with "ok"'),
        ('{"ok":1,"value":1}', 'no object with "ok"'),
        ('{"ok":true}', "its keys are ok instead of ok, value"),
        ('{"ok":true,"value":1,"error":{"kind":"a","message":"b"}}', "its keys are"),
        ('{"ok":false,"value":1}', "its keys are ok, value instead of error, ok"),
        ('{"ok":false,"error":"no"}', "no kind and message"),
        ('{"ok":false,"error":{"kind":"a"}}', "no kind and message"),
        ('{"ok":false,"error":{"kind":"a","message":1}}', "no kind and message"),
        ('{"ok":true,"value":1,"note":2}', "note is no text"),
        ('{"ok":true,"ok":true,"value":1}', "stands twice"),
        ('{"ok":true,"value":NaN}', "NaN is not JSON"),
        ('{"ok":true,"value":1} trailing', "Extra data"),
    ],
)
def test_what_is_no_observation_is_refused_with_the_reason(content: str, words: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read(content)
    assert words in str(caught.value)
