"""The transcript of a run by steps, of a size that is bounded. Pure.

A page that is to be opened by a browser holds at most MAX_PARTS messages, model calls and tool calls, and about
MAX_BYTES of their texts. Past that the middle of the run is left out, and all texts are cut shorter; both are said
where they were done, with the command that shows the whole.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import escape

from client.inert import inert
from client.recorded import RecordedCall
from client.report.records import Call, Confirmed, Records
from longshift import jsontext
from longshift.context import Excerpt

MAX_PARTS = 25_000
"""Messages, model calls and tool calls on a page."""
MAX_BYTES = 24 * 1024 * 1024
"""Bytes of their texts, as HTML."""
MAX_CHARACTERS = 20_000
"""Characters shown of one text, where there is room."""
MIN_CHARACTERS = 100
"""Characters shown of one text in any case."""
BLOCK = 100
"""Steps that are folded together where there are many."""


@dataclass(frozen=True)
class Text:
    """A text from outside, perhaps cut."""

    text: str
    left_out: int = 0
    """Characters that are not shown."""


@dataclass(frozen=True)
class ToolPart:
    """A tool call of a step."""

    call: RecordedCall
    arguments: Text
    observation: Text | None
    outcome: str
    """How it came out, in one or two words."""
    well: bool
    """It was run, and brought a value."""


@dataclass(frozen=True)
class Step:
    """A model call, and the tool calls that it asked for."""

    number: int
    call: Call
    text: Text | None
    calls: Sequence[ToolPart]
    purpose: str
    """turn, summary or wrap-up."""
    entered: bool
    """Its reply became part of the transcript."""
    sent: str
    """What of the transcript it was sent, in words; empty where it was all."""


@dataclass(frozen=True)
class Said:
    """A message of the transcript that is no model's: instructions, and what users and Longshift said."""

    number: int
    role: str
    text: Text


@dataclass(frozen=True)
class Left:
    """Steps that are left out."""

    first: int
    last: int


Entry = Said | Step | Left


@dataclass(frozen=True)
class Asked:
    """A model call with its tool calls, as the journal has them."""

    call: Call
    tools: Sequence[RecordedCall]
    entered: bool
    """Its reply became part of the transcript."""


Planned = Confirmed | Asked | Left
"""What an entry is made of; its texts are not looked at before it is known that it is shown."""


@dataclass(frozen=True)
class Block:
    """Neighbouring entries that are folded together."""

    title: str
    entries: Sequence[Entry]


@dataclass(frozen=True)
class Transcript:
    """A run's transcript for a page."""

    blocks: Sequence[Block]
    characters: int
    """Characters shown of one text at most."""
    cut: int
    """Texts that are cut."""
    left: Left | None


