"""What one HTTP request to an MCP server can meet, and what is made of it."""

import gzip
import json

import httpx2
import pytest

from tests.endpoints.raw_server import Answer, raw, raw_server, reply
from tests.toolsets.mcp_house import KEY
from toolsets.mcp import http
from toolsets.mcp.errors import BrokenOff, Forbidden, NotSent, RequestFailed

pytestmark = pytest.mark.asyncio


def failure(code: int) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "own words"}})


@pytest.mark.parametrize(
    ("answer", "meaning", "says"),
    [
        (reply(KEY, 401), Forbidden, "it refused the credentials (HTTP 401)"),
        (reply(failure(-32600), 403), Forbidden, "it refused the credentials (HTTP 403)"),
        (reply("<html>", 400), NotSent, "HTTP 400"),
        (reply(failure(-32600), 404), NotSent, "HTTP 404: own words"),
        (reply('{"error": {"code": -32000, "message": "no session"}}', 400), NotSent, "HTTP 400: no session"),
        (reply('{"error": {"code": 77, "message": "no session"}}', 400), NotSent, "HTTP 400: no session"),
        (reply('{"error": {"code": Infinity, "message": ""}}', 400), NotSent, "HTTP 400"),
        (reply(failure(-32000), 500), BrokenOff, "HTTP 500: own words"),
        (reply(failure(9001), 504), BrokenOff, "HTTP 504: own words"),
        (reply('{"error": {"code": -32602, "message": "proxy"}}', 504), BrokenOff, "HTTP 504: proxy"),
        (reply("", 408), BrokenOff, "HTTP 408"),
        (reply(failure(77), 409), BrokenOff, "HTTP 409: own words"),
        (reply("", 429), NotSent, "HTTP 429"),
        (reply("", 500), BrokenOff, "HTTP 500"),
        (reply("{}", 502), BrokenOff, "HTTP 502"),
        (reply("", 503), BrokenOff, "HTTP 503"),
        (reply("", 529), BrokenOff, "HTTP 529"),
        (reply("[" * 100_000, 500), BrokenOff, "HTTP 500"),
        (reply(b"x" * (http.MAX_BODY_BYTES + 1), 500), BrokenOff, "HTTP 500"),
        (reply(gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"}), BrokenOff, "compressed"),
        (raw(b""), BrokenOff, "the connection broke off (RemoteProtocolError)"),
        (raw(b"nonsense\r\n\r\n"), BrokenOff, "the connection broke off (RemoteProtocolError)"),
    ],
)
async def test_what_went_wrong_is_the_error_of_that_request(
    answer: Answer, meaning: type[RequestFailed], says: str
) -> None:
    async with raw_server(answer) as server, http.client({"Authorization": KEY}) as client:
        response = await client.post(server.url, json={})

    error = response.json()["error"]
    assert http.meaning(error["data"]) is meaning
    assert says in error["message"]
    assert KEY not in response.text
    assert len(server.requests) == 1


async def test_no_connection_means_that_nothing_was_sent() -> None:
    async with raw_server(raw(b"")) as server:
        pass
    async with http.client({}) as client:
        error = (await client.post(server.url, json={})).json()["error"]

    assert http.meaning(error["data"]) is NotSent


@pytest.mark.parametrize(("status", "code"), [(400, -32600), (400, -32602), (400, 9001), (404, -32601), (500, -32603)])
async def test_the_servers_own_error_stands_as_it_is(status: int, code: int) -> None:
    async with raw_server(reply(failure(code), status)) as server, http.client({}) as client:
        response = await client.post(server.url, json={})

    assert response.json()["error"] == {"code": code, "message": "own words"}


async def test_a_reply_that_is_too_large_is_given_up_while_it_is_read() -> None:
    async with raw_server(reply(b"x" * (http.MAX_BODY_BYTES + 1))) as server, http.client({}) as client:
        with pytest.raises(httpx2.StreamError, match="has more than"):
            await client.post(server.url, json={})


async def test_a_redirect_is_not_followed_with_the_key() -> None:
    async with raw_server(reply("")) as other:
        away = reply("", 307, {"Location": other.url})
        async with raw_server(away) as server, http.client({"Authorization": KEY}) as client:
            assert (await client.post(server.url, json={})).status_code == 307

    assert not other.requests
    assert server.requests[0][1]["authorization"] == KEY
