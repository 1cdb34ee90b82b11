"""Anthropic's Messages API: build a request, parse a reply (both pure), and the endpoint that does so."""

import re
from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from endpoints.base import Reply, Request
from endpoints.config import AnthropicConfig
from endpoints.reading import RawCall, RawTurn, TurnRefused, judged, usage_of
from endpoints.sending import EMPTY, schema, sent_name, visible
from endpoints.server import ServerEndpoint
from longshift import jsontext, observations
from longshift.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from longshift.tools import ToolSpec

VERSION = "2023-06-01"
"""The API's version, sent in the header anthropic-version; without it every request is refused."""

_COMPLETE = ("end_turn", "stop_sequence", "tool_use")
_INCOMPLETE = {
    "max_tokens": "the reply was cut at the output limit (stop_reason max_tokens); raise output_tokens",
    "model_context_window_exceeded": "the reply was cut at the end of the model's context "
    "(stop_reason model_context_window_exceeded); lower context_bytes",
    "pause_turn": "the server paused in the middle of a turn (stop_reason pause_turn)",
    "refusal": "the model refused to answer (stop_reason refusal)",
}


class AnthropicEndpoint(ServerEndpoint[AnthropicConfig]):
    """An endpoint that speaks Anthropic Messages."""

    def __init__(self, name: str, config: AnthropicConfig) -> None:
        headers = {"anthropic-version": VERSION}
        super().__init__(name, config, build_body, parse_reply, key_header=("x-api-key", ""), headers=headers)


def build_body(
    config: AnthropicConfig, messages: Sequence[Message], tools: Sequence[ToolSpec], output_tokens: int
) -> dict[str, Any]:
    """The request's JSON: `messages` and `tools` in Anthropic's format, with an allowance of `output_tokens`."""
    body: dict[str, Any] = {
        "model": config.model,
        "max_tokens": output_tokens,
        "messages": _turns(messages),
        "stream": False,
    }
    system = [message.content for message in messages if isinstance(message, SystemMessage)]
    if text := "\n\n".join(system).strip():
        body["system"] = text
    if tools:
        body["tools"] = [_offered(tool) for tool in tools]
    if config.thinking is not None:
        body["thinking"] = {"type": config.thinking}
    return body


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The transcript as turns of the user and of the assistant, in alternation; the first is the user's.

    Neighbours of one role are one turn. So all observations of a batch stand in the turn after it, before whatever a
    person said since, as the API demands. A message that says nothing and asks for nothing is left out.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        blocks = _blocks(message)
        if not blocks:
            continue
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        if not turns and role == "assistant":
            turns.append({"role": "user", "content": [_text(EMPTY)]})
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message) -> list[dict[str, Any]]:
    match message:
        case SystemMessage():
            return []
        case UserMessage():
            return [_text(visible(message.content))]
        case AssistantMessage():
            said = [_text(message.content)] if message.content.strip() else []
            return said + [_asked(call) for call in message.calls]
        case ToolMessage():
            return [_observed(message)]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _asked(call: ToolCall) -> dict[str, Any]:
    # Malformed arguments go back as none at all; what was wrong stands in the call's observation.
    return {"type": "tool_use", "id": _sent_id(call.id), "name": sent_name(call.name), "input": call.arguments}


def _observed(message: ToolMessage) -> dict[str, Any]:
    block = {
        "type": "tool_result",
        "tool_use_id": _sent_id(message.call_id),
        "content": visible(message.content),
    }
    return block | {"is_error": True} if _failed(message.content) else block


def _failed(content: str) -> bool:
    try:
        return observations.kind_of(content) != "ok"
    except ValueError:  # no observation, so it says nothing of a failure
        return False


def _sent_id(call_id: str) -> str:
    """The id itself, or its digest where the API refuses it, as it does one of another server in the caller's messages
    (`functions.look_up:0`)."""
    return call_id if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call_id) else jsontext.sha256(call_id)


def _offered(tool: ToolSpec) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description.strip() else {}
    return {"name": tool.name, **described, "input_schema": schema(tool)}


def parse_reply(name: str, config: AnthropicConfig, reply: JsonValue, request: Request) -> Reply:
    """The turn that `reply`, the JSON of a message, is.

    Raises CallFailed of kind `invalid_turn`, and nothing else, for what is not one complete, valid turn.
    """
    cached = ("cache_creation_input_tokens", "cache_read_input_tokens")
    usage = usage_of(reply, "output_tokens", "input_tokens", *cached)
    return judged(
        name, lambda: _understood(reply), usage, request, price=config.price, own_ids=config.call_ids == "own"
    )


def _understood(reply: JsonValue) -> RawTurn:
    content = reply.get("content") if isinstance(reply, dict) else None
    if not isinstance(reply, dict) or not isinstance(content, list) or reply.get("type") not in (None, "message"):
        raise TurnRefused("the reply is no message: it has no list of content blocks; check the endpoint's url")
    if reply.get("role") not in (None, "assistant"):
        raise TurnRefused("the reply holds no assistant message")
    # Accepted: calls beside "end_turn" and "stop_sequence". Calls decide; a reason that says cut, refused or anything
    # else unknown does not.
    reason = reply.get("stop_reason")
    if reason not in _COMPLETE:
        other = "the reply's stop_reason is none of end_turn, stop_sequence and tool_use"
        raise TurnRefused(_INCOMPLETE.get(str(reason), other))
    texts, calls = _read(content)
    if reason == "tool_use" and not calls:
        raise TurnRefused("the reply announces tool calls and holds none")
    return RawTurn(content="".join(texts), calls=calls, stop_reason=str(reason))


def _read(content: list[JsonValue]) -> tuple[list[str], list[RawCall]]:
    """The texts and the calls of a reply.

    Thinking is left out: it is no part of the answer, and the API takes the turn back without it, unless the request
    sets a budget for thinking, which none of ours does.
    """
    texts, calls = [], []
    for block in content:
        fields = block if isinstance(block, dict) else {}
        kind, text = fields.get("type"), fields.get("text")
        if kind == "text" and isinstance(text, str):
            texts.append(text)
        elif kind == "tool_use":
            calls.append(RawCall(fields.get("id"), fields.get("name"), fields.get("input"), in_text=False))
        elif kind not in ("thinking", "redacted_thinking"):  # leaving out a block of another type would lose it
            raise TurnRefused("the reply's content holds a block that is neither text nor a call of a tool")
    return texts, calls
