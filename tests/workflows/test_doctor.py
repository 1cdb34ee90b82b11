"""The doctor against real servers: what is well, what is broken, what hangs; each told by itself, with its remedy."""

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from activities.run_activities import Activities
from client import doctor
from client.findings import Finding
from store.journal import Journal
from store.migrations import HEAD
from tests.endpoints.raw_server import Answer, RawServer, completion, raw_server, reply
from tests.toolsets.mcp_house import PATIENCE, stdio
from worker.settings import Settings, load_settings

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEY = "sk-planted-0123456789abcdefghijklmnop"
MODELS = json.dumps({"object": "list", "data": [{"id": "m1"}, {"id": "m2:latest"}]})
NOBODY = "127.0.0.1:9"
"""Where nothing listens."""


def settings_of(folder: Path, text: str) -> Settings:
    """The settings of a file."""
    file = folder / "longshift.toml"
    file.write_text(text)
    return load_settings(file, environ={})


async def found(settings: Settings, environ: Mapping[str, str] | None = None, **options: Any) -> dict[str, Finding]:
    """What is found, by what was looked at; `agents 2` is the second finding about agents."""
    told: dict[str, Finding] = {}
    async for finding in doctor.findings(settings, environ=environ or {}, **options):
        name = f"{finding.check} {finding.name}" if finding.name else finding.check
        told[next(key for key in (name, *(f"{name} {n}" for n in range(2, 99))) if key not in told)] = finding
        assert KEY not in finding.text
    return told


def endpoint(name: str, server: RawServer, model: str = "m1", kind: str = "openai", more: str = "") -> str:
    """The section of an endpoint at a server of the test."""
    url = server.url if kind == "openai" else server.url.removesuffix("/v1")
    return f'[endpoints.{name}]\nkind = "{kind}"\nurl = "{url}"\nmodel = "{model}"\n{more}\n'


