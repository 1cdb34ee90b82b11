"""What is sent to a server of chat completions."""

import json

import pytest

from endpoints.config import OpenAIConfig
from endpoints.openai import OpenAIEndpoint, build_body
from endpoints.sending import EMPTY
from longshift.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from longshift.tools import ToolSpec
from tests.endpoints.raw_server import completion, raw_server, reply
from tests.endpoints.requests import MESSAGES, TOOL, request

CONFIG = OpenAIConfig(url="http://127.0.0.1:1/v1", model="small")


def test_the_transcript_the_tools_and_the_allowance_are_sent() -> None:
    assert build_body(CONFIG, MESSAGES, (TOOL,), 64) == {
        "model": "small",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look at the stock."},
        ],
        "stream": False,
        "max_tokens": 64,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "list_stock",
                    "description": "Every product.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
    }


def test_without_tools_the_request_has_no_tools_key() -> None:
    assert "tools" not in build_body(CONFIG, MESSAGES, (), 64)


def test_a_tool_without_a_schema_is_offered_as_one_without_arguments() -> None:
    (offered,) = build_body(CONFIG, MESSAGES, (ToolSpec(name="now"),), 64)["tools"]
    assert offered["function"]["parameters"] == {"type": "object", "properties": {}}


def test_settings_are_sent_only_where_they_are_set() -> None:
    config = CONFIG.model_copy(
        update={
            "output_limit_field": "max_completion_tokens",
            "reasoning_effort": "none",
            "temperature": 0.0,
            "seed": 0,
        }
    )
    body = build_body(config, MESSAGES, (), 64)
    assert body["max_completion_tokens"] == 64
    assert "max_tokens" not in body
    assert (body["reasoning_effort"], body["temperature"], body["seed"]) == ("none", 0.0, 0)
    assert not {"reasoning_effort", "temperature", "seed"} & build_body(CONFIG, MESSAGES, (), 64).keys()


def test_calls_and_their_observations_keep_their_ids_and_their_order() -> None:
    calls = (ToolCall(id="a", name="product", arguments={"sku": "ü", "n": 1}), ToolCall(id="b", name="list_stock"))
    messages = (
        AssistantMessage(content="", calls=calls),
        ToolMessage(call_id="a", name="product", content='{"ok":true,"value":"a|b\\nc"}'),
        ToolMessage(call_id="b", name="list_stock", content=" "),
        AssistantMessage(content="I see.", calls=calls[:1]),
        AssistantMessage(content="Done."),
    )
    first, second, third, fourth, last = build_body(CONFIG, messages, (), 64)["messages"]
    assert first == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "product", "arguments": '{"n":1,"sku":"ü"}'}},
            {"id": "b", "type": "function", "function": {"name": "list_stock", "arguments": "{}"}},
        ],
    }
    assert second == {"role": "tool", "tool_call_id": "a", "content": '{"ok":true,"value":"a|b\\nc"}'}
    assert third == {"role": "tool", "tool_call_id": "b", "content": EMPTY}
    assert fourth["content"] == "I see."
    assert last == {"role": "assistant", "content": "Done."}


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("list_stock", "list_stock"),
        ("list stock!", "list_stock_"),
        ("", "unnamed"),
        ("a.b/c", "a_b_c"),
        ("x" * 99, "x" * 64),
    ],
)
def test_a_name_no_server_takes_goes_back_in_a_form_it_does(name: str, sent: str) -> None:
    message = AssistantMessage(content="", calls=(ToolCall(id="a", name=name),))
    assert build_body(CONFIG, (message,), (), 64)["messages"][0]["tool_calls"][0]["function"]["name"] == sent


def test_malformed_arguments_go_back_as_an_empty_object() -> None:
    message = AssistantMessage(content="", calls=(ToolCall(id="a", name="product", malformed='{"sku": '),))
    function = build_body(CONFIG, (message,), (), 64)["messages"][0]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == {}


@pytest.mark.asyncio
async def test_an_endpoint_sends_to_chat_completions_and_parses_what_comes_back() -> None:
    call = {"id": "c-1", "type": "function", "function": {"name": "list_stock", "arguments": "{}"}}
    answer = reply(json.dumps(completion(content=None, tool_calls=[call])))
    async with raw_server(answer) as server:
        endpoint = OpenAIEndpoint("shop", OpenAIConfig(url=server.url + "/", model="small"))
        messages = (SystemMessage(content="Ü"), UserMessage(content="two\nlines | pipe"))
        turn = await endpoint.send(request(messages))
        await endpoint.close()
    assert server.requests[0][0] == "POST /v1/chat/completions HTTP/1.1"
    assert [message["content"] for message in server.sent_json()["messages"]] == ["Ü", "two\nlines | pipe"]
    assert turn.message == AssistantMessage(content="", calls=(ToolCall(id="c-1", name="list_stock"),))
    assert turn.stop_reason == "tool_calls"
    assert (turn.usage.output_tokens, turn.usage.input_tokens) == (3, 7)
