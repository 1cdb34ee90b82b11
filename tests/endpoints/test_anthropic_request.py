"""What is sent to Anthropic's Messages API."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.anthropic import VERSION, AnthropicEndpoint, build_body
from endpoints.config import AnthropicConfig
from endpoints.sending import EMPTY
from longshift import jsontext, observations
from longshift.episode import validate_episode
from longshift.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from longshift.tools import ToolSpec
from longshift.turns import CallFailed, ModelFailure
from tests.endpoints.raw_server import Answer, raw_server, reply
from tests.endpoints.requests import MESSAGES, TOOL, request

CONFIG = AnthropicConfig(url="http://127.0.0.1:1", model="large")
TEXT = json.dumps(
    {
        "id": "msg_01", "type": "message", "role": "assistant", "model": "large",
        "content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }
)  # fmt: skip


def user(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def assistant(*texts: str) -> dict[str, Any]:
    return user(*texts) | {"role": "assistant"}


def observed(call_id: str, content: str) -> ToolMessage:
    return ToolMessage(call_id=call_id, name="product", content=content)


def turns(*messages: Message) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = build_body(CONFIG, messages, (), 64)["messages"]
    return sent


def test_the_transcript_the_tools_and_the_allowance_are_sent() -> None:
    assert build_body(CONFIG, MESSAGES, (TOOL,), 64) == {
        "model": "large",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Look at the stock."}]}],
        "stream": False,
        "system": "Be brief.",
        "tools": [
            {
                "name": "list_stock",
                "description": "Every product.",
                "input_schema": {"type": "object", "properties": {}},
            }
        ],
    }


@pytest.mark.parametrize("messages", [MESSAGES[1:], (SystemMessage(content=" \n"), *MESSAGES[1:])])
def test_without_instructions_the_request_has_no_system_key(messages: tuple[Message, ...]) -> None:
    assert "system" not in build_body(CONFIG, messages, (), 64)


def test_without_tools_the_request_has_no_tools_key() -> None:
    assert "tools" not in build_body(CONFIG, MESSAGES, (), 64)


def test_a_tool_without_a_schema_or_a_description_is_offered_without() -> None:
    (offered,) = build_body(CONFIG, MESSAGES, (ToolSpec(name="now"),), 64)["tools"]
    assert offered == {"name": "now", "input_schema": {"type": "object", "properties": {}}}


def test_thinking_is_turned_off_where_that_is_set_and_is_else_not_spoken_of() -> None:
    off = CONFIG.model_copy(update={"thinking": "disabled"})
    assert build_body(off, MESSAGES, (), 64)["thinking"] == {"type": "disabled"}
    assert "thinking" not in build_body(CONFIG, MESSAGES, (), 64)


def test_all_observations_of_a_batch_go_back_in_one_user_message_by_id_and_in_order() -> None:
    calls = (
        ToolCall(id="toolu_a", name="product", arguments={"sku": "ü", "n": 1}),
        ToolCall(id="toolu_b", name="product"),
    )
    good, bad = observations.ok("a|b\nc"), observations.error("not_found", "There is no such product.")
    asked, answered = turns(
        UserMessage(content="Look."),
        AssistantMessage(content="I see.", calls=calls),
        observed("toolu_a", good),
        observed("toolu_b", bad),
    )[1:]
    assert asked == {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I see."},
            {"type": "tool_use", "id": "toolu_a", "name": "product", "input": {"sku": "ü", "n": 1}},
            {"type": "tool_use", "id": "toolu_b", "name": "product", "input": {}},
        ],
    }
    assert answered == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_a", "content": good},
            {"type": "tool_result", "tool_use_id": "toolu_b", "content": bad, "is_error": True},
        ],
    }


def test_what_a_person_said_since_stands_after_the_observations_in_the_same_message() -> None:
    sent = turns(
        UserMessage(content="Look."),
        AssistantMessage(content="", calls=(ToolCall(id="a", name="product"),)),
        observed("a", observations.ok(1)),
        UserMessage(content="Hurry."),
        UserMessage(content="Please."),
    )
    assert [turn["role"] for turn in sent] == ["user", "assistant", "user"]
    first, *others = sent[-1]["content"]
    assert first["type"] == "tool_result"
    assert others == user("Hurry.", "Please.")["content"]


def test_users_messages_next_to_each_other_are_one() -> None:
    assert turns(UserMessage(content="Look."), UserMessage(content="Hurry.")) == [user("Look.", "Hurry.")]


def test_an_answer_and_what_follows_it_stay_apart() -> None:
    sent = turns(UserMessage(content="Look."), AssistantMessage(content="Done."), UserMessage(content="And?"))
    assert sent == [user("Look."), assistant("Done."), user("And?")]


def test_empty_text_is_never_sent() -> None:
    sent = turns(
        UserMessage(content=" "),
        AssistantMessage(content="\n"),
        UserMessage(content="And?"),
        AssistantMessage(content=" ", calls=(ToolCall(id="a", name="product"),)),
        observed("a", " "),
    )
    assert sent == [
        user(EMPTY, "And?"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "product", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": EMPTY}]},
    ]


def test_a_transcript_that_an_assistant_begins_is_sent_as_one_that_a_user_does() -> None:
    sent = turns(AssistantMessage(content="Hello."), UserMessage(content="Look."))
    assert sent == [user(EMPTY), assistant("Hello."), user("Look.")]


def test_an_id_or_a_name_that_the_api_refuses_goes_back_in_a_form_it_takes() -> None:
    ids = ("functions.look_up:0", "functions_look_up_0", "x" * 65)
    calls = tuple(ToolCall(id=id_, name="a.b/c", malformed="{") for id_ in ids)
    asked, answered = turns(
        UserMessage(content="Look."),
        AssistantMessage(content="", calls=calls),
        *(observed(id_, observations.ok(1)) for id_ in ids),
    )[1:]
    uses, results = json.loads(json.dumps([asked["content"], answered["content"]]))
    assert [use["id"] for use in uses] == [result["tool_use_id"] for result in results]
    assert [use["id"] for use in uses] == [jsontext.sha256(ids[0]), ids[1], jsontext.sha256(ids[2])]
    assert {use["name"] for use in uses} == {"a_b_c"}
    assert all(use["input"] == {} for use in uses)


@st.composite
def episodes(draw: st.DrawFn) -> list[Message]:
    """Valid transcripts, as a run has them when it asks a model."""
    said = st.sampled_from(["", " ", "Yes.", "line\n"])
    messages: list[Message] = [SystemMessage(content=draw(said))] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(1, 5))):
        messages += [UserMessage(content=draw(said)) for _ in range(draw(st.integers(1, 2)))]
        count = draw(st.integers(0, 3))
        ids = [f"{draw(st.sampled_from(['toolu_', 'f.x:']))}{turn}-{position}" for position in range(count)]
        calls = tuple(ToolCall(id=id_, name="product") for id_ in ids)
        messages.append(AssistantMessage(content=draw(said), calls=calls))
        messages += [
            observed(id_, draw(st.sampled_from([observations.ok(1), observations.error("x", "y")]))) for id_ in ids
        ]
    return [*messages, UserMessage(content=draw(said))]


@given(episodes())
def test_any_episode_becomes_turns_that_the_api_takes(messages: list[Message]) -> None:
    assert validate_episode(messages).valid
    sent = json.loads(json.dumps(turns(*messages)))
    assert [turn["role"] for turn in sent] == ["user", "assistant"] * (len(sent) // 2) + ["user"]
    open_ids: list[str] = []
    for turn in sent:
        blocks = turn["content"]
        assert blocks
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        results = blocks[: len(open_ids)]
        assert [block.get("tool_use_id") for block in results] == open_ids, "each result at once, first, and in order"
        assert all(block["type"] != "tool_result" for block in blocks[len(open_ids) :])
        open_ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert not open_ids


async def send(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> ModelFailure:
    monkeypatch.setenv("SHOP_KEY", "key-123")
    async with raw_server(answer) as server:
        url = server.url.removesuffix("/v1")
        endpoint = AnthropicEndpoint("shop", AnthropicConfig(url=url, model="large", api_key_env="SHOP_KEY"))
        with pytest.raises(CallFailed) as caught:
            await endpoint.send(request())
        await endpoint.close()
        assert len(server.requests) == 1
    return caught.value.failure


@pytest.mark.asyncio
async def test_an_endpoint_sends_to_messages_with_its_key_and_version_and_parses_what_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_KEY", "key-123")
    async with raw_server(reply(TEXT)) as server:
        url = server.url.removesuffix("/v1") + "/"
        endpoint = AnthropicEndpoint("shop", AnthropicConfig(url=url, model="large", api_key_env="SHOP_KEY"))
        turn = await endpoint.send(request((SystemMessage(content="Ü"), UserMessage(content="two\nlines | pipe"))))
        await endpoint.close()
    line, headers, _ = server.requests[0]
    assert line == "POST /v1/messages HTTP/1.1"
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("key-123", VERSION)
    assert "authorization" not in headers
    assert server.sent_json()["system"] == "Ü"
    assert server.sent_json()["messages"] == [user("two\nlines | pipe")]
    assert (turn.message.content, turn.stop_reason) == ("Done.", "end_turn")
    assert (turn.usage.output_tokens, turn.usage.input_tokens) == (3, 7)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("status", "kind", "message", "transient", "words"),
    [
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", False, "context_bytes"),
        (400, "invalid_request_error", "tools.0.custom.input_schema: JSON schema is invalid", False, "schema of"),
        (400, "invalid_request_error", "Your credit balance is too low to access the API.", False, "quota is spent"),
        (401, "authentication_error", "invalid x-api-key", False, "api_key_env"),
        (402, "billing_error", "There is a billing issue.", False, "payment"),
        (403, "permission_error", "Not allowed.", False, "denied"),
        (404, "not_found_error", "model: large", False, "model"),
        (413, "request_too_large", "Request exceeds the maximum size", False, "context_bytes"),
        (429, "rate_limit_error", "This request would exceed your rate limit.", True, "429"),
        (500, "api_error", "Internal server error", True, "500"),
        (529, "overloaded_error", "Overloaded", True, "529"),
        (200, "overloaded_error", "Overloaded", True, "error object"),
    ],
)  # fmt: skip
async def test_an_error_of_the_api_is_transient_or_final_and_says_what_to_do(
    status: int, kind: str, message: str, transient: bool, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_01"}
    failure = await send(reply(json.dumps(body), status, {"Retry-After": "2"}), monkeypatch)
    assert (failure.kind, failure.transient) == ("status", transient)
    assert failure.retry_after == (2.0 if transient and status != 200 else None)
    assert words in failure.message
    assert message not in failure.message
