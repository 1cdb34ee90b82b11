"""What an HTTP answer means, decided without I/O: which failure it is, whether another attempt may help, how long to
wait, and whether a body is the JSON that was asked for.

A failure's sentence is made of the endpoint's name, the status and words of our own. What the server wrote is looked
at, to tell one failure from another, and never copied: servers are known to repeat keys and headers.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from pydantic import JsonValue

from longshift import jsontext
from longshift.turns import FailureKind, ModelFailure

MAX_RETRY_AFTER = 366 * 86_400.0
"""Seconds a Retry-After is cut to: past any shift's deadline, which the workflow never waits beyond anyway."""

TRANSIENT_4XX = frozenset({408, 409, 429})
"""Client errors that another attempt may help: timeout, conflict, too many requests. So may every 5xx, 529 too."""

WRONG_URL = (
    "check the endpoint's url: it must be the API's base URL, which usually ends in /v1 "
    '(with kind = "anthropic": before it)'
)

_QUOTA = re.compile(
    r"insufficient_quota|exceeded your current quota|billing_(hard_limit|not_active)|credit balance"
    r"|spend_limit_reached|reached your specified .{0,20}usage limits"
)
"""What a 429, or with Anthropic a 400, says when the account may spend no more."""
_CAUSES = (
    (
        re.compile(
            r"context_length|exceed_context|context (length|size|window|limit)|maximum context|prompt is too long"
            r"|input is too long|too many tokens"
        ),
        "the request is too long for the model's context; lower context_bytes or serve the model with a larger context",
    ),
    (
        re.compile(r"max_completion_tokens"),
        'the model wants the newer field for the allowance; set output_limit_field = "max_completion_tokens"',
    ),
    (
        re.compile(r"thinking[^a-z].{0,40}(not supported|cannot be disabled)"),
        "the model does not let its thinking be turned off; remove the setting thinking and raise output_tokens",
    ),
    (
        re.compile(r"not support (the use of )?tool|enable-auto-tool-choice|support function call"),
        "the model, or the server as it was started, takes no tools; use one that does",
    ),
    (
        re.compile(
            r"invalid_function_parameters|\btools?[\[.]\d|(tool|function)[^.]{0,200}schema|json schema|schema for"
        ),
        "the server does not accept the schema of a tool; simplify that tool's parameters",
    ),
)
"""What a 400, 413 or 422 is about, by the words of its error; the first that fits. OpenAI, vLLM, llama.cpp, Ollama and
Anthropic word these differently, and only some give a code."""

_REMEDIES = {
    401: "the key is not accepted; check the variable that api_key_env names on this worker",
    402: "payment is required; waiting does not help",
    403: "access is denied; check the key's rights and the model's name",
    404: "nothing is there; check the endpoint's url and model",
    413: "the request is larger than the server takes; lower context_bytes",
}

_STATUS_OF_TYPE = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The HTTP status that each of Anthropic's error types comes with, for one that comes with another."""


def failure(
    name: str, kind: FailureKind, text: str, *, transient: bool, retry_after: float | None = None
) -> ModelFailure:
    """A failure of endpoint `name`; `text` says what happened and the remedy."""
    return ModelFailure(kind=kind, message=f"endpoint {name!r}: {text}", transient=transient, retry_after=retry_after)


