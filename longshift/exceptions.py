"""What becomes of an exception that a tool let out: its kind, and a message that is safe to show and to record.

A tool's own words (ToolError) stand as they are. Of any other exception the model gets the type and the text, cut to
a sane length, without the directories of a path and without what looks like a secret. No traceback, ever.
"""

import re

from longshift.tools import ToolError

MAX_MESSAGE = 1000
"""Characters kept of the text of an exception that is not a tool's own."""
MAX_PARTS = 3
"""Exceptions of a group that are told of."""

TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
"""HTTP statuses that may pass by themselves."""
FATAL_STATUS = frozenset({401, 403})
"""HTTP statuses that say the credentials are bad or not enough."""
TRANSIENT_TYPES = frozenset(
    {
        "builtins.ConnectionError",
        "builtins.TimeoutError",
        "httpx.NetworkError",
        "httpx.RemoteProtocolError",
        "httpx.TimeoutException",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "aiohttp.client_exceptions.ClientConnectionError",
    }
)
"""Dropped connections and time-outs, by name, since their libraries are not imported here."""
NEVER_SENT_TYPES = frozenset(
    {
        "builtins.ConnectionRefusedError",
        "httpx.ConnectError",
        "httpx.ConnectTimeout",
        "httpx.PoolTimeout",
        "requests.exceptions.ConnectTimeout",
        "aiohttp.client_exceptions.ClientConnectorError",
    }
)
"""Those of them where no connection was made: an effect that fails with one surely did not happen."""
NEVER_DONE_STATUS = frozenset({425, 429, 503, 529})
"""Those of the statuses that may pass with which a service says that it did nothing."""

_SECRET_NAME = r"[\w-]{0,40}(?:api[-_]?key|authorization|credential|passwd|password|secret|token(?!s))[\w-]{0,40}"
_SECRET_VALUE = r"(?:(?:bearer|basic)\s+)?(?:\"[^\"]*\"|'[^']*'|[^\s\"',;&)]+)"
_KNOWN_KEYS = r"\b(?:sk|pk|rk|gh[opsu]|xox[abp]|glpat|hf)[-_][\w-]{8,}|\bAKIA[0-9A-Z]{16}\b|\beyJ[\w-]+\.[\w.-]+"
_HIDDEN = (
    (re.compile(rf"(?i)({_SECRET_NAME}[\"']?\s*[:=]\s*){_SECRET_VALUE}"), r"\1***"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), r"\1 ***"),
    (re.compile(_KNOWN_KEYS), "***"),
    (re.compile(r"://[^\s/@]+@"), "://***@"),
)
"""What looks like a secret (named, in a header, of a known shape, in a URL), and what stands in its place."""

_PATHS = (
    re.compile(r"(?<=[\"'])(?:file://)?~?/(?:[^\"'/\n]+/)+(?=[^\"'/\n]*[\"'])"),
    re.compile(r"(?<![\w/.<-])(?:file://)?~?/(?:[\w.@+~-]+/)+"),
    re.compile(r"(?<!\w)[A-Za-z]:\\(?:[^\\\s\"'<>|]+\\)+"),
)
"""The directories of an absolute path; the file's own name is kept."""


def from_exception(exception: BaseException, *, effect: bool = False) -> tuple[str, str]:
    """The kind and the message of the observation that `exception` becomes.

    Args:
        effect: the tool is an effect: what broke off while it was at work leaves its outcome unknown.
    """
    if isinstance(exception, ToolError):
        return exception.kind, _text_of(exception) or type(exception).__name__
    if isinstance(exception, BaseExceptionGroup):
        parts = [from_exception(part, effect=effect) for part in exception.exceptions[:MAX_PARTS]]
        kinds = {kind for kind, _ in parts}
        unknown = "outcome_unknown" if "outcome_unknown" in kinds else "exception"
        return kinds.pop() if len(kinds) == 1 else unknown, "; ".join(message for _, message in parts)
    # Cut before the patterns run, too: a text of megabytes must not cost seconds.
    text = _scrubbed(_text_of(exception)[: 4 * MAX_MESSAGE]).strip()
    name = type(exception).__name__
    message = f"{name}: {text}" if text else name
    return _kind(exception, effect), message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 3] + "..."


def _kind(exception: BaseException, effect: bool) -> str:
    names = {f"{cls.__module__}.{cls.__qualname__}" for cls in type(exception).__mro__}
    status = _status(exception)
    if isinstance(exception, PermissionError) or status in FATAL_STATUS:
        return "fatal"
    if not names & TRANSIENT_TYPES and status not in TRANSIENT_STATUS:
        return "exception"
    surely_not = names & NEVER_SENT_TYPES or status in NEVER_DONE_STATUS
    return "outcome_unknown" if effect and not surely_not else "transient"


def _status(exception: BaseException) -> int | None:
    """The HTTP status an exception carries where httpx, requests, aiohttp, urllib and provider SDKs put it."""
    try:
        response = getattr(exception, "response", None)
        found = [getattr(response, "status_code", None)]
        found += [getattr(exception, name, None) for name in ("status_code", "status")]
    except Exception:  # a property of a foreign exception may raise anything
        return None
    return next((status for status in found if type(status) is int), None)


def _text_of(exception: BaseException) -> str:
    try:
        return str(exception)
    except Exception:  # a foreign __str__ may raise anything
        return ""


def _scrubbed(text: str) -> str:
    for pattern, instead in _HIDDEN:
        text = pattern.sub(instead, text)
    for pattern in _PATHS:
        text = pattern.sub(".../", text)
    return text
