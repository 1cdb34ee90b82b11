"""The rules for reading a reply that hold whatever the endpoint's format: calls, their arguments, reported usage.

Each deviation that is accepted is one that real servers are known for and that loses nothing; it is named at the line
that accepts it. Everything else is refused, whole: no call of a refused reply is run.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from pydantic import JsonValue

from endpoints.answers import failure
from endpoints.base import Reply, Request
from endpoints.config import Price, cost
from longshift import jsontext
from longshift.messages import AssistantMessage, ToolCall
from longshift.turns import MAX_CALLS, MAX_ID_BYTES, CallFailed, Usage

MAX_MALFORMED = 2000
"""Characters kept of arguments that are no JSON object, for the model to see what it sent."""
MAX_TOKENS = 10**12
"""A reported token count above this is nonsense, and would not fit where money is counted."""


class TurnRefused(Exception):
    """A reply that is not one complete, valid turn; the text says why and holds nothing that the server wrote."""


@dataclass(frozen=True)
class RawCall:
    """A call as it stands in a reply, not yet judged."""

    id: JsonValue
    name: JsonValue
    arguments: JsonValue
    in_text: bool = True
    """Whether the format gives arguments as JSON text; if not, text that is not blank is no object."""


@dataclass(frozen=True)
class RawTurn:
    """A reply whose format is understood and whose calls are not yet judged."""

    content: str
    calls: Sequence[RawCall]
    stop_reason: str


def judged(
    name: str,
    understand: Callable[[], RawTurn],
    usage: Usage,
    request: Request,
    *,
    price: Price | None = None,
    own_ids: bool = False,
) -> Reply:
    """The turn that a reply is.

    Args:
        name: the endpoint's, for errors.
        understand: reads the reply's format; raises TurnRefused.
        usage: what the reply reports.
        request: what it answers.
        price: the operator's price, where there is one.
        own_ids: the setting `call_ids = "own"`.

    Raises CallFailed of kind `invalid_turn`, with usage and cost: a reply that was received is charged.
    """
    charged = cost(usage, price, allowed=request.output_tokens, estimate=request.estimate)
    try:
        raw = understand()
        calls = _calls(raw.calls, request, usage, own_ids=own_ids)
    except TurnRefused as refused:
        invalid = failure(name, "invalid_turn", str(refused), transient=False)
        raise CallFailed(invalid.model_copy(update={"usage": usage, "cost": charged})) from None
    message = AssistantMessage(content=raw.content, calls=calls)
    return Reply(message=message, stop_reason=raw.stop_reason, usage=usage, cost=charged)


def usage_of(reply: JsonValue, output: str, input_: str, *cached: str) -> Usage:
    """The usage in a reply, from the fields of its `usage` that these names are of.

    Args:
        reply: the whole reply.
        output: names the output tokens.
        input_: names the input tokens.
        cached: names of input tokens that the format counts apart, and that are counted in here; null is none.
    """
    reported = reply.get("usage") if isinstance(reply, dict) else None
    if not isinstance(reported, dict):
        return Usage() if reported is None else invalid_usage(reported)
    parts = [reported.get(input_), *(reported[name] for name in cached if reported.get(name) is not None)]
    counts = [part for part in parts if _is_count(part)]
    return read_usage(reported.get(output), sum(counts) if len(counts) == len(parts) else None)


def read_usage(output: JsonValue, input_: JsonValue) -> Usage:
    """Token counts as reported.

    Args:
        output: output tokens. Null is "not reported"; what is no integer from 0 up (a boolean, a fraction, a float, a
            string, a negative) is kept as `invalid`, which ends the run.
        input_: input tokens, cached ones included. Nonsense counts as not reported: it bounds nothing, and a call
            without them costs at least its estimate.
    """
    input_tokens = input_ if _is_count(input_) else None
    if output is None or _is_count(output):
        return Usage(output_tokens=output, input_tokens=input_tokens)
    return invalid_usage(output).model_copy(update={"input_tokens": input_tokens})


def invalid_usage(reported: JsonValue) -> Usage:
    """Usage that makes no sense, with what was reported, cut to 40 characters."""
    return Usage(invalid=json.dumps(reported, ensure_ascii=False)[:40])


def _is_count(value: JsonValue) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS


def _calls(raw: Sequence[RawCall], request: Request, usage: Usage, *, own_ids: bool) -> tuple[ToolCall, ...]:
    if len(raw) > MAX_CALLS:
        raise TurnRefused(f"the reply asks for {len(raw)} tool calls; at most {MAX_CALLS} are taken in one turn")
    calls = []
    for position, call in enumerate(raw):
        id_ = request.own_id(position) if own_ids else _id(call.id, position, request)
        name = _text(call.name, "name", position)
        arguments = _arguments(call)
        if arguments is not None:
            calls.append(ToolCall(id=id_, name=name, arguments=arguments))
        elif (usage.output_tokens or 0) >= request.output_tokens:
            raise TurnRefused(f"the reply is cut at its {request.output_tokens} output tokens; raise output_tokens")
        elif request.observe_malformed:
            calls.append(ToolCall(id=id_, name=name, malformed=_shown(call.arguments)))
        else:
            raise TurnRefused(
                f"the arguments of call {position + 1} are not one JSON object; "
                'with malformed_calls = "observe" the model is told and may try again'
            )
    return tuple(calls)


def _id(value: JsonValue, position: int, request: Request) -> str:
    # Accepted: a call without an id (missing, null, empty, blank); it gets one of ours.
    if value is None or (isinstance(value, str) and not value.strip()):
        return request.own_id(position)
    return _text(value, "id", position)


def _text(value: JsonValue, field: str, position: int) -> str:
    # Any text is a name here: one that no tool has, even the empty one, is an unknown tool, which the model can mend.
    if not isinstance(value, str) or jsontext.size(value) > MAX_ID_BYTES:
        raise TurnRefused(f"the {field} of call {position + 1} is not a text of at most {MAX_ID_BYTES} bytes")
    return value


def _arguments(call: RawCall) -> dict[str, JsonValue] | None:
    """The arguments object, or None where there is not exactly one."""
    value = call.arguments
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}  # accepted: no arguments as a missing key, null, an empty or a blank string
    if isinstance(value, str) and call.in_text:
        try:
            value = jsontext.parse(value)
        except jsontext.JsonRefused:
            return None
    return value if isinstance(value, dict) else None  # accepted: the object itself in place of its text


def _shown(value: JsonValue) -> str:
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:MAX_MALFORMED]
