"""A planted key is in no error, traceback, warning or log line, whatever the server does with it."""

import asyncio
import json
import logging
import traceback

import pytest

from endpoints.config import AnthropicConfig, OpenAIConfig
from endpoints.factory import open_endpoint
from longshift.turns import CallFailed
from tests.endpoints.raw_server import Answer, raw, raw_server, reply
from tests.endpoints.requests import request

pytestmark = pytest.mark.asyncio

KEY = "sk-planted-0123456789abcdef"
PARTS = (KEY, KEY[:12], KEY[-8:])
ECHO = f'{{"error": {{"message": "Incorrect API key provided: {KEY[:12]}...{KEY[-8:]}", "code": "{KEY}"}}}}'


Kind = type[OpenAIConfig] | type[AnthropicConfig]
KINDS = pytest.mark.parametrize("kind", [OpenAIConfig, AnthropicConfig])


async def hang(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def search(kind: Kind, answer: Answer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with raw_server(answer) as server:
        config = kind(url=server.url.removesuffix("/v1"), model="m", api_key_env="PLANTED_KEY", timeout_seconds=0.5)
        endpoint = open_endpoint("shop", config)
        with pytest.raises(CallFailed) as caught:
            await endpoint.send(request())
        await endpoint.close()
    error = caught.value
    shown = [
        str(error),
        repr(error),
        error.failure.model_dump_json(),
        "".join(traceback.format_exception(error)),
        "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format()),
        caplog.text,
        repr(endpoint) + repr(vars(endpoint)),
    ]
    for text in shown:
        assert not [part for part in PARTS if part in text]
    assert error.__context__ is None, "a chained exception would hold the request and its headers"


@KINDS
@pytest.mark.parametrize(
    "answer",
    [
        reply(ECHO, 401),
        reply(ECHO, 400),
        reply(f"authorization: Bearer {KEY}", 500, {"X-Echo": f"Bearer {KEY}"}, "text/plain"),
        reply("", 302, {"Location": f"http://127.0.0.1:9/?key={KEY}"}),
        reply(ECHO),
        reply(f"<html>{KEY}</html>", content_type="text/html"),
        reply(f"{{ {KEY}"),
        reply(f'{{"{KEY}": 1, "{KEY}": 2}}'),
        reply("{}", headers={"Content-Encoding": KEY}),
        reply(KEY * 20000),
        reply("slow down", 429, {"Retry-After": KEY}),
        raw(f"HTTP/1.1 {KEY}\r\n\r\n".encode()),
        raw(f"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{KEY}".encode()),
        hang,
    ],
    ids=[
        "401",
        "400",
        "500",
        "302",
        "200 error",
        "html",
        "no json",
        "same key twice",
        "coding",
        "too large",
        "429",
        "bad head",
        "cut",
        "timeout",
    ],
)
async def test_an_error_does_not_hold_the_key(
    kind: Kind,
    answer: Answer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    await search(kind, answer, caplog)


@KINDS
@pytest.mark.parametrize("ending", ["\n", "\r\nX-Injected: 1", " ", "ü", "\x7f"])
async def test_a_key_that_cannot_stand_in_a_header_is_refused_without_being_shown(
    kind: Kind,
    ending: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY + ending)
    await search(kind, reply("{}"), caplog)


@pytest.mark.parametrize("escape", [r"\/", r"\u002f", r"\u002F"])
async def test_a_key_that_comes_back_escaped_is_removed_too(escape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-planted/0123456789abcdef"
    monkeypatch.setenv("PLANTED_KEY", key)
    escaped = key.replace("/", escape)
    function = {"name": "product", "arguments": f'{{"{escaped}": ["{escaped}"]}}'}
    calls = [{"id": "c-1", "type": "function", "function": function}]
    said = {"message": {"role": "assistant", "content": "HERE", "tool_calls": calls}, "finish_reason": "stop"}
    text = json.dumps({"choices": [said]}).replace("HERE", f"You sent {escaped}.")
    async with raw_server(reply(text)) as server:
        endpoint = open_endpoint("shop", OpenAIConfig(url=server.url, model="m", api_key_env="PLANTED_KEY"))
        answer = await endpoint.send(request())
        await endpoint.close()
    assert answer.message.content == "You sent [key removed]."
    assert answer.message.calls[0].arguments == {"[key removed]": ["[key removed]"]}


async def test_a_good_reply_that_repeats_the_key_comes_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    said = {"message": {"role": "assistant", "content": f"You sent Bearer {KEY}."}, "finish_reason": "stop"}
    async with raw_server(reply(json.dumps({"choices": [said]}))) as server:
        endpoint = open_endpoint("shop", OpenAIConfig(url=server.url, model="m", api_key_env="PLANTED_KEY"))
        answer = await endpoint.send(request())
        await endpoint.close()
    assert answer.message.content == "You sent Bearer [key removed]."
