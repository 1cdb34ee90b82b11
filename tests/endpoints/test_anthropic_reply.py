"""Which replies of Anthropic's Messages API are a turn, and which are refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.anthropic import parse_reply
from endpoints.base import Reply
from endpoints.config import AnthropicConfig, Price
from longshift.messages import ToolCall
from longshift.turns import MAX_CALLS, MAX_ID_BYTES, CallFailed, ModelFailure
from tests.endpoints.any_json import ANY_JSON, one_of
from tests.endpoints.requests import request

CONFIG = AnthropicConfig(
    url="http://127.0.0.1:1",
    model="large",
    price=Price(input_cents_per_million=15, output_cents_per_million=60),
)
MISSING = object()


def text(words: Any = "Done.") -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(input_: Any = MISSING, **changes: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "toolu_01", "name": "product", "input": input_, **changes}
    return {key: value for key, value in block.items() if value is not MISSING}


def message(*content: Any, **changes: Any) -> dict[str, Any]:
    """A good message, in the shape the API documents; `changes` are to its keys."""
    calls = any(isinstance(block, dict) and block.get("type") == "tool_use" for block in content)
    whole = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "large",
        "content": list(content),
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 7,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 3,
            "service_tier": "standard",
        },
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not MISSING}


def parse(reply: Any, config: AnthropicConfig = CONFIG, **changes: Any) -> Reply:
    return parse_reply("shop", config, reply, request(**changes))


def refused(reply: Any, **changes: Any) -> ModelFailure:
    with pytest.raises(CallFailed) as caught:
        parse(reply, **changes)
    failure = caught.value.failure
    assert (failure.kind, failure.transient) == ("invalid_turn", False)
    assert failure.message.startswith("endpoint 'shop': ")
    return failure


def test_text_is_a_turn() -> None:
    turn = parse(message(text()))
    assert (turn.message.content, turn.message.calls, turn.stop_reason) == ("Done.", (), "end_turn")
    assert turn.cost == 3  # 7 tokens at 0.15 and 3 at 0.60 micro-USD: 2.85


def test_text_blocks_are_joined() -> None:
    cited = text("ne.") | {"citations": None}
    assert parse(message(text("Do"), cited)).message.content == "Done."


def test_no_content_is_empty_text() -> None:
    assert parse(message()).message.content == ""


def test_text_beside_calls_is_kept() -> None:
    turn = parse(message(text("I look."), use({"sku": "a"}), use({}, id="toolu_02", name="list_stock")))
    assert (turn.message.content, turn.stop_reason) == ("I look.", "tool_use")
    assert turn.message.calls == (
        ToolCall(id="toolu_01", name="product", arguments={"sku": "a"}),
        ToolCall(id="toolu_02", name="list_stock"),
    )


@pytest.mark.parametrize(
    "thought",
    [
        {"type": "thinking", "thinking": "They want stock.", "signature": "EqQB"},
        {"type": "thinking", "thinking": "", "signature": "EqQB"},
        {"type": "redacted_thinking", "data": "EmwK"},
    ],
)
def test_thinking_is_no_text(thought: dict[str, str]) -> None:
    assert parse(message(thought, text())).message.content == "Done."
    assert parse(message(thought)).message.content == ""
    assert len(parse(message(thought, use({}))).message.calls) == 1


@pytest.mark.parametrize(
    "block",
    [
        None, 5, "Done.", [], {}, {"text": "Done."}, {"type": "text"}, text(None), text(5), {"type": ["text"]},
        {"type": "image", "source": {}}, {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search"},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_01", "content": []},
    ],
)  # fmt: skip
def test_a_block_of_another_type_is_refused(block: Any) -> None:
    assert "block that is neither text nor a call" in refused(message(text(), block)).message


# Accepted deviations.


@pytest.mark.parametrize("input_", [MISSING, None, "", "  "])
def test_no_input_is_no_arguments(input_: Any) -> None:
    assert parse(message(use(input_))).message.calls[0].arguments == {}


@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence"])
def test_calls_beside_another_complete_reason_are_taken(reason: str) -> None:
    turn = parse(message(use({}), stop_reason=reason))
    assert (len(turn.message.calls), turn.stop_reason) == (1, reason)


@pytest.mark.parametrize("missing", [MISSING, None, "", "  "])
def test_a_call_without_an_id_gets_one_of_ours(missing: Any) -> None:
    turn = parse(message(use({}), use({}, id=missing), use({}, id=missing)))
    assert [one.id for one in turn.message.calls] == ["toolu_01", "own-1", "own-2"]


@pytest.mark.parametrize("key", ["type", "role"])
def test_a_message_that_leaves_out_what_it_is_is_taken(key: str) -> None:
    assert parse(message(text(), **{key: MISSING})).message.content == "Done."


# Call ids, names and input.


def test_with_own_ids_the_servers_ids_do_not_reach_the_loop() -> None:
    own = CONFIG.model_copy(update={"call_ids": "own"})
    turn = parse(message(use({}, id="0"), use({}, id=7), use({}, id="x" * 999)), own)
    assert [one.id for one in turn.message.calls] == ["own-0", "own-1", "own-2"]


def test_repeated_ids_are_left_for_the_loop_to_judge() -> None:
    assert [one.id for one in parse(message(use({}), use({}))).message.calls] == ["toolu_01", "toolu_01"]


@pytest.mark.parametrize("value", [7, True, ["a"], {"a": 1}, "x" * (MAX_ID_BYTES + 1)])
def test_an_id_or_a_name_that_is_no_short_text_is_refused(value: Any) -> None:
    refused(message(use({}, id=value)))
    refused(message(use({}, name=value)))


@pytest.mark.parametrize("name", [None, MISSING])
def test_a_call_without_a_name_is_refused(name: Any) -> None:
    refused(message(use({}, name=name)))


NO_OBJECT = [[], [{}], 3, 1.5, True, False, "text", "{}", '{"sku": "a"}']


@pytest.mark.parametrize("input_", NO_OBJECT)
def test_input_that_is_no_object_makes_the_turn_invalid(input_: Any) -> None:
    failure = refused(message(use({}), use(input_, id="toolu_02")))
    assert "arguments of call 2" in failure.message
    assert failure.usage is not None
    assert (failure.usage.output_tokens, failure.cost) == (3, 3), "a refused reply is charged what it reports"


@pytest.mark.parametrize("input_", NO_OBJECT)
def test_where_the_agent_observes_it_it_is_marked_and_kept(input_: Any) -> None:
    good, bad = parse(message(use({"x": 1}), use(input_, id="toolu_02")), observe_malformed=True).message.calls
    assert (good.arguments, good.malformed) == ({"x": 1}, None)
    assert (bad.arguments, bad.malformed) == ({}, input_ if isinstance(input_, str) else json.dumps(input_))


def test_as_many_calls_as_are_taken_and_one_more() -> None:
    calls = [use({}, id=f"toolu_{number}") for number in range(MAX_CALLS + 1)]
    assert len(parse(message(*calls[:MAX_CALLS])).message.calls) == MAX_CALLS
    assert "33 tool calls" in refused(message(*calls)).message


# What is not complete, or no turn at all.


@pytest.mark.parametrize("content", [[text()], [use({})], []])
@pytest.mark.parametrize(
    "reason",
    [
        "max_tokens", "refusal", "pause_turn", "model_context_window_exceeded", "compaction", "END_TURN", "stop", "",
        None, MISSING, 5, True, ["end_turn"], {"a": 1},
    ],
)  # fmt: skip
def test_any_other_stop_reason_is_refused_whatever_the_content(reason: Any, content: list[Any]) -> None:
    refused(message(*content, stop_reason=reason))


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("max_tokens", "raise output_tokens"),
        ("model_context_window_exceeded", "lower context_bytes"),
        ("pause_turn", "paused"),
        ("refusal", "refused to answer"),
    ],
)
def test_a_reply_that_is_not_complete_says_why(reason: str, words: str) -> None:
    failure = refused(message(text(), use({}), stop_reason=reason))
    assert words in failure.message
    assert reason in failure.message


@pytest.mark.parametrize("content", [[], [text()], [{"type": "thinking", "thinking": "", "signature": ""}]])
def test_a_turn_that_announces_calls_and_has_none_is_refused(content: list[Any]) -> None:
    assert "announces" in refused(message(*content, stop_reason="tool_use")).message


@pytest.mark.parametrize("content", [None, MISSING, "Done.", {}, 5, {"0": text()}])
def test_content_that_is_no_list_is_refused(content: Any) -> None:
    refused(message(content=content))


def test_what_is_no_message_of_an_assistant_is_refused() -> None:
    refused(message(text(), role="user"))
    refused(message(text(), type="completion"))


@pytest.mark.parametrize("reply", [None, 5, "text", [], {}, {"choices": []}, {"completion": "a"}])
def test_json_that_is_no_message_is_refused(reply: Any) -> None:
    assert "check the endpoint's url" in refused(reply).message


# Usage.


def test_cached_input_is_counted_with_the_rest() -> None:
    usage = {
        "input_tokens": 7,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 1000,
        "output_tokens": 3,
    }
    turn = parse(message(text(), usage=usage))
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (1107, 3)
    assert turn.cost == 168  # 1107 tokens at 0.15 and 3 at 0.60 micro-USD: 167.85


@pytest.mark.parametrize("cached", [None, MISSING])
def test_cached_input_that_is_not_reported_is_none(cached: Any) -> None:
    usage = {"input_tokens": 7, "output_tokens": 3, "cache_creation_input_tokens": cached}
    turn = parse(message(text(), usage={key: value for key, value in usage.items() if value is not MISSING}))
    assert turn.usage.input_tokens == 7


@pytest.mark.parametrize("field", ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"])
@pytest.mark.parametrize("tokens", [True, False, -1, 1.5, "7", [7], "", 10**13])
def test_input_tokens_that_are_no_count_are_unknown_and_the_output_is_charged(field: str, tokens: Any) -> None:
    turn = parse(message(text(), usage={"input_tokens": 7, "output_tokens": 3, field: tokens}))
    assert (turn.usage.output_tokens, turn.usage.input_tokens, turn.usage.invalid) == (3, None, None)
    assert turn.cost == 2


@pytest.mark.parametrize(
    ("usage", "cost"), [(MISSING, 39), (None, 39), ({}, 39), ({"output_tokens": None}, 39), ({"input_tokens": 7}, 40)]
)
def test_usage_that_is_not_reported_is_unknown_and_costs_the_allowance(usage: Any, cost: int) -> None:
    turn = parse(message(text(), usage=usage))
    assert (turn.usage.output_tokens, turn.usage.invalid, turn.cost) == (None, None, cost)


@pytest.mark.parametrize("tokens", [0, 64, 65])
def test_reported_tokens_are_passed_on_for_the_loop_to_judge(tokens: int) -> None:
    assert parse(message(text(), usage={"output_tokens": tokens})).usage.output_tokens == tokens


@pytest.mark.parametrize("tokens", [True, -1, 1.5, "5", [], {}, 10**13])
def test_output_tokens_that_are_no_count_are_invalid(tokens: Any) -> None:
    turn = parse(message(text(), usage={"output_tokens": tokens, "input_tokens": 7}))
    assert (turn.usage.invalid, turn.usage.input_tokens, turn.cost) == (json.dumps(tokens), 7, None)


@pytest.mark.parametrize("usage", [5, "many", [], False])
def test_usage_that_is_no_object_is_invalid(usage: Any) -> None:
    assert parse(message(text(), usage=usage)).usage.invalid == json.dumps(usage)


# Whatever comes.

BLOCK = st.fixed_dictionaries(
    {"type": one_of("text", "tool_use", "thinking", "redacted_thinking")},
    optional={
        "text": one_of("a", ""),
        "id": one_of("a", "b"),
        "name": one_of("product"),
        "input": one_of({}, {"a": 1}),
    },
)
USAGE = st.fixed_dictionaries(
    {}, optional={"output_tokens": one_of(0, 64), "input_tokens": one_of(7), "cache_read_input_tokens": one_of(7)}
)
REPLY = st.fixed_dictionaries(
    {"content": st.lists(BLOCK | ANY_JSON, max_size=4), "stop_reason": one_of("end_turn", "tool_use", "max_tokens")},
    optional={"type": one_of("message"), "role": one_of("assistant"), "usage": USAGE | ANY_JSON},
)


@given(reply=REPLY | ANY_JSON, observe=st.booleans(), own=st.booleans())
def test_any_json_is_a_turn_or_an_invalid_turn_and_nothing_else(reply: Any, observe: bool, own: bool) -> None:
    config = CONFIG.model_copy(update={"call_ids": "own" if own else "server"})
    try:
        turn = parse(reply, config, observe_malformed=observe)
    except CallFailed as error:
        assert error.failure.kind == "invalid_turn"  # noqa: PT017
        assert error.failure.usage is not None  # noqa: PT017
    else:
        turn.message.model_dump_json()
        assert len(turn.message.calls) <= MAX_CALLS
        assert all(call.malformed is None or observe for call in turn.message.calls)
