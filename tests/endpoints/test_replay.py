"""Authored turns: what a replay plays, and what it says of a bad file."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from endpoints.base import Reply
from endpoints.config import ReplayConfig
from endpoints.replay import ReplayEndpoint
from longshift.messages import Message, ToolCall
from longshift.turns import MAX_CALLS, CallFailed, ModelFailure
from tests.endpoints.requests import request

pytestmark = pytest.mark.asyncio

LOOK = {"id": "s-1", "name": "list_stock", "arguments": {}}


async def never() -> Sequence[Message]:
    raise AssertionError("a replay reads no transcript")


async def play(turns: Any, number: int = 1, timeout_seconds: float | None = None, observe: bool = False) -> Reply:
    endpoint = ReplayEndpoint("authored", ReplayConfig(turns=turns, timeout_seconds=timeout_seconds))
    try:
        return await endpoint.send(replace(request(reply=number, observe_malformed=observe), messages=never))
    finally:
        await endpoint.close()


async def failed(turns: Any, **changes: Any) -> ModelFailure:
    with pytest.raises(CallFailed) as caught:
        await play(turns, **changes)
    assert caught.value.failure.message.startswith("endpoint 'authored': ")
    return caught.value.failure


async def test_turn_n_is_the_nth_reply() -> None:
    turns = [{"content": "Look.", "calls": [LOOK], "output_tokens": 4, "input_tokens": 9}, {"content": "Done."}]
    first, second = await play(turns, 1), await play(turns, 2)
    assert (first.message.content, first.message.calls) == ("Look.", (ToolCall(id="s-1", name="list_stock"),))
    assert (first.stop_reason, first.usage.output_tokens, first.usage.input_tokens) == ("tool_calls", 4, 9)
    assert (second.message.content, second.stop_reason, second.usage.output_tokens) == ("Done.", "stop", None)


@pytest.mark.parametrize(("count", "words"), [(0, "has 0 turns"), (1, "has 1 turn;"), (2, "has 2 turns")])
async def test_past_the_end_it_says_how_many_turns_there_are(count: int, words: str) -> None:
    failure = await failed([{"content": "Done."}] * count, number=3)
    assert (failure.kind, failure.transient) == ("used_up", False)
    assert words in failure.message
    assert "no reply 3" in failure.message


async def test_an_authored_failure_is_judged_as_its_status_from_a_server() -> None:
    turns = [{"error": {"status": 503, "retry_after": 1}}, {"error": {"status": 400}}, {"content": "Done."}]
    busy, bad = await failed(turns, number=1), await failed(turns, number=2)
    assert (busy.kind, busy.transient, busy.retry_after) == ("status", True, 1.0)
    assert (bad.kind, bad.transient, bad.retry_after) == ("status", False, None)
    assert (await play(turns, 3)).message.content == "Done."


@pytest.mark.parametrize("tokens", ["many", -1, True, 1.5])
async def test_nonsense_usage_is_passed_on_as_invalid(tokens: Any) -> None:
    usage = (await play([{"content": "Ready", "output_tokens": tokens}])).usage
    assert (usage.output_tokens, usage.invalid) == (None, json.dumps(tokens))


async def test_usage_over_the_allowance_is_passed_on() -> None:
    assert (await play([{"content": "Ready", "output_tokens": 1025}])).usage.output_tokens == 1025


async def test_a_held_back_turn_comes_after_its_delay_unless_the_endpoints_time_is_over() -> None:
    turns = [{"content": "Done.", "delay_ms": 20}]
    assert (await play(turns)).message.content == "Done."
    assert (await play(turns, timeout_seconds=30)).message.content == "Done."
    failure = await failed([{"content": "Done.", "delay_ms": 60_000}], timeout_seconds=0.05)
    assert (failure.kind, failure.transient) == ("timeout", True)


async def test_malformed_arguments_are_played_as_from_a_server() -> None:
    turns = [{"calls": [{"id": "a", "name": "product", "arguments": '{"sku": '}], "output_tokens": 3}]
    failure = await failed(turns)
    assert failure.kind == "invalid_turn"
    assert failure.usage is not None
    assert failure.usage.output_tokens == 3
    (call,) = (await play(turns, observe=True)).message.calls
    assert call.malformed == '{"sku": '


async def test_too_many_calls_are_an_invalid_turn() -> None:
    assert (await failed([{"calls": [LOOK] * (MAX_CALLS + 1)}])).kind == "invalid_turn"


async def test_a_call_without_an_id_gets_one_of_ours() -> None:
    assert (await play([{"calls": [{"name": "product"}]}])).message.calls[0].id == "own-0"


def load(file: Path, text: str) -> ReplayEndpoint:
    file.write_text(text)
    return ReplayEndpoint("authored", ReplayConfig(file=file))


@pytest.mark.parametrize("whole", [True, False])
async def test_a_file_is_a_list_of_turns_or_an_object_with_one(tmp_path: Path, whole: bool) -> None:
    turns = [{"content": "Dön"}]
    endpoint = load(tmp_path / "case.json", json.dumps({"name": "x", "turns": turns} if whole else turns))
    assert (await endpoint.send(request())).message.content == "Dön"
    with pytest.raises(CallFailed, match=r"the file case\.json has 1 turn"):
        await endpoint.send(request(reply=2))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not valid JSON"),
        ("[NaN]", "is not valid JSON"),
        ("5", "must be a list of turns"),
        ('{"steps": []}', "under `turns`"),
        ('[{}, {"contents": "a"}]', "turn 2: contents: is no field of a replay; remove it or mend its name"),
        ('[{"content": 5}]', "turn 1: content: Input should be a valid string"),
        ('[{"calls": [{"name": "a"}, {"id": "b"}]}]', "turn 1: calls.2.name: is missing; add it"),
        ('[{"delay_ms": -1}]', "turn 1: delay_ms: Input should be greater than or equal to 0"),
        ('[{"error": {"status": 200}}]', "turn 1: error.status: Input should be greater than or equal to 400"),
        ("[[]]", "turn 1: must be an object"),
    ],
)
async def test_a_bad_file_is_refused_when_loaded_naming_file_turn_and_field(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(ValueError, match=r"case\.json: ") as caught:
        load(tmp_path / "case.json", text)
    assert words in str(caught.value)


async def test_every_problem_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"turn 1: a: .*; turn 2: b: "):
        load(tmp_path / "case.json", '[{"a": 1}, {"b": 1}]')


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.json: cannot be read \(No such file or directory\)"):
        ReplayEndpoint("authored", ReplayConfig(file=tmp_path / "none.json"))
