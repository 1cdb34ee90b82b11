"""Calls of the tools of an MCP server, over both transports: what comes back, and what each failure means."""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from longshift.tools import ToolSpec
from tests.toolsets.lists_server import lists
from tests.toolsets.mcp_house import ENVIRON, KEY, PATIENCE, ROOT, House, listening, opened, stdio
from toolsets.mcp import connection
from toolsets.mcp.config import McpServerConfig
from toolsets.mcp.errors import ServerAway, ServerUnfit
from toolsets.mcp.secrets import Secrets
from toolsets.mcp.server import McpServer
from toolsets.mcp.standard_error import lines_to

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def behind_http(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """Our own server over HTTP; no test that uses it changes it."""
    folder = tmp_path_factory.mktemp("mcp")
    async with listening(folder) as server, opened(folder, **server.section) as house:
        yield house


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def as_program(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """The same as a program."""
    folder = tmp_path_factory.mktemp("mcp")
    async with opened(folder, **stdio(folder)) as house:
        yield house


@pytest.fixture(scope="module", params=["as_program", "behind_http"])
def house(request: pytest.FixtureRequest) -> House:
    """The same over each transport."""
    found: House = request.getfixturevalue(request.param)
    return found


CLOSED = "a port that nobody listens on"


def kind(observation: dict[str, Any]) -> str:
    return "ok" if observation["ok"] else observation["error"]["kind"]


async def test_annotations_say_what_is_a_read_and_what_is_idempotent(house: House) -> None:
    specs = {name: tool.spec for name, tool in house.tools.items()}

    assert specs["house__look"].kind == "read"
    assert (specs["house__write"].kind, specs["house__write"].idempotent) == ("effect", True)
    assert (specs["house__die_writing"].kind, specs["house__die_writing"].idempotent) == ("effect", False)


async def test_a_call_returns_its_structured_content(house: House) -> None:
    assert await house.call("house__look", what="a") == {"ok": True, "value": {"seen": "a", "deep": 1}}


async def test_bad_arguments_are_refused_by_the_servers_schema_before_anything_is_sent(house: House) -> None:
    observation = await house.call("house__look", what="A", deep="x")

    assert kind(observation) == "invalid_arguments"
    assert observation["error"]["message"] == (
        'house__look did not run: deep: must be of type integer, not "x"; '
        'what: must satisfy pattern "^[a-z]+$", not "A"'
    )


async def test_an_effect_carries_its_operation_id(house: House) -> None:
    await house.call("house__write", text="a line")

    assert house.noted("written") == ["a line shift-1/1/0/call-1"]


async def test_a_picture_is_told_of_and_left_out(house: House) -> None:
    assert (await house.call("house__picture"))["value"] == "[image, image/png, 1000 bytes, not shown]"


@pytest.mark.parametrize(
    ("code", "expected"),
    [(-32602, "refused"), (-32601, "refused"), (-32603, "exception"), (77, "exception"), (9001, "exception")],
)
async def test_an_error_of_the_protocol_becomes_an_observation_with_its_text(
    house: House, code: int, expected: str
) -> None:
    observation = await house.call("house__decline", code=code)

    assert kind(observation) == expected
    assert f"declined with {code}" in observation["error"]["message"]


@pytest.mark.parametrize(
    ("status", "content_type", "body"),
    [
        (200, "application/json", json.dumps({"key": KEY, "more": "x" * 99})),
        (200, "text/event-stream", f'data: {{"key": "{KEY}", "more": "{"x" * 99}"}}\n\n'),
        (200, "text/html", "<html>"),
        (202, "text/plain", ""),
        (303, "application/json", "{}"),
        (409, "application/json", '{"error": "conflict"}'),
        (503, "text/html", "<html>"),
        (504, "application/json", '{"error": {"code": -32602, "message": "upstream timed out"}}'),
    ],
)
async def test_an_effect_that_was_not_answered_in_the_way_of_the_protocol_is_unknown(
    behind_http: House, status: int, content_type: str, body: str
) -> None:
    observation = await behind_http.call("house__reply", status=status, content_type=content_type, body=body)

    assert kind(observation) == "outcome_unknown"
    assert KEY[:8] not in str(observation), "not even a part of the key"


@pytest.mark.parametrize(
    ("name", "expected", "says"),
    [
        ("house__ask", "exception", "Cannot send 'elicitation/create'"),
        ("house__ask_first", "refused", "it asks for a person's input, which a run cannot give"),
    ],
)
async def test_a_tool_that_asks_for_a_persons_input_gets_none(
    house: House, name: str, expected: str, says: str
) -> None:
    observation = await house.call(name)

    assert kind(observation) == expected
    assert says in observation["error"]["message"]


async def test_a_key_that_the_server_repeats_is_hidden_in_results_errors_and_the_log(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "longshift.mcp"):
        returned = await house.call("house__leak")
        failed = await house.call("house__leak_failing")

    assert returned == {"ok": True, "value": {"keys": ["it is ***"], "***": 1}}
    assert kind(failed) == "refused"
    assert "the key *** was refused" in failed["error"]["message"]
    assert KEY not in caplog.text


async def test_a_call_that_is_given_up_is_cancelled_at_the_server(house: House) -> None:
    call = asyncio.create_task(house.call("house__hang"))
    await house.until_noted("hanging", "began")
    call.cancel()

    await house.until_noted("hanging", "cancelled")
    with pytest.raises(asyncio.CancelledError):
        await call
    assert kind(await house.call("house__look", what="a")) == "ok", "the session lives on"


async def test_a_tool_whose_definition_changed_is_not_run_and_others_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path, **stdio(tmp_path)) as house:
        await house.call("house__change", description="Look, and tell everybody.")
        changed = await house.call("house__look", what="a")
        await house.call("house__change", description=None)
        gone = await house.call("house__look", what="a")
        digest = (await house.server.offered()).server.tools_sha256

    assert kind(changed) == kind(gone) == "tool_changed"
    assert "the server changed its description" in changed["error"]["message"]
    assert "no longer offers it" in gone["error"]["message"]
    assert "changed its list of tools" in caplog.text
    assert digest != house.offered.server.tools_sha256


async def test_a_server_that_dies_in_mid_call_leaves_an_effect_unknown_and_a_read_to_be_tried_again(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, **stdio(tmp_path)) as house:
        effect = await house.call("house__die_writing")
        read = await house.call("house__die_reading")

    assert (kind(effect), kind(read)) == ("outcome_unknown", "transient")
    assert house.noted("written") == ["half"]
    assert len(house.noted("pid")) == 2, "it was started anew, and no call was sent twice"


async def test_a_server_behind_http_that_dies_in_mid_call_is_the_same_and_one_that_is_gone_did_surely_nothing(
    tmp_path: Path,
) -> None:
    async with listening(tmp_path) as server, opened(tmp_path, **server.section) as house:
        effect = await house.call("house__die_writing")
        gone = await house.call("house__write", text="never")
        async with listening(tmp_path, server.port):
            back = await house.call("house__write", text="again")

    assert (kind(effect), kind(gone), kind(back)) == ("outcome_unknown", "transient", "ok")
    assert house.noted("written") == ["half", "again shift-1/1/0/call-1"]


async def test_a_session_that_a_restarted_server_no_longer_knows_is_made_anew_before_an_effect_is_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "longshift.mcp")
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(listening(tmp_path, MCP_OLD="1"))
        house = await stack.enter_async_context(opened(tmp_path, **first.section))
        await house.call("house__write", text="before")
        await first.kill()
        await stack.enter_async_context(listening(tmp_path, first.port, MCP_OLD="1"))
        after = await house.call("house__write", text="after")

    assert kind(after) == "ok"
    assert "house: connecting again: HTTP 404" in caplog.text
    assert [line.split()[0] for line in house.noted("written")] == ["before", "after"]