async def test_what_is_well_is_told_and_nothing_is_paid(
    client: Client, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", client.service_client.config.target_host)
    monkeypatch.setenv("PLANTED", KEY)
    monkeypatch.setattr(doctor, "CHECK_SECONDS", PATIENCE)
    journal = await Journal.open(f"sqlite:///{tmp_path}/journal.db")
    program = stdio(tmp_path)
    async with raw_server(reply(MODELS)) as server:
        settings = settings_of(
            tmp_path,
            f'task_queue = "{queue}"\n[journal]\nurl = "sqlite:///journal.db"\n'
            + endpoint("local", server, "m2")
            + endpoint("keyed", server, more='api_key_env = "PLANTED"')
            + endpoint("claude", server, kind="anthropic", more='api_key_env = "PLANTED"')
            + f"[mcp_servers.house]\ncommand = {json.dumps(program['command'])}\nargs = {json.dumps(program['args'])}\n"
            + f'cwd = {json.dumps(str(program["cwd"]))}\nallow = ["look"]\n',
        )
        idle = Activities(journal, {}, {}, {}, 3.0)
        async with Worker(client, task_queue=queue, activities=idle.all()):
            told = await found(settings, {"PLANTED": KEY})
    await journal.close()

    lacking = told.pop("search attributes")
    assert (lacking.state, "LongshiftStatus" in lacking.text) == ("wrong", True)
    assert lacking.text.endswith("register them with: longshift search-attributes")
    assert {name for name, finding in told.items() if finding.state != "ok"} == set()
    assert ", namespace default, Temporal 1." in told["server"].text
    assert f" on the queue {queue}: " in told["worker"].text
    assert told["journal"].text.endswith(f"journal.db can be written, schema {HEAD}")
    assert told["key keyed"].text == "PLANTED is set"
    listed = f"answers, and has the model m2 (GET {server.url}/models; no model call was sent)"
    assert told["endpoint local"].text == listed
    assert told["mcp server house"].text == "house 1: 1 tools can be used"
    asked = {(line, headers.get("authorization"), headers.get("x-api-key")) for line, headers, _ in server.requests}
    assert asked == {
        ("GET /v1/models HTTP/1.1", None, None),
        ("GET /v1/models HTTP/1.1", f"Bearer {KEY}", None),
        ("GET /v1/models?limit=1000 HTTP/1.1", None, KEY),
    }


async def test_each_broken_part_is_told_with_its_remedy_while_others_are_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", NOBODY)
    monkeypatch.setenv("PLANTED", KEY)
    monkeypatch.setattr(doctor, "CHECK_SECONDS", PATIENCE)
    (tmp_path / "journal.db").write_text("no database at all, and long enough to be seen as none" * 99)
    (tmp_path / "broken_tools.py").write_text(f"raise ValueError('broken')  # {KEY}\n")
    refusing = reply(json.dumps({"error": {"message": f"bad key {KEY}"}}), 401)
    async with (
        raw_server(reply(MODELS)) as server,
        raw_server(refusing) as refuses,
        raw_server(reply("", 404)) as bare,
        raw_server(reply("", 500)) as fails,
    ):
        settings = settings_of(
            tmp_path,
            '[journal]\nurl = "sqlite:///journal.db"\n'
            + endpoint("misspelt", server, "m3")
            + endpoint("unset", server, more='api_key_env = "NOT_SET"')
            + endpoint("refused", refuses, more='api_key_env = "PLANTED"')
            + endpoint("bare", bare)
            + endpoint("fails", fails)
            + f'[endpoints.away]\nkind = "openai"\nurl = "http://{NOBODY}/v1"\nmodel = "m1"\n'
            + '[endpoints.lost]\nkind = "replay"\nfile = "nowhere.json"\n'
            + '[agents.broken]\nuse = "broken_tools:agent"\n'
            + '[agents.missing]\nuse = "no_such_module:agent"\n'
            + '[mcp_servers.gone]\ncommand = "no-such-program"\nallow = ["*"]\n'
            + '[mcp_servers.keyless]\ncommand = "true"\nenv_from = ["NOT_SET"]\nallow = ["*"]\n'
            + '[mcp_servers.mute]\ncommand = "sh"\nargs = ["-c", "echo out of order >&2"]\nallow = ["*"]\n',
        )
        told = await found(settings, {"PLANTED": KEY})

    states = {name: finding.state for name, finding in told.items()}
    file = tmp_path / "longshift.toml"
    assert states == {
        "server": "wrong",
        "search attributes": "skipped",
        "worker": "skipped",
        "journal": "wrong",
        "telemetry": "ok",
        "agents": "wrong",
        "agents 2": "wrong",
        "endpoint authored": "ok",
        "endpoint unhurried": "ok",
        "endpoint authored-orders": "ok",
        "endpoint misspelt": "note",
        "key unset": "wrong",
        "endpoint unset": "skipped",
        "key refused": "ok",
        "endpoint refused": "wrong",
        "endpoint bare": "note",
        "endpoint fails": "wrong",
        "endpoint away": "wrong",
        "endpoint lost": "wrong",
        "mcp server gone": "wrong",
        "mcp server keyless": "wrong",
        "mcp server mute": "wrong",
    }
    says = {
        "server": "start one with: longshift up",
        "journal": "point the URL at another path",
        "agents": f"{file}: agents.broken.use: importing broken_tools failed with ValueError: broken; mend the module",
        "agents 2": f"{file}: agents.missing.use: there is no module no_such_module",
        "endpoint misspelt": "it lists: m1, m2:latest; mend `model` where it is misspelt, or check it with --live",
        "key unset": f"{file}: endpoints.unset.api_key_env: NOT_SET is not set on this worker",
        "endpoint refused": "HTTP 401: the key is not accepted; check the variable that api_key_env names",
        "endpoint bare": "answers with HTTP 404 and no list of models",
        "endpoint fails": f"HTTP 500 (GET {fails.url}/models)",
        "endpoint away": "check its url and that the server runs",
        "endpoint lost": f"{file}: endpoints.lost: ",
        "mcp server gone": "it cannot be started: No such file or directory",
        "mcp server keyless": "the environment variable NOT_SET, which `env_from` names, is not set",
        "mcp server mute": "it said: out of order; start it, or mend its section",
    }
    assert [name for name, text in says.items() if text not in told[name].text] == []


async def test_what_hangs_is_given_up_and_holds_up_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", NOBODY)
    monkeypatch.setattr(doctor, "CHECK_SECONDS", 0.5)
    module = "import pathlib, time\nwhile not pathlib.Path(__file__).with_name('over').exists(): time.sleep(0.01)\n"
    (tmp_path / "endless_tools.py").write_text(module)

    async def never(_writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with raw_server(never) as silent:
        settings = settings_of(tmp_path, endpoint("silent", silent) + '[agents.endless]\nuse = "endless_tools:agent"\n')
        told = await found(settings)

    (tmp_path / "over").touch()
    assert told["endpoint silent"].text.startswith("not done within 0.5 s; see whether its server is up")
    assert told["agents"].text == "not done within 0.5 s; mend what their modules do while they are imported"
    assert told["endpoint authored"].state == "ok"


@pytest.mark.parametrize(
    ("answer", "state", "says"),
    [
        (reply(json.dumps(completion(content="ok"))), "ok", "answered one model call: 7 + 3 tokens, 0.0022 cents"),
        (
            reply(json.dumps(completion(content="", finish_reason="length"))),
            "note",
            "answered one model call, though with no whole turn: endpoint 'local': the reply was cut",
        ),
        (reply("", 402), "wrong", "HTTP 402: payment is required"),
    ],
)
async def test_only_live_sends_a_model_call_and_tells_what_it_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, state: str, says: str
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", NOBODY)
    price = "price = { input_cents_per_million = 100, output_cents_per_million = 500 }"

    async def either(writer: asyncio.StreamWriter) -> None:
        posted = server.requests[-1][0].startswith("POST")
        await (answer if posted else reply(MODELS))(writer)

    async with raw_server(either) as server:
        told = await found(settings_of(tmp_path, endpoint("local", server, more=price)), live=True)

    assert told["endpoint local"].state == state
    assert says in told["endpoint local"].text
    assert [line.split()[0] for line, _, _ in server.requests] == ["GET", "POST"]
    assert server.sent_json(1)["max_tokens"] <= 64


@pytest.mark.parametrize(
    ("revision", "state", "says"),
    [
        ("0001", "note", f"has the schema 0001; the next worker or client brings it to {HEAD}"),
        ("9999", "wrong", f"newer than this version's {HEAD}; install the version that its workers have"),
    ],
)
async def test_a_journal_of_another_version_is_told_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str, state: str, says: str
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", NOBODY)
    await (await Journal.open(f"sqlite:///{tmp_path}/journal.db")).close()
    with sqlite3.connect(tmp_path / "journal.db") as database:
        database.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    database.close()

    told = await found(settings_of(tmp_path, '[journal]\nurl = "sqlite:///journal.db"\n'))

    assert told["journal"].state == state
    assert says in told["journal"].text
    with sqlite3.connect(tmp_path / "journal.db") as database:
        assert database.execute("SELECT version_num FROM alembic_version").fetchall() == [(revision,)]
    database.close()
