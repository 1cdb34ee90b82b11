"""What people send to a running shift, read from whatever JSON arrived.

A message may come from the client, the Temporal UI or its command line, with any payload or none. Reading never
raises for a stop; the others raise MessageRefused with the field and the remedy.
"""

from collections.abc import Callable
from typing import Any

from pydantic import JsonValue

from longshift import jsontext
from longshift.limits import Limits, LimitsRefused
from longshift.state import RunState, Stop

MAX_TEXT_BYTES = 64 * 1024
"""Bytes of a user's message."""
MAX_WAITING_TEXT_BYTES = 256 * 1024
"""Bytes of all users' messages that wait for the next model call, or for the journal: they travel in one payload."""
MAX_REASON = 500
"""Characters kept of a reason."""
MAX_REQUEST_ID = 200
"""Characters of a request id."""


class MessageRefused(ValueError):
    """A message cannot be applied; its text names the field and the remedy. Nothing was changed."""


def read_stop(args: tuple[Any, ...]) -> Stop:
    """Any stop stops, whatever it carries: `{"mode": "now", "reason": "..."}`, a reason alone, nothing."""
    given = args[0] if args else None
    fields = given if isinstance(given, dict) else {"reason": given}
    reason = fields.get("reason")
    mode = "now" if fields.get("mode") == "now" else "graceful"
    return Stop(mode=mode, reason=safe(reason) if isinstance(reason, str) else "")


def apply_stop(state: RunState, stop: Stop) -> None:
    """The first stop stands with its reason, cut; a later one can only make it urgent or mark it as a cancellation."""
    if state.stop is None:
        state.stop = stop.model_copy(update={"reason": stop.reason[:MAX_REASON]})
        return
    mode = "now" if "now" in (state.stop.mode, stop.mode) else "graceful"
    cancelled = state.stop.cancelled or stop.cancelled
    state.stop = state.stop.model_copy(update={"mode": mode, "cancelled": cancelled})


def read_limits(args: tuple[Any, ...]) -> tuple[dict[str, JsonValue], str | None]:
    """A change of limits and its request id: `{"seconds": 600, "request_id": "..."}`, absolute values.

    Raises MessageRefused.
    """
    given = args[0] if len(args) == 1 else None
    if not isinstance(given, dict) or not given:
        raise MessageRefused('limits: send one object of limit names and new values, like {"model_calls": 12}')
    changes = {name: value for name, value in given.items() if name != "request_id"}
    if not changes:
        raise MessageRefused("limits: name at least one limit beside the request_id")
    try:
        Limits().changed(changes)
    except LimitsRefused as refused:
        raise MessageRefused(str(refused)) from None
    return changes, _request_id(given.get("request_id"))


def read_tell(
    state: RunState, args: tuple[Any, ...], entered_count: Callable[[], bool] = lambda: True
) -> tuple[str, str | None]:
    """A user's message and its request id: a text, or `{"text": "...", "request_id": "..."}`.

    Args:
        entered_count: whether it may be refused for messages that stand in the transcript already and wait for the
            journal; asked only where it would be.

    Raises MessageRefused.
    """
    given = args[0] if len(args) == 1 else None
    fields: dict[str, JsonValue] = given if isinstance(given, dict) else {"text": given}
    unknown = [name for name in fields if name not in ("text", "request_id")]
    if unknown:
        raise MessageRefused(f"tell: {safe(unknown[0][:60])} is not known; send a text and, if you like, a request_id")
    text = fields.get("text")
    if not isinstance(text, str) or not text.strip():
        raise MessageRefused("text: must be the message's text, not blank")
    try:
        size = jsontext.size(text)
        waiting = sum(jsontext.size(earlier) for earlier in state.tells)
    except UnicodeEncodeError:
        raise MessageRefused("text: holds a lone surrogate, which is not Unicode text") from None
    if size > MAX_TEXT_BYTES:
        raise MessageRefused(f"text: has {size} bytes, at most {MAX_TEXT_BYTES} are accepted")
    full = waiting + size > MAX_WAITING_TEXT_BYTES
    if full or (waiting + _entered(state) + size > MAX_WAITING_TEXT_BYTES and entered_count()):
        raise MessageRefused("text: too many messages wait for the next model call already; send it after that")
    return text, _request_id(fields.get("request_id"))


def _entered(state: RunState) -> int:
    """Bytes of the users' messages in the transcript that the journal does not hold yet: of a run whose fund or whose
    journal keeps it waiting."""
    messages = [entry.message for entry in state.entries if entry.message is not None]
    return sum(jsontext.size(message.content) for message in messages if message.role == "user")


def _request_id(given: object) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or not 0 < len(given) <= MAX_REQUEST_ID:
        raise MessageRefused(f"request_id: must be a text of 1 to {MAX_REQUEST_ID} characters")
    return safe(given)


def safe(text: str) -> str:
    """`text` without lone surrogates, which no JSON and no database takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