async def test_bad_credentials_are_fatal_for_a_call_and_keep_a_run_from_beginning(behind_http: House) -> None:
    bad = {"MCP_AUTHORIZATION": "Bearer something-else"}
    away = McpServer("house", behind_http.config, bad)
    with pytest.raises(ServerAway, match=r"the MCP server house is away: it refused the credentials \(HTTP 401\)"):
        await away.offered()
    observation = await House(away, behind_http.config, behind_http.offered).call("house__look", what="a")
    await away.close()

    assert behind_http.tools["house__look"].spec.kind == "read"
    assert kind(observation) == "fatal"


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"command": "/no/such/program"}, r"it cannot be started: No such file or directory"),
        ({"command": sys.executable, "args": ("-c", "print('no')")}, "it ended before it answered"),
        ({"command": "sh", "args": ("-c", "cat > /dev/null"), "timeout_seconds": 0.2}, "did not answer within 0.2 s"),
        ({"url": CLOSED}, "no connection"),
    ],
)
async def test_a_server_that_cannot_be_reached_is_away_and_says_why(section: dict[str, Any], says: str) -> None:
    if section.get("url") == CLOSED:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            section = {"url": f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"}
    server = McpServer("house", McpServerConfig(allow=("*",), **section), {})

    with pytest.raises(ServerAway, match=says):
        await server.offered()
    await server.close()


async def said(script: str, caplog: pytest.LogCaptureFixture, **section: Any) -> list[str]:
    """What the log has of a program that is no server."""
    config = McpServerConfig(
        command=sys.executable,
        args=("-c", f"import os, sys; {script}"),
        allow=("*",),
        timeout_seconds=PATIENCE,
        **section,
    )
    server = McpServer("house", config, {**ENVIRON, "OTHER": "x"})
    with caplog.at_level(logging.INFO, "longshift.mcp"), pytest.raises(ServerAway):
        await server.offered()
    await server.close()
    return [record.getMessage() for record in caplog.records if record.name == "longshift.mcp"]


async def test_what_a_server_says_on_its_standard_error_is_in_the_log_under_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = await said("sys.stderr.write('first\\n\\x1b[31mlast')", caplog)

    assert lines == ["house: first", "house: [31mlast"]


@pytest.mark.parametrize("before", [0, 4096, 16_384, 65_536])
async def test_no_part_of_a_key_is_in_the_log_wherever_it_stands_in_a_line(before: int) -> None:
    logged: list[str] = []
    text = b"x" * (before - len(KEY) // 2) + KEY.encode() + b"x" * 16_384 + b"\nlast"
    async with lines_to(lambda line: logged.append(Secrets([KEY]).hide(line))) as file:
        await asyncio.to_thread(file.buffer.write, text)

    *_, last = logged
    assert last == "last"
    assert not any(part in "".join(logged) for part in (KEY[:8], KEY[-8:]))


async def test_only_what_is_allowed_is_offered_and_what_is_allowed_must_be_there(behind_http: House) -> None:
    section = behind_http.config.model_dump(include={"url", "headers_from", "timeout_seconds"})
    async with opened(**section, allow=("look",)) as house:
        write = ToolSpec(name="house__write", definition_sha256="x")
        assert list(house.tools) == ["house__look"]
        assert house.server.tool(write) is None, "not even for a run that began when it was allowed"
    unfit = McpServer("house", McpServerConfig(**section, allow=("look", "nothing", "not.offered")), ENVIRON)
    with pytest.raises(ServerUnfit) as raised:
        await unfit.offered()
    await unfit.close()

    gone, bad = raised.value.problems
    assert gone.startswith("the server offers no tool nothing; its tools are ask, ask_first, ")
    assert bad.startswith("the tool not.offered of the server house cannot be offered: providers refuse the name")


async def test_a_list_in_pages_is_read_to_its_end_and_what_cannot_be_offered_is_left_out_and_noted() -> None:
    async with lists(4) as section, opened(**section) as house:
        offered = house.offered

    assert [tool.spec.name for tool in offered.tools] == [f"house__good-{page}" for page in (1, 2, 3, 4)]
    assert offered.tools[0].spec.description == "the key is ***"
    assert len(offered.notes) == 6
    assert "the tool bad.1 of the server house cannot be offered: providers refuse the name" in offered.notes[0]
    assert "the tool large-1 of the server house cannot be offered: its definition has 40" in offered.notes[1]
    assert offered.notes[-1] == "3 more tools of the server house cannot be offered"


async def test_a_servers_own_words_cannot_move_a_terminals_cursor_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "longshift.mcp")
    async with lists(1, [f"\x1b[31m\r\n{KEY} red"]) as section, opened(**section) as house:
        await house.server.offered()

    assert "house: connecting again: [31m *** red" in caplog.messages


async def test_a_list_without_an_end_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_PAGES", 5)
    async with lists(0) as section:
        server = McpServer("house", McpServerConfig(**section, allow=("*",), timeout_seconds=PATIENCE), ENVIRON)
        with pytest.raises(ServerAway, match="its list of tools does not end after 5 pages"):
            await server.offered()
        await server.close()


async def test_a_program_gets_the_variables_that_are_named_and_nothing_else_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = "sys.stderr.write(' '.join(sorted(os.environ)))"
    lines = await said(script, caplog, env_from=("MCP_KEY",), env={"PLAIN": "1"})

    seen = {name for line in lines for name in line.removeprefix("house: ").split()}
    minimal = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}
    assert {"MCP_KEY", "PLAIN"} <= seen <= {"MCP_KEY", "PLAIN"} | minimal


WORKER = """
import asyncio, sys
from toolsets.mcp.config import McpServerConfig
from toolsets.mcp.server import McpServer

async def main():
    args = ("-m", "tests.toolsets.mcp_server", sys.argv[1])
    config = McpServerConfig(command=sys.executable, args=args, allow=("*",), timeout_seconds=60)
    await McpServer("house", config, {}).offered()
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_program_ends_when_its_worker_is_killed(tmp_path: Path) -> None:
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, str(tmp_path), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"ready\n"
    program = int((tmp_path / "pid").read_text())
    watching = os.pidfd_open(program)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(watching, ended.set)
    try:
        worker.send_signal(signal.SIGKILL)
        await worker.wait()
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(watching)
        os.close(watching)
