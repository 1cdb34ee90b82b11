"""Observations: what answers a tool call, as the one JSON text that the model, the journal and the history hold.

`{"ok": true, "value": ...}` or `{"ok": false, "error": {"kind": ..., "message": ...}}`, canonical. Where a value could
not be given exactly as it was, a `note` beside it says what was changed. Value and message are the tool's own, only
cut where they are over the tool's limit.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from pydantic import JsonValue

from longshift import jsontext
from longshift.exceptions import from_exception
from longshift.plainjson import NoJsonForm, plain, whole_text
from longshift.tools import Tool, ToolContext

_CONTROL = ("CancelledError", "GeneratorExit")
"""What ends a coroutine from outside, by name, since asyncio is not imported here."""
InThread = Callable[[Callable[[], str]], Awaitable[str]]
"""Runs a blocking function elsewhere and gives back what it returns; the function raises nothing."""


def ok(value: object) -> str:
    """The observation of a handler that returned `value`, whatever it is.

    Returns:
        The value's JSON form (longshift/plainjson.py says which), or an error of kind `bad_result` where it has none.
    """
    notes: set[str] = set()
    try:
        body: dict[str, Any] = {"ok": True, "value": plain(value, notes)}
    except NoJsonForm as refused:
        return error("bad_result", f"the tool ran to its end, but what it returned cannot be given: {refused}")
    return _text(body, notes)


def told(value: JsonValue, note: str) -> str:
    """The observation of a call whose value a person tells; `note` says so."""
    return _text({"ok": True, "value": value}, {whole_text(note, set())})


def error(kind: str, message: str) -> str:
    """The observation of a call that failed: `kind` is one word, `message` a sentence for the model."""
    notes: set[str] = set()
    return _text({"ok": False, "error": {"kind": kind, "message": whole_text(message, notes)}}, notes)


def read(content: str) -> dict[str, JsonValue]:
    """The observation that a message's content holds.

    Raises ValueError, saying what is wrong, when it is none.
    """
    body = jsontext.parse(content)
    if not isinstance(body, dict) or not isinstance(body.get("ok"), bool):
        raise ValueError('it is no object with "ok": true or "ok": false')
    expected = {"ok", "value"} if body["ok"] else {"ok", "error"}
    if set(body) - {"note"} != expected:
        raise ValueError(f"its keys are {', '.join(sorted(body))} instead of {', '.join(sorted(expected))}")
    failure = body.get("error")
    if not body["ok"] and not (
        isinstance(failure, dict) and set(failure) == {"kind", "message"} and _texts(*failure.values())
    ):
        raise ValueError("its error has no kind and message")
    if not _texts(body.get("note", "")):
        raise ValueError("its note is no text")
    return body


def kind_of(content: str) -> str:
    """`ok`, or the kind of the error. Raises ValueError when `content` is no observation."""
    body = read(content)
    return "ok" if body["ok"] else str(cast("dict[str, JsonValue]", body["error"])["kind"])


def message_of(content: str) -> str:
    """The message of an observation that is an error. Raises ValueError when `content` is none."""
    failure = read(content).get("error")
    if not isinstance(failure, dict):
        raise ValueError("it is no error")
    return str(failure["message"])


def cut(content: str, max_bytes: int) -> str:
    """An observation whose value or message has at most `max_bytes` bytes of canonical JSON.

    A larger one becomes text (a value that is no text: its canonical JSON) that ends in a marker with the bytes there
    were; cutting twice changes nothing.

    Raises ValueError when `content` is no observation.
    """
    if jsontext.size(content) <= max_bytes:
        return content
    body = read(content)
    if body["ok"]:
        return jsontext.canonical(body | {"value": _cut(body["value"], max_bytes)})
    failure = cast("dict[str, JsonValue]", body["error"])
    return jsontext.canonical(body | {"error": failure | {"message": _cut(failure["message"], max_bytes)}})


@dataclass(frozen=True)
class Observation:
    """What came of one tool call."""

    content: str
    """What the model reads, within the tool's limit."""
    whole: str
    """The same uncut, for the journal."""
    kind: str
    """`ok`, or the kind of the error: `fatal` ends a run, `transient` may be tried again if the tool is a read,
    `outcome_unknown` is an effect that may have happened."""


async def observe(
    tool: Tool[..., Any], arguments: Mapping[str, Any], context: ToolContext, in_thread: InThread
) -> Observation:
    """Do one tool call: check the arguments, run the handler, and make an observation of whatever it does.

    Raises nothing of the tool's. A cancellation comes through; SystemExit, KeyboardInterrupt and their like do not,
    since a tool must not end its worker.

    Args:
        tool: the tool.
        arguments: the arguments as the model gave them; not changed.
        context: given to a handler that asks for it.
        in_thread: where a sync handler runs.
    """
    effect = tool.spec.kind == "effect"
    try:
        run = partial(tool.handler, **tool.bind(arguments, context))
        # A sync handler's exceptions become text inside the thread: not every exception can cross a future.
        whole = ok(await run()) if tool.is_async else await in_thread(partial(_observed, run, effect))
    except BaseException as exception:
        if type(exception).__name__ in _CONTROL:
            raise
        whole = error(*from_exception(exception, effect=effect))
    content = cut(whole, tool.spec.max_bytes)
    return Observation(content, whole, kind_of(content))


def _observed(run: Callable[[], Any], effect: bool) -> str:
    try:
        value = run()
        if inspect.iscoroutine(value):
            value.close()  # nothing awaits it: it has no JSON form, and must not warn on its way out
        return ok(value)
    except BaseException as exception:
        return error(*from_exception(exception, effect=effect))


def _text(body: dict[str, Any], notes: set[str]) -> str:
    return jsontext.canonical(body | {"note": " ".join(sorted(notes))} if notes else body)


def _texts(*values: object) -> bool:
    return all(isinstance(value, str) for value in values)


def _cut(value: JsonValue, max_bytes: int) -> JsonValue:
    text = jsontext.canonical(value)
    if jsontext.size(text) <= max_bytes:
        return value
    if isinstance(value, str):
        text = value
    marker = f"\n[cut here: {jsontext.size(text)} bytes in all, the whole is in the journal]"
    room = max(0, max_bytes - jsontext.size(jsontext.canonical(marker)))
    return _prefix(text, room) + marker


def _prefix(text: str, room: int) -> str:
    """The longest beginning of `text` whose canonical JSON has at most `room` bytes between its quotes."""
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        if jsontext.size(jsontext.canonical(text[:middle])) - 2 <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low]
