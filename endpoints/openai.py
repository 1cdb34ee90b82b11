"""OpenAI-compatible chat completions: build a request, parse a reply (both pure), and the endpoint that does so.
The format is OpenAI's; Ollama, vLLM and llama.cpp serve it too, each with its own deviations."""

from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from endpoints.base import Reply, Request
from endpoints.config import OpenAIConfig
from endpoints.reading import RawCall, RawTurn, TurnRefused, judged, usage_of
from endpoints.sending import schema, sent_name, visible
from endpoints.server import ServerEndpoint
from longshift import jsontext
from longshift.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from longshift.tools import ToolSpec

_INCOMPLETE = {
    "length": "the reply was cut at the output limit (finish_reason length); raise output_tokens",
    "content_filter": "the reply was held back by the server's content filter (finish_reason content_filter)",
    "function_call": "the reply uses the legacy function_call; the server must offer tool_calls",
}


class OpenAIEndpoint(ServerEndpoint[OpenAIConfig]):
    """An endpoint that speaks chat completions."""

    def __init__(self, name: str, config: OpenAIConfig) -> None:
        super().__init__(name, config, build_body, parse_reply)


def build_body(
    config: OpenAIConfig, messages: Sequence[Message], tools: Sequence[ToolSpec], output_tokens: int
) -> dict[str, Any]:
    """The request's JSON: `messages` and `tools` in OpenAI's format, with an allowance of `output_tokens`."""
    body: dict[str, Any] = {
        "model": config.model,
        "messages": [_sent(message) for message in messages],
        "stream": False,
        config.output_limit_field: output_tokens,
    }
    if tools:
        body["tools"] = [_offered(tool) for tool in tools]
    for field in ("reasoning_effort", "temperature", "seed"):
        if (value := getattr(config, field)) is not None:
            body[field] = value
    return body


def _sent(message: Message) -> dict[str, Any]:
    match message:
        case SystemMessage() | UserMessage():
            return {"role": message.role, "content": message.content}
        case AssistantMessage(calls=()):
            return {"role": "assistant", "content": message.content}
        case AssistantMessage():
            calls = [_asked(call) for call in message.calls]
            return {"role": "assistant", "content": message.content or None, "tool_calls": calls}
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.call_id, "content": visible(message.content)}


def _asked(call: ToolCall) -> dict[str, Any]:
    # Servers read the arguments of a call that is sent back to them, and refuse the whole request for bad ones.
    # Malformed arguments go back as none at all; what was wrong stands in the call's observation.
    function = {"name": sent_name(call.name), "arguments": jsontext.canonical(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _offered(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": schema(tool)},
    }


def parse_reply(name: str, config: OpenAIConfig, reply: JsonValue, request: Request) -> Reply:
    """The turn that `reply`, the JSON of a chat completion, is.

    Raises CallFailed of kind `invalid_turn`, and nothing else, for what is not one complete, valid turn.
    """
    usage = usage_of(reply, "completion_tokens", "prompt_tokens")
    return judged(
        name, lambda: _understood(reply), usage, request, price=config.price, own_ids=config.call_ids == "own"
    )


def _understood(reply: JsonValue) -> RawTurn:
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list):
        raise TurnRefused("the reply is no chat completion: it has no list of choices; check the endpoint's url")
    if len(choices) != 1 or not isinstance(choices[0], dict):
        raise TurnRefused(f"the reply has {len(choices)} choices where one was asked for")
    choice = choices[0]
    message = choice.get("message")
    if not isinstance(message, dict) or message.get("role") not in (None, "assistant"):
        raise TurnRefused("the reply's choice holds no assistant message")
    if message.get("refusal"):
        raise TurnRefused("the model refused to answer (refusal)")
    # Accepted: the legacy field beside the calls that it repeats, as llama-cpp-python sends it.
    if message.get("function_call") and not message.get("tool_calls"):
        raise TurnRefused(_INCOMPLETE["function_call"])
    # Accepted: "stop" beside calls. Calls decide; a reason that says cut, filtered or anything else unknown does not.
    reason = choice.get("finish_reason")
    if reason not in ("stop", "tool_calls"):
        raise TurnRefused(_INCOMPLETE.get(str(reason), "the reply's finish_reason is neither stop nor tool_calls"))
    calls = _raw_calls(message.get("tool_calls"))
    if reason == "tool_calls" and not calls:
        raise TurnRefused("the reply announces tool calls and holds none")
    return RawTurn(content=_content(message.get("content")), calls=calls, stop_reason=str(reason))


def _content(value: JsonValue) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text_part(part) for part in value)  # accepted: text in parts, as some gateways send it
    raise TurnRefused("the reply's content is no text")


def _text_part(part: JsonValue) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    if not isinstance(text, str):  # leaving out a part of another type would lose it
        raise TurnRefused("the reply's content holds a part that is no text")
    return text


def _raw_calls(value: JsonValue) -> list[RawCall]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise TurnRefused("the reply's tool_calls are no list")
    calls = []
    for position, call in enumerate(value, start=1):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict) or call.get("type") not in (None, "function"):
            raise TurnRefused(f"call {position} is no call of a function")
        calls.append(RawCall(call.get("id"), function.get("name"), function.get("arguments")))
    return calls
