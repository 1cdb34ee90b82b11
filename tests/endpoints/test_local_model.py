"""The server of examples/local_model translates, and no more. Its engine, of another environment, has a stand-in."""

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from endpoints.config import OpenAIConfig
from endpoints.openai import build_body, parse_reply
from longshift.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from tests.endpoints.requests import TOOL, request

CONFIG = OpenAIConfig(url="http://127.0.0.1:1/v1", model="needle")
BEGUN: list[Message] = [SystemMessage(content="Take stock."), UserMessage(content="fig-cup and kiwi-bar?")]
CALLS = ({"name": "stock_of", "arguments": {"product": "fig-cup"}}, {"name": "stock_of", "arguments": {}})
RESULTS = '[{"ok": true, "value": 40}, {"ok": false, "error": {"kind": "not_found", "message": "none"}}]'


class Engine:
    """Calls twice, then is done; one conversation at a time, as the real one."""

    told: list[str]
    begun = 0

    def __init__(self, tools: list[dict[str, Any]], system: str, auto_date: bool) -> None:
        assert [tool["name"] for tool in tools] == [TOOL.name]
        assert (system, auto_date) == ("Take stock.", False)

    def reset(self) -> None:
        Engine.begun += 1
        Engine.told = []

    def complete(self, text: str, most: int) -> dict[str, Any]:
        assert most == 64
        Engine.told.append(text)
        calls = list(CALLS) if len(Engine.told) == 1 else []
        return {"function_calls": calls, "suppressed_calls": list(CALLS), "reasoning": f"turn {len(Engine.told)}"}


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setitem(sys.modules, "needle", SimpleNamespace(Needle=Engine, __version__="0"))
    monkeypatch.delitem(sys.modules, "examples.local_model.serve", raising=False)
    for name in ("NEEDLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "1")
    Engine.begun = 0
    return importlib.import_module("examples.local_model.serve")


def asked(serve: ModuleType, messages: list[Message]) -> AssistantMessage:
    """What the server answers, as the endpoint understands it."""
    found = serve.turn(build_body(CONFIG, messages, (TOOL,), 64))
    return parse_reply("measured", CONFIG, serve.completion(found, 1), request()).message


def answered(first: AssistantMessage) -> list[Message]:
    """The conversation with the observations of the first turn's calls."""
    observed = ('{"ok":true,"value":40}', '{"ok":false,"error":{"kind":"not_found","message":"none"}}')
    pairs = zip(first.calls, observed, strict=True)
    return [*BEGUN, first, *(ToolMessage(call_id=call.id, name=call.name, content=text) for call, text in pairs)]


def test_calls_and_words_come_as_the_engine_has_them_and_withheld_calls_do_not(serve: ModuleType) -> None:
    first = asked(serve, BEGUN)
    assert first.content == "turn 1"
    assert [(call.name, call.arguments) for call in first.calls] == [
        ("stock_of", {"product": "fig-cup"}),
        ("stock_of", {}),
    ]

    last = asked(serve, answered(first))
    assert (last.content, last.calls) == ("turn 2", ())
    assert Engine.told == ["fig-cup and kiwi-bar?", RESULTS]
    assert Engine.begun == 1


def test_a_conversation_that_another_one_interrupted_is_played_again(serve: ModuleType) -> None:
    first = asked(serve, BEGUN)
    asked(serve, [BEGUN[0], UserMessage(content="date-box?")])

    assert asked(serve, answered(first)).content == "turn 2"
    assert Engine.told == ["fig-cup and kiwi-bar?", RESULTS]
    assert Engine.begun == 3


def test_what_the_engine_did_not_say_is_refused(serve: ModuleType) -> None:
    invented = AssistantMessage(
        content="", calls=(ToolCall(id="c-1", name="stock_of"), ToolCall(id="c-2", name="stock_of"))
    )

    with pytest.raises(serve.Diverged):
        asked(serve, answered(invented))
