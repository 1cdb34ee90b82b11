"""What an HTTP answer means, without any HTTP."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.answers import MAX_RETRY_AFTER, read_json, refused, retry_after, without_body
from longshift.turns import ModelFailure

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def body_of(**error: Any) -> bytes:
    return json.dumps({"error": error}).encode()


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_a_transient_status_may_be_tried_again(status: int) -> None:
    failure = refused("shop", status, b"", 2.0)
    assert (failure.kind, failure.transient, failure.retry_after) == ("status", True, 2.0)
    assert "'shop'" in failure.message
    assert str(status) in failure.message


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 410, 413, 418, 422, 451])
def test_any_other_client_error_is_final_and_asks_for_no_wait(status: int) -> None:
    failure = refused("shop", status, b"", 2.0)
    assert (failure.kind, failure.transient, failure.retry_after) == ("status", False, None)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirect_is_final(status: int) -> None:
    failure = refused("shop", status)
    assert (failure.kind, failure.transient) == ("redirect", False)


@pytest.mark.parametrize(
    "body",
    [
        body_of(code="insufficient_quota", type="insufficient_quota", message="..."),
        body_of(message="You exceeded your current quota, please check your plan and billing details."),
        body_of(type="rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}, message="..."),
    ],
)
def test_a_429_for_a_spent_quota_is_final_and_says_so(body: bytes) -> None:
    failure = refused("shop", 429, body, 30.0)
    assert (failure.transient, failure.retry_after) == (False, None)
    assert "quota is spent" in failure.message


def test_a_429_for_a_rate_is_transient() -> None:
    assert refused("shop", 429, body_of(code="rate_limit_exceeded", message="Rate limit reached")).transient


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (body_of(code="context_length_exceeded", message="..."), "context_bytes"),
        (body_of(code=400, message="the request exceeds the available context size", type="x"), "context_bytes"),
        (body_of(type="exceed_context_size_error"), "context_bytes"),
        (b'{"object":"error","message":"This model\'s maximum context length is 8192 tokens"}', "context_bytes"),
        (body_of(type="invalid_request_error", message="prompt is too long: 9 tokens > 8"), "context_bytes"),
        (body_of(message="input length and `max_tokens` exceed context limit: 9 + 4 > 8"), "context_bytes"),
        (body_of(message="Your credit balance is too low to access the Anthropic API."), "quota is spent"),
        (body_of(message="You have reached your specified API usage limits."), "quota is spent"),
        (body_of(message="You have reached your specified workspace API usage limits."), "quota is spent"),
        (body_of(message='"thinking.type.disabled" is not supported for this model.'), "remove the setting thinking"),
        (body_of(code="invalid_function_parameters", message="..."), "schema of a tool"),
        (body_of(message="Invalid schema for function 'draft_order'", param="tools[0].function"), "schema of a tool"),
        (body_of(message="tools.0.custom.input_schema: JSON schema is invalid"), "schema of a tool"),
        (b'{"error":"models.example/library/x does not support tools"}', "takes no tools"),
        (body_of(message='"auto" tool choice requires --enable-auto-tool-choice'), "takes no tools"),
        (body_of(message="'max_tokens' is not supported. Use 'max_completion_tokens' instead."), "output_limit_field"),
    ],
)
def test_a_400_says_what_it_is_about_without_the_servers_words(body: bytes, words: str) -> None:
    failure = refused("shop", 400, body)
    assert not failure.transient
    assert words in failure.message
    assert "draft_order" not in failure.message
    assert "8192" not in failure.message


def test_a_request_that_is_too_large_says_so_whatever_the_body_is() -> None:
    for body in (b"<html></html>", body_of(type="request_too_large", message="Request exceeds the maximum size")):
        failure = refused("shop", 413, body)
        assert not failure.transient
        assert "lower context_bytes" in failure.message


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"null", b"[]", b'"text"', b'{"error":null}', b'{"error":[1]}', b'{"error":{"code":1}}']
)
def test_a_400_with_an_unknown_body_is_plain(body: bytes) -> None:
    assert refused("shop", 400, body).message == "endpoint 'shop': HTTP 400"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("-5", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("1, 2", None),
        ("٣", None),
        ("9" * 400, MAX_RETRY_AFTER),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW - timedelta(days=1), usegmt=True), 0.0),
        ("Sunday, 01-Mar-26 12:00:30 GMT", 30.0),
        ("Sun Mar  1 12:00:30 2026", 30.0),
        ("Sun, 01 Mar 9999 12:00:00 GMT", MAX_RETRY_AFTER),
        ("Sun, 99 Mar 2026 12:00:00 GMT", None),
        ("Sun, 01 Mar 99999999999999999999 12:00:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_from_now_or_nothing(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


@given(
    st.text() | st.from_regex(r"[A-Z][a-z]{2}, [0-9]{1,3} [A-Z][a-z]{2} [0-9]{1,20} [0-9:+-]{1,20}( [A-Z0-9+-]{1,9})?")
)
def test_no_retry_after_header_raises(value: str) -> None:
    seconds = retry_after(value, NOW)
    assert seconds is None or 0 <= seconds <= MAX_RETRY_AFTER


@pytest.mark.parametrize(
    ("content_type", "body", "transient", "words"),
    [
        ("application/json", b"", True, "empty"),
        ("application/json", b" \n", True, "empty"),
        ("application/json", b'{"choices": [', True, "cut"),
        ("application/json", b"\xff\xfe", True, "no valid JSON"),
        ("application/json", b'{"a": "\\ud800"}', True, "no valid JSON"),
        ("application/json", b"[" * 5000, True, "no valid JSON"),
        ("application/json", b'{"a": ' + b"9" * 5000 + b"}", True, "no valid JSON"),
        ("text/html; charset=utf-8", b"hello", False, "base URL"),
        ("application/json", b"<!DOCTYPE html><html></html>", False, "base URL"),
        ("application/json", b'data: {"choices": []}\n\n', False, "event stream"),
        ("application/json", b'{"error": {"message": "boom"}}', False, "HTTP 200"),
        ("application/json", b'{"error": "boom"}', False, "HTTP 200"),
        ("application/json", b'{"error": {"code": 502, "message": "upstream"}}', True, "code 502"),
        ("application/json", b'{"error": {"code": 401, "message": "bad"}}', False, "code 401"),
        ("application/json", b'{"error": {"code": true}}', False, "error object"),
        ("application/json", b'{"type": "error", "error": {"type": "overloaded_error"}}', True, "error object"),
        ("application/json", b'{"type": "error", "error": {"type": "billing_error"}}', False, "payment"),
        ("application/json", b'{"error": {"type": ["overloaded_error"]}}', False, "error object"),
    ],
)
def test_a_200_that_is_no_reply_has_its_own_clear_failure(
    content_type: str, body: bytes, transient: bool, words: str
) -> None:
    failure = read_json("shop", content_type, body)
    assert isinstance(failure, ModelFailure)
    assert failure.transient is transient
    assert words in failure.message


@pytest.mark.parametrize("body", [b'{"error": null, "choices": []}', b"null", b"[1]"])
def test_any_other_json_is_left_to_the_parser(body: bytes) -> None:
    assert read_json("shop", "text/plain", body) == json.loads(body)


def test_an_answer_without_content_or_with_a_stream_is_refused_by_its_head() -> None:
    for status, content_type in ((204, ""), (205, ""), (200, "text/event-stream; charset=utf-8")):
        failure = without_body("shop", status, content_type)
        assert failure is not None
        assert (failure.kind, failure.transient) == ("broken_body", False)
    assert without_body("shop", 200, "application/json") is None