def transient_status(status: int) -> bool:
    """Whether another attempt may help after an error status (400 to 599)."""
    return status in TRANSIENT_4XX or status >= 500


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks to wait, 0 or more, cut to MAX_RETRY_AFTER.

    Args:
        value: the header: seconds (RFC 9110), a fraction of one (servers send it), or an HTTP date.
        now: the time, with its zone, that a date is measured from.

    Returns:
        0 for a date that has passed; None where there is no header or it is nonsense.
    """
    text = (value or "").strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return min(float(text), MAX_RETRY_AFTER)
    try:
        date = parsedate_to_datetime(text)
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)) - now
    except (ValueError, OverflowError):
        return None
    return min(max(seconds.total_seconds(), 0.0), MAX_RETRY_AFTER)


def refused(name: str, status: int, body: bytes = b"", wait: float | None = None) -> ModelFailure:
    """The failure that an answer with a status outside 2xx is.

    Args:
        name: the endpoint.
        status: the HTTP status, 300 or above.
        body: what could be read of the body; empty where nothing could.
        wait: seconds that it asks to wait.
    """
    if status < 400:
        return failure(
            name,
            "redirect",
            f"HTTP {status}, a redirect, which is never followed; set url to where it leads",
            transient=False,
        )
    return _by_status(name, status, _words(_json_or_none(body)), f"HTTP {status}", wait)


def without_body(name: str, status: int, content_type: str) -> ModelFailure | None:
    """The failure that an answer with a 2xx status is by its head alone, or None where its body is to be read."""
    if status in (204, 205):
        return failure(name, "broken_body", f"HTTP {status}, an answer without content; {WRONG_URL}", transient=False)
    if content_type.lower().startswith("text/event-stream"):
        return _event_stream(name)
    return None


def read_json(name: str, content_type: str, body: bytes) -> JsonValue | ModelFailure:
    """The JSON of a whole 2xx body, or the failure that the body is."""
    start = body[:64].lstrip().lower()
    if not start:
        return failure(name, "broken_body", "the answer's body is empty", transient=True)
    if content_type.lower().startswith("text/html") or start.startswith(b"<"):
        return failure(name, "broken_body", f"a web page instead of JSON; {WRONG_URL}", transient=False)
    if start.startswith((b"data:", b"event:")):
        return _event_stream(name)
    try:
        value = jsontext.parse(body)
    except jsontext.JsonRefused:
        return failure(name, "broken_body", "the answer's body is cut, or no valid JSON", transient=True)
    if isinstance(value, dict) and value.get("error"):
        return _error_in_ok(name, value)
    return value


def _error_in_ok(name: str, value: dict[str, JsonValue]) -> ModelFailure:
    """An error object under HTTP 200, as gateways send it; judged by the HTTP status it names."""
    error = value["error"]
    code = error.get("code") if isinstance(error, dict) else None
    words = _words(value)
    if isinstance(code, int) and 400 <= code <= 599:
        return _by_status(name, code, words, f"HTTP 200 that holds an error with code {code}", None)
    kind = error.get("type") if isinstance(error, dict) else None
    status = _STATUS_OF_TYPE.get(kind, 400) if isinstance(kind, str) else 400
    return _by_status(name, status, words, "HTTP 200 that holds an error object in place of a reply", None)


def _by_status(name: str, status: int, words: str, what: str, wait: float | None) -> ModelFailure:
    transient = transient_status(status)
    remedy = _REMEDIES.get(status)
    if status in (400, 429) and _QUOTA.search(words):
        transient, wait = False, None
        remedy = "the account's quota is spent; waiting does not help"
    elif status in (400, 413, 422):
        remedy = next((text for pattern, text in _CAUSES if pattern.search(words)), remedy)
    return failure(
        name,
        "status",
        f"{what}: {remedy}" if remedy else what,
        transient=transient,
        retry_after=wait if transient else None,
    )


def _event_stream(name: str) -> ModelFailure:
    return failure(
        name,
        "broken_body",
        "an event stream, though none was asked for; turn streaming off in the server or proxy",
        transient=False,
    )


def _json_or_none(body: bytes) -> JsonValue:
    try:
        return jsontext.parse(body)
    except jsontext.JsonRefused:
        return None


def _words(value: JsonValue) -> str:
    """The words of an error body that tell what it is about, in lower case: for comparing, never for showing."""
    error = value.get("error") or value if isinstance(value, dict) else value
    if isinstance(error, dict):
        details = error.get("details")
        texts = [error.get(key) for key in ("code", "type", "param", "message")]
        texts.append(details.get("error_code") if isinstance(details, dict) else None)
        error = " ".join(str(text)[:1000] for text in texts if text)
    return error[:4000].lower() if isinstance(error, str) else ""
