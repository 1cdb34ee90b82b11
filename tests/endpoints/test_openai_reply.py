"""Which replies of a server of chat completions are a turn, and which are refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.base import Reply
from endpoints.config import OpenAIConfig, Price
from endpoints.openai import parse_reply
from endpoints.reading import MAX_MALFORMED
from longshift.messages import ToolCall
from longshift.turns import MAX_CALLS, MAX_ID_BYTES, CallFailed, ModelFailure
from tests.endpoints.any_json import ANY_JSON, one_of
from tests.endpoints.raw_server import completion
from tests.endpoints.requests import request

CONFIG = OpenAIConfig(
    url="http://127.0.0.1:1/v1",
    model="small",
    price=Price(input_cents_per_million=15, output_cents_per_million=60),
)
MISSING = object()


def parse(reply: Any, config: OpenAIConfig = CONFIG, **changes: Any) -> Reply:
    return parse_reply("shop", config, reply, request(**changes))


def refused(reply: Any, **changes: Any) -> ModelFailure:
    with pytest.raises(CallFailed) as caught:
        parse(reply, **changes)
    failure = caught.value.failure
    assert (failure.kind, failure.transient) == ("invalid_turn", False)
    assert failure.message.startswith("endpoint 'shop': ")
    return failure


def call(arguments: Any = "{}", **changes: Any) -> dict[str, Any]:
    function = {"name": changes.pop("name", "product"), "arguments": arguments}
    made = {"id": "c-1", "type": "function", "function": function, **changes}
    for part in (made, function):
        for key in [key for key, value in part.items() if value is MISSING]:
            del part[key]
    return made


def test_text_is_a_turn() -> None:
    turn = parse(completion())
    assert (turn.message.content, turn.message.calls, turn.stop_reason) == ("Done.", (), "stop")
    assert turn.cost == 3  # 7 tokens at 0.15 and 3 at 0.60 micro-USD: 2.85


def test_text_beside_calls_is_kept() -> None:
    turn = parse(completion(tool_calls=[call('{"sku": "a"}'), call("{}", id="c-2", name="list_stock")]))
    assert turn.message.content == "Done."
    assert turn.message.calls == (
        ToolCall(id="c-1", name="product", arguments={"sku": "a"}),
        ToolCall(id="c-2", name="list_stock"),
    )


@pytest.mark.parametrize("content", [None, ""])
def test_null_content_is_empty_text(content: str | None) -> None:
    assert parse(completion(content=content)).message.content == ""


def test_missing_content_beside_calls_is_empty_text() -> None:
    reply = completion(tool_calls=[call()])
    del reply["choices"][0]["message"]["content"]
    assert parse(reply).message.content == ""


def test_text_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "Do"}, {"type": "text", "text": "ne."}]
    assert parse(completion(content=parts)).message.content == "Done."
    assert parse(completion(content=[])).message.content == ""


@pytest.mark.parametrize(
    "content",
    [
        5,
        True,
        {"text": "a"},
        ["a"],
        [{"type": "image_url"}],
        [{"type": "text"}],
        [{"type": "text", "text": None}],
        [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b"}],
    ],
)
def test_content_that_is_no_text_is_refused(content: Any) -> None:
    refused(completion(content=content))


# Accepted deviations.


@pytest.mark.parametrize("arguments", ["", " \n\t", None, MISSING])
def test_empty_arguments_are_no_arguments(arguments: Any) -> None:
    assert parse(completion(tool_calls=[call(arguments)])).message.calls[0].arguments == {}


def test_arguments_as_an_object_are_taken() -> None:
    assert parse(completion(tool_calls=[call({"sku": "a"})])).message.calls[0].arguments == {"sku": "a"}


def test_stop_beside_calls_is_taken() -> None:
    turn = parse(completion(tool_calls=[call()], finish_reason="stop"))
    assert len(turn.message.calls) == 1
    assert turn.stop_reason == "stop"


@pytest.mark.parametrize("missing", [MISSING, None, "", "  "])
def test_a_call_without_an_id_gets_one_of_ours(missing: Any) -> None:
    turn = parse(completion(tool_calls=[call(), call(id=missing), call(id=missing)]))
    assert [one.id for one in turn.message.calls] == ["c-1", "own-1", "own-2"]


@pytest.mark.parametrize("kind", [MISSING, None])
def test_a_call_without_a_type_is_a_function(kind: Any) -> None:
    assert len(parse(completion(tool_calls=[call(type=kind)])).message.calls) == 1


# Call ids and names.


def test_with_own_ids_the_servers_ids_do_not_reach_the_loop() -> None:
    own = CONFIG.model_copy(update={"call_ids": "own"})
    turn = parse(completion(tool_calls=[call(id="0"), call(id=7), call(id="x" * 999)]), own)
    assert [one.id for one in turn.message.calls] == ["own-0", "own-1", "own-2"]


def test_repeated_ids_are_left_for_the_loop_to_judge() -> None:
    assert [one.id for one in parse(completion(tool_calls=[call(), call()])).message.calls] == ["c-1", "c-1"]


@pytest.mark.parametrize("value", [7, True, ["a"], {"a": 1}, "x" * (MAX_ID_BYTES + 1), "ü" * (MAX_ID_BYTES // 2 + 1)])
def test_an_id_or_a_name_that_is_no_short_text_is_refused(value: Any) -> None:
    refused(completion(tool_calls=[call(id=value)]))
    refused(completion(tool_calls=[call(name=value)]))


@pytest.mark.parametrize("name", ["", "no such tool", "list_st\u043e\u0441k", "x" * MAX_ID_BYTES])
def test_a_name_no_tool_has_is_left_for_the_loop_to_judge(name: str) -> None:
    assert parse(completion(tool_calls=[call(name=name)])).message.calls[0].name == name


@pytest.mark.parametrize("name", [None, MISSING])
def test_a_call_without_a_name_is_refused(name: Any) -> None:
    refused(completion(tool_calls=[call(name=name)]))


# Arguments that are no JSON object.

MALFORMED = [
    '{"a": 1}{"b": 2}',
    '{"a": 1} trailing',
    '```json\n{"a": 1}\n```',
    "[]",
    "[1]",
    "3",
    "null",
    "true",
    '"text"',
    '"{}"',
    '{"a": ',
    "{'a': 1}",
    '{"a": NaN}',
    '{"a": 1e999}',
    '{"a": 1, "a": 2}',
    '{"a": "\\ud800"}',
    "{" + '"a": {' * 100 + "}" * 101,
    '{"a": ' + "[" * 5000 + "]" * 5000 + "}",
    '{"a": ' + "9" * 4301 + "}",
    [],
    [{}],
    3,
    1.5,
    True,
    False,
    0,
]


@pytest.mark.parametrize("arguments", MALFORMED)
def test_arguments_that_are_not_one_object_make_the_turn_invalid(arguments: Any) -> None:
    failure = refused(completion(tool_calls=[call(), call(arguments, id="c-2")]))
    assert "arguments of call 2" in failure.message
    assert failure.usage is not None
    assert (failure.usage.output_tokens, failure.cost) == (3, 3), "a refused reply is charged what it reports"


@pytest.mark.parametrize("arguments", MALFORMED)
def test_where_the_agent_observes_them_they_are_marked_and_kept_cut(arguments: Any) -> None:
    turn = parse(completion(tool_calls=[call('{"x": 1}'), call(arguments, id="c-2")]), observe_malformed=True)
    good, bad = turn.message.calls
    assert (good.arguments, good.malformed) == ({"x": 1}, None)
    assert bad.arguments == {}
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    assert bad.malformed == text[:MAX_MALFORMED]


@pytest.mark.parametrize("observe", [False, True])
@pytest.mark.parametrize("tokens", [64, 65])
def test_unparsable_arguments_at_the_allowance_are_cut(observe: bool, tokens: int) -> None:
    reply = completion(tool_calls=[call('{"sku": "a')], usage={"completion_tokens": tokens})
    assert "cut at its 64 output tokens" in refused(reply, observe_malformed=observe).message


def test_whole_arguments_at_the_allowance_are_a_turn() -> None:
    assert parse(completion(tool_calls=[call()], usage={"completion_tokens": 64})).message.calls


# What is not complete, or no turn at all.


@pytest.mark.parametrize("calls", [None, [call()]])
@pytest.mark.parametrize(
    "reason", ["length", "content_filter", "function_call", "error", "eos", "", None, 5, ["stop"], {"a": 1}, "STOP"]
)
def test_any_other_finish_reason_is_refused_with_or_without_calls(reason: Any, calls: Any) -> None:
    refused(completion(finish_reason=reason, tool_calls=calls))


def test_a_missing_finish_reason_is_refused() -> None:
    reply = completion()
    del reply["choices"][0]["finish_reason"]
    refused(reply)


def test_a_reply_cut_by_length_says_so() -> None:
    failure = refused(completion(finish_reason="length", tool_calls=[call()]))
    assert "finish_reason length" in failure.message
    assert "raise output_tokens" in failure.message


@pytest.mark.parametrize("calls", [None, [], MISSING])
def test_a_turn_that_announces_calls_and_has_none_is_refused(calls: Any) -> None:
    reply = completion(finish_reason="tool_calls", tool_calls=calls)
    if calls is MISSING:
        del reply["choices"][0]["message"]["tool_calls"]
    assert "announces" in refused(reply).message


@pytest.mark.parametrize("calls", [None, []])
def test_no_calls_in_any_form_are_no_calls(calls: Any) -> None:
    assert parse(completion(tool_calls=calls)).message.calls == ()


@pytest.mark.parametrize(
    "calls", [5, "a", {}, {"0": 1}, [5], [None], [{}], [{"function": None}], [{"id": "a", "function": "f"}]]
)
def test_calls_of_another_shape_are_refused(calls: Any) -> None:
    refused(completion(tool_calls=calls, finish_reason="tool_calls"))
    refused(completion(tool_calls=calls, finish_reason="stop"))


def test_a_call_of_another_type_is_refused() -> None:
    refused(completion(tool_calls=[call(type="custom")]))


def test_as_many_calls_as_are_taken_and_one_more() -> None:
    calls = [call(id=f"c-{number}") for number in range(MAX_CALLS + 1)]
    assert len(parse(completion(tool_calls=calls[:MAX_CALLS])).message.calls) == MAX_CALLS
    assert "33 tool calls" in refused(completion(tool_calls=calls)).message


def test_a_refusal_is_refused_and_an_empty_one_is_none() -> None:
    assert "refused to answer" in refused(completion(refusal="I cannot help with that.")).message
    assert parse(completion(refusal=None)).message.content == "Done."
    assert parse(completion(refusal="")).message.content == "Done."


def test_a_legacy_function_call_is_refused_unless_it_repeats_a_call() -> None:
    reply = completion(tool_calls=[call()], function_call={"name": "product", "arguments": "{}"})
    assert parse(reply).message.calls == (ToolCall(id="c-1", name="product"),)
    assert "function_call" in refused(completion(function_call={"name": "f", "arguments": "{}"})).message
    assert parse(completion(function_call=None)).message.content == "Done."


@pytest.mark.parametrize("choices", [[], [{}, {}], [None], None, {}, "a", [{"message": None, "finish_reason": "stop"}]])
def test_exactly_one_choice_with_a_message_is_a_turn(choices: Any) -> None:
    refused(completion() | {"choices": choices})


def test_two_good_choices_are_refused() -> None:
    reply = completion()
    refused(reply | {"choices": reply["choices"] * 2})


def test_a_message_of_another_role_is_refused() -> None:
    refused(completion(role="user"))
    assert parse(completion(role=None)).message.content == "Done."


@pytest.mark.parametrize("reply", [None, 5, "text", [], {}, {"response": "a"}])
def test_json_that_is_no_completion_is_refused(reply: Any) -> None:
    refused(reply)


# Usage.


@pytest.mark.parametrize(
    ("usage", "cost"), [(None, 39), ({}, 39), ({"completion_tokens": None}, 39), ({"prompt_tokens": 7}, 40)]
)
def test_usage_that_is_not_reported_is_unknown_and_costs_the_allowance(usage: Any, cost: int) -> None:
    turn = parse(completion(usage=usage))
    assert (turn.usage.output_tokens, turn.usage.invalid, turn.cost) == (None, None, cost)


def test_a_missing_usage_is_unknown() -> None:
    reply = completion()
    del reply["usage"]
    assert parse(reply).usage.output_tokens is None


@pytest.mark.parametrize("tokens", [0, 1, 64, 65, 1025])
def test_reported_tokens_are_passed_on_for_the_loop_to_judge(tokens: int) -> None:
    assert parse(completion(usage={"completion_tokens": tokens})).usage.output_tokens == tokens


@pytest.mark.parametrize("tokens", [True, False, -1, 1.5, 5.0, "5", "many", [], {}, [5], 10**13, 10**4000, "x" * 99])
def test_tokens_that_are_no_count_are_invalid(tokens: Any) -> None:
    turn = parse(completion(usage={"completion_tokens": tokens, "prompt_tokens": 7}))
    assert turn.usage.output_tokens is None
    assert turn.usage.invalid == json.dumps(tokens)[:40]
    assert turn.usage.input_tokens == 7
    assert turn.cost is None


@pytest.mark.parametrize("usage", [5, "many", [], False, ""])
def test_usage_that_is_no_object_is_invalid(usage: Any) -> None:
    assert parse(completion(usage=usage)).usage.invalid == json.dumps(usage)


@pytest.mark.parametrize("tokens", [True, -1, 1.5, "7", [7]])
def test_input_tokens_that_are_no_count_are_unknown_and_the_output_is_charged(tokens: Any) -> None:
    turn = parse(completion(usage={"completion_tokens": 3, "prompt_tokens": tokens}))
    assert (turn.usage.output_tokens, turn.usage.input_tokens, turn.usage.invalid) == (3, None, None)
    assert turn.cost == 2


# Whatever comes.

FUNCTION = st.fixed_dictionaries(
    {}, optional={"name": one_of("product", ""), "arguments": one_of("{}", '{"a":1}', "{", "") | st.text()}
)
CALL = st.fixed_dictionaries(
    {"function": FUNCTION | ANY_JSON}, optional={"id": one_of("a", "b"), "type": one_of("function")}
)
MESSAGE = st.fixed_dictionaries(
    {"content": one_of("Done.", None, [{"type": "text", "text": "a"}])},
    optional={
        "role": one_of("assistant"),
        "tool_calls": st.lists(CALL | ANY_JSON, max_size=4) | ANY_JSON,
        "refusal": one_of(None),
        "function_call": one_of(None),
    },
)
CHOICE = st.fixed_dictionaries({"message": MESSAGE | ANY_JSON, "finish_reason": one_of("stop", "tool_calls", "length")})
USAGE = st.fixed_dictionaries({}, optional={"completion_tokens": one_of(0, 64), "prompt_tokens": one_of(7)})
COMPLETION = st.fixed_dictionaries(
    {"choices": st.lists(CHOICE, min_size=1, max_size=2)}, optional={"usage": USAGE | ANY_JSON}
)


@given(reply=COMPLETION | ANY_JSON, observe=st.booleans(), own=st.booleans())
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
