"""JSON: strict on the way in, canonical on the way out."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longshift.jsontext import MAX_DEPTH, JsonRefused, canonical, check, parse, sha256, size

WHOLE_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**300), 10**300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WHOLE_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(WHOLE_TEXT, inner),
    max_leaves=20,
)


@given(JSON)
def test_what_is_written_is_read_back_the_same_and_written_the_same(value: Any) -> None:
    text = canonical(value)
    assert parse(text) == value
    assert canonical(parse(text)) == text
    assert parse(text.encode()) == value


@given(JSON)
def test_the_order_of_keys_and_the_blanks_do_not_change_the_canonical_text(value: Any) -> None:
    assert canonical(json.loads(json.dumps(value, indent=2, sort_keys=False))) == canonical(value)


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(b"\xff")
@example(b"\xef\xbb\xbf{}")
@example(b'"\\ud800"')
@example(b"1" * 5000)
@example(b"[" * 100_000)
@example(b"")
def test_any_bytes_are_read_or_refused_and_nothing_else_is_raised(raw: bytes) -> None:
    try:
        value = parse(raw)
    except JsonRefused as error:
        str(error).encode()
        return
    assert parse(canonical(value)) == value


@given(st.text(st.characters()))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except JsonRefused:
        return


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NaN", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("1e999", "1e999 is out of range"),
        ("-1e999", "-1e999 is out of range"),
        ("1" + "0" * 400, "is out of range"),
        ("9" * 309, "is out of range"),
        ("1" * 4301, "too many digits"),
        ('{"a":1,"b":2,"a":3}', "the key 'a' stands twice"),
        ('"\\udc00"', "lone surrogate"),
        ('{"\\udc00":1}', "lone surrogate"),
        ("[" * 100_000, "nested deeper than 64 levels"),
        ("{} {}", "Extra data at character 3"),
        ("```json\n{}\n```", "Expecting value at character 0"),
        ("", "Expecting value at character 0"),
        ("01", "Extra data"),
        ("'a'", "Expecting value"),
        ("\ufeff{}", "BOM"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(JsonRefused, match=reason):
        parse(text)


@pytest.mark.parametrize("number", [2**53, 2**53 + 1, 10**300 + 1, -(10**308), 1.7976931348623157e308, 5e-324, -0.0])
def test_a_number_that_a_double_can_reach_is_kept_exactly(number: float) -> None:
    read = parse(canonical(number))
    assert (read, type(read)) == (number, type(number))
    assert isinstance(read, (int, float))
    assert math.copysign(1, read) == math.copysign(1, number)


@pytest.mark.parametrize("inner", ["", "1", '"x"', "{}"])
def test_nesting_is_counted_by_arrays_and_objects_alone(inner: str) -> None:
    deepest = MAX_DEPTH - (inner == "{}")
    assert parse("[" * deepest + inner + "]" * deepest) != []
    with pytest.raises(JsonRefused, match="nested deeper"):
        parse("[" * (deepest + 1) + inner + "]" * (deepest + 1))


def test_a_key_repeated_at_the_end_of_many_is_found_at_once() -> None:
    many = ",".join(f'"{n}":{n}' for n in range(200_000))
    with pytest.raises(JsonRefused, match="'199999' stands twice"):
        parse(f'{{{many},"199999":0}}')


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": -math.inf}])
def test_nothing_that_is_no_json_is_written(value: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(value)


def test_check_takes_what_was_parsed_elsewhere() -> None:
    check({"a": [1, None, "x"]})
    with pytest.raises(JsonRefused):
        check({"a": ["\ud800"]})


def test_sizes_and_digests_are_of_utf_8() -> None:
    assert size("é") == 2
    assert sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert canonical({"b": "é", "a": [1, 2.0]}) == '{"a":[1,2.0],"b":"é"}'