def transcript(records: Records, max_parts: int = MAX_PARTS, max_bytes: int = MAX_BYTES) -> Transcript:
    """The transcript of a run.

    Args:
        max_parts: messages, model calls and tool calls to show at most.
        max_bytes: bytes of their texts as HTML to show, about.
    """
    planned, left = _within(list(_planned(records)), max_parts)
    characters = MAX_CHARACTERS
    shown = [_shown(one) for one in planned]
    while characters > MIN_CHARACTERS and sum(map(_bytes, shown)) > max_bytes:
        characters = max(MIN_CHARACTERS, characters // 2)
        shown = [_cut(entry, characters) for entry in shown]
    cut = sum(text.left_out > 0 for entry in shown for text in _texts(entry))
    return Transcript(list(_blocks(shown)), characters, cut, left)


def outcome(observation: str | None, state: str | None) -> tuple[str, bool]:
    """How a tool call came out, and whether it brought a value."""
    unknown = {"started": "under way, or its outcome is lost", "unknown": "unknown whether it happened"}
    if state in unknown:
        return unknown[state], False
    if state == "fenced" and observation is None:
        return "surely not run", False
    if observation is None:
        return "no observation", False
    body = _body(observation)
    if body is None:
        return "cannot be read", False
    error = body.get("error")
    if body.get("ok") is True:
        return "ok", True
    return f"error {error.get('kind', '')}" if isinstance(error, dict) else "error", False


def readable(content: str) -> str:
    """An observation as people read it: a text as it is, another value as JSON with line breaks."""
    body = _body(content)
    if body is None:
        return content
    value, note = body.get("value", body.get("error", body)), body.get("note")
    if "ok" not in body:
        value, note = body, None
    if isinstance(value, dict) and set(value) == {"kind", "message"} and body.get("ok") is False:
        text = f"{value['kind']}: {value['message']}"
    elif isinstance(value, str):
        text = value
    else:
        text = _lines(value)
    return f"{text}\n[note: {note}]" if note else text


def _lines(value: object) -> str:
    """A value as JSON with line breaks."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _body(content: str) -> Mapping[str, object] | None:
    try:
        found = jsontext.parse(content)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _planned(records: Records) -> Iterator[Planned]:
    """Everything, in the order in which the model met it."""
    turns = {message.turn for message in records.messages if message.turn is not None}
    if records.run.closed_at is None and records.model_calls:  # the latest one enters with what is asked next
        turns.add(records.model_calls[-1].row.number)
    asked: dict[int, list[RecordedCall]] = {}
    for one in records.tool_calls:
        asked.setdefault(one.model_call, []).append(one)
    others = [message for message in records.messages if _stands_alone(message)]
    place = 0
    for call in records.model_calls:
        while place < len(others) and others[place].number < call.row.context_length:
            yield others[place]
            place += 1
        yield Asked(call, asked.pop(call.row.number, []), call.row.number in turns)
    yield from others[place:]


def _shown(one: Planned) -> Entry:
    match one:
        case Confirmed():
            return _said(one)
        case Asked():
            return _step(one.call, one.tools, one.entered)
        case _:
            return one


def _stands_alone(message: Confirmed) -> bool:
    """Whether a message is neither a turn nor an observation, which stand in their steps."""
    return message.turn is None and message.role != "tool"


def _said(message: Confirmed) -> Said:
    found = message.message
    content = "(not in the journal)" if found is None else found.content
    return Said(message.number, message.role, _text(content))


def _step(call: Call, asked: Sequence[RecordedCall], entered: bool) -> Step:
    row, reply = call.row, call.reply
    summary = call.excerpt is not None and call.excerpt.until is not None
    text = _text(reply.content) if reply is not None and reply.content else None
    if reply is None and row.state == "answered":
        text = _text("(the reply is not in the journal)")
    return Step(
        number=row.number,
        call=call,
        text=text,
        calls=[_tool(one) for one in asked],
        purpose="turn" if row.tools else "summary" if summary else "wrap-up",
        entered=entered or summary or row.state != "answered",
        sent=_sent(call.excerpt),
    )


def _sent(excerpt: Excerpt | None) -> str:
    if excerpt is None or not excerpt.exchanges:
        return ""
    told = excerpt.summary
    by = f", told by the summary of model call {told.call}" if told else ""
    return f"the {excerpt.exchanges} oldest exchanges were left out of what it was sent{by}"


def _tool(call: RecordedCall) -> ToolPart:
    words, well = outcome(call.observation, call.state)
    if call.arguments is not None:
        arguments = _lines(call.arguments)
    else:
        arguments = call.malformed or f"not in the journal; SHA-256 {call.arguments_sha256}"
    told = None if call.observation is None else _text(readable(call.observation))
    return ToolPart(call, _text(arguments), told, words, well)


def _within(planned: list[Planned], parts: int) -> tuple[list[Planned], Left | None]:
    """The beginning, a tenth, and the end of too long a run, and what of it is left out."""
    sizes = [1 + len(one.tools) if isinstance(one, Asked) else 1 for one in planned]
    if sum(sizes) <= parts:
        return planned, None
    head, room = 0, parts // 10
    while sizes[head] <= room:
        room -= sizes[head]
        head += 1
    tail, room = len(planned), parts - parts // 10
    while tail > head and sizes[tail - 1] <= room:
        tail -= 1
        room -= sizes[tail]
    numbers = [one.call.row.number for one in planned[head:tail] if isinstance(one, Asked)]
    left = Left(min(numbers, default=0), max(numbers, default=0))
    return [*planned[:head], left, *planned[tail:]], left


def _cut(entry: Entry, characters: int) -> Entry:
    match entry:
        case Said():
            return replace(entry, text=_shorter(entry.text, characters))
        case Step():
            calls = [
                replace(
                    one,
                    arguments=_shorter(one.arguments, characters),
                    observation=None if one.observation is None else _shorter(one.observation, characters),
                )
                for one in entry.calls
            ]
            text = None if entry.text is None else _shorter(entry.text, characters)
            return replace(entry, text=text, calls=calls)
        case _:
            return entry


def _text(text: str) -> Text:
    return _shorter(Text(text), MAX_CHARACTERS)


def _shorter(text: Text, characters: int) -> Text:
    if len(text.text) <= characters:
        return text
    return Text(text.text[:characters], text.left_out + len(text.text) - characters)


def _texts(entry: Entry) -> list[Text]:
    match entry:
        case Said():
            return [entry.text]
        case Step():
            found = [entry.text, *(text for one in entry.calls for text in (one.arguments, one.observation))]
            return [text for text in found if text is not None]
        case _:
            return []


def _bytes(entry: Entry) -> int:
    """Bytes that its texts take on a page."""
    return sum(len(escape(inert(text.text, multiline=True)).encode("utf-8", "replace")) for text in _texts(entry))


def _blocks(entries: Sequence[Entry]) -> Iterator[Block]:
    steps = sum(isinstance(entry, Step) for entry in entries)
    if steps <= 2 * BLOCK:
        yield Block("", entries)
        return
    waiting: list[Entry] = []
    for entry in entries:
        waiting.append(entry)
        full = sum(isinstance(one, Step) for one in waiting) == BLOCK
        if full or isinstance(entry, Left):
            yield _block(waiting)
            waiting = []
    if waiting:
        yield _block(waiting)


def _block(entries: Sequence[Entry]) -> Block:
    numbers = [entry.number for entry in entries if isinstance(entry, Step)]
    title = f"Steps {numbers[0]} to {numbers[-1]}" if numbers else "Messages"
    return Block(title, list(entries))
