"""The configuration: what is read from where, which of two wins, and how a mistake is told."""

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from endpoints.config import OpenAIConfig, ReplayConfig
from worker.dev_server import PRAGMAS, RETENTION
from worker.problems import SettingsRefused, _reachable
from worker.settings import DeclaredAgent, PythonAgent, Settings, load_settings

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"
SECRET = "sk-planted-7c1f"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str, name: str = "longshift.toml") -> Path:
    file = Path.cwd() / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def refused(text: str = "", **environ: str) -> str:
    write(text)
    with pytest.raises(SettingsRefused) as raised:
        load_settings(environ=environ)
    return str(raised.value)


def test_without_a_file_the_shop_works_on_authored_turns() -> None:
    settings = load_settings(environ={})

    assert settings.default_agent == "shop"
    assert settings.agents["shop"] == PythonAgent(use="examples.shop.agent:agent")
    authored = settings.endpoints["authored"]
    assert isinstance(authored, ReplayConfig)
    assert authored.file
    assert authored.file.exists()
    assert settings.journal.url.startswith("sqlite:////")


def test_the_environment_wins_over_the_file_and_the_file_over_the_defaults() -> None:
    write('task_queue = "file"\n[worker]\ngrace_seconds = 5\nmax_cached_workflows = 7\n')

    settings = load_settings(environ={"LONGSHIFT_TASK_QUEUE": "mine", "LONGSHIFT_WORKER__GRACE_SECONDS": "6.5"})

    worker = settings.worker
    assert (settings.task_queue, worker.grace_seconds, worker.max_cached_workflows) == ("mine", 6.5, 7)
    assert worker.heartbeat_seconds == 10


def test_a_whole_section_can_stand_in_one_variable_as_json() -> None:
    turns = json.dumps({"kind": "replay", "turns": [{"content": "Done."}]})

    settings = load_settings(environ={"LONGSHIFT_ENDPOINTS__MINE": turns, "LONGSHIFT_WORKER__LOG_LEVEL": ""})

    assert isinstance(settings.endpoints["mine"], ReplayConfig)
    assert settings.worker.log_level == "info"  # an empty variable counts as not set


def test_what_a_file_adds_stands_beside_the_shop_and_the_same_name_replaces_it() -> None:
    write('[agents.writer]\nsystem = "Write."\nendpoint = "authored"\nlimits = {model_calls = 3}\n')
    settings = load_settings(environ={})
    assert sorted(settings.agents) == ["buyer", "shop", "writer"]
    assert isinstance(settings.agents["writer"], DeclaredAgent)

    write('[agents.shop]\nsystem = "Mine."\nendpoint = "authored"\n')
    assert isinstance(load_settings(environ={}).agents["shop"], DeclaredAgent)


def test_a_section_that_does_not_say_what_its_agent_is_changes_the_built_in_one() -> None:
    write("[agents.shop.limits]\nmodel_calls = 14\n")

    settings = load_settings(environ={"LONGSHIFT_AGENTS__BUYER__ENDPOINT": "authored"})

    assert settings.agents["shop"] == PythonAgent(use="examples.shop.agent:agent", limits={"model_calls": 14})
    assert settings.agents["buyer"] == PythonAgent(use="examples.shop.agent:buyer", endpoint="authored")


def test_relative_paths_in_a_file_start_at_the_file_and_those_in_the_environment_here() -> None:
    file = write(
        '[journal]\nurl = "sqlite:///data/j.db"\n[temporal]\nconfig_file = "t.toml"\n'
        '[endpoints.mine]\nkind = "replay"\nfile = "turns.json"\n',
        "conf/mine.toml",
    )

    settings = load_settings(file, environ={"LONGSHIFT_ENDPOINTS__OTHER": '{"kind": "replay", "file": "o.json"}'})

    assert settings.journal.url == f"sqlite:///{file.parent}/data/j.db"
    assert settings.temporal.config_file == file.parent / "t.toml"
    files = {name: config.file for name, config in settings.endpoints.items() if isinstance(config, ReplayConfig)}
    assert (files["mine"], files["other"]) == (file.parent / "turns.json", Path.cwd() / "o.json")
    assert settings.sources.folder == file.parent


def test_a_home_that_nobody_has_leads_to_no_file_and_breaks_nothing() -> None:
    settings = load_settings(environ={"LONGSHIFT_TEMPORAL__CONFIG_FILE": "~nobody-here/temporal.toml"})

    assert settings.temporal.config_file == Path.cwd() / "~nobody-here" / "temporal.toml"


def test_a_postgresql_url_is_left_as_it_is() -> None:
    url = "postgresql://me:word@db/longshift"

    assert load_settings(environ={"LONGSHIFT_JOURNAL__URL": url}).journal.url == url


def test_the_variable_names_the_file_and_the_argument_wins_over_it() -> None:
    write('task_queue = "here"\n')
    named = write('task_queue = "named"\n', "a/named.toml")
    argument = write('task_queue = "argument"\n', "b/argument.toml")
    environ = {"LONGSHIFT_CONFIG": str(named)}

    assert load_settings(environ={}).task_queue == "here"
    assert load_settings(environ=environ).task_queue == "named"
    assert load_settings(argument, environ=environ).task_queue == "argument"


def test_an_endpoints_key_may_stand_in_a_variable_that_begins_like_ours() -> None:
    write('[endpoints.a]\nkind = "openai"\nurl = "http://a/v1"\nmodel = "m"\napi_key_env = "LONGSHIFT_KEY"\n')

    environ = {
        "LONGSHIFT_KEY": SECRET,
        "LONGSHIFT_OTHER_KEY": SECRET,
        "LONGSHIFT_ENDPOINTS__B": '{"kind": "openai", "url": "http://b/v1", "model": "m"}',
        "LONGSHIFT_ENDPOINTS__B__API_KEY_ENV": "LONGSHIFT_OTHER_KEY",
    }
    loaded = load_settings(environ=environ)

    assert SECRET not in repr(loaded)
    assert isinstance(loaded.endpoints["b"], OpenAIConfig)
    assert loaded.endpoints["b"].api_key_env == "LONGSHIFT_OTHER_KEY"


OPENAI = '[endpoints.local]\nkind = "openai"\nurl = "http://127.0.0.1:1/v1"\nmodel = "m"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = \n", "longshift.toml: is not TOML: Invalid value (at line 1, column 5); mend it there"),
        ('task_queu = "x"', "longshift.toml: task_queu: is no key here; did you mean task_queue? The keys are task_q"),
        ("task_queue = 5", 'longshift.toml: task_queue: must be text; put it in double quotes: "..."'),
        ('task_queue = " "', "longshift.toml: task_queue: is blank; give a value or remove the key"),
        ("[worker]\ngrace_seconds = 0", "longshift.toml: worker.grace_seconds: must be greater than 0"),
        ("[worker]\nmax_cached_workflows = true", "worker.max_cached_workflows: must be a number, not true or false"),
        (
            "[worker]\ngrace = 1",
            "worker.grace: is no key here; did you mean grace_seconds? The keys are grace_seconds, ",
        ),
        ("worker = 1", "worker: must be a section of keys; the keys are grace_seconds, heartbeat_seconds"),
        ('[worker]\nlog_level = "loud"', "worker.log_level: must be 'debug', 'info', 'warning' or 'error'"),
        (
            OPENAI + "timeout_second = 1",
            "endpoints.local.timeout_second: is no key here; did you mean timeout_seconds?",
        ),
        (OPENAI + "timeout_seconds = -1", "longshift.toml: endpoints.local.timeout_seconds: must be greater than 0"),
        (
            OPENAI + "price = {input_cents = 1}",
            "local.price.input_cents: is no key here; did you mean input_cents_per_m",
        ),
        ('[endpoints.a]\nkind = "openai"\nmodel = "m"', "longshift.toml: endpoints.a.url: is missing; add it"),
        (
            '[endpoints.a]\nurl = "http://a"',
            'longshift.toml: endpoints.a.kind: must be "openai" or "anthropic" or "replay"',
        ),
        (
            '[endpoints.a]\nkind = "opanai"',
            'longshift.toml: endpoints.a.kind: must be "openai" or "anthropic" or "replay"',
        ),
        ("endpoints = 1", "endpoints: must be a section of keys"),
        ('[endpoints."a b"]\nkind = "replay"\nturns = []', "is no usable name; take 1 to 64 letters, digits"),
        ('[endpoints.a]\nkind = "replay"', "longshift.toml: endpoints.a: give either `file` or `turns`, and not both"),
        ("[agents.a]\nuse = 1", "longshift.toml: agents.a.use: must be text"),
        ('[agents.a]\nuse = "shop"', 'longshift.toml: agents.a.use: must be "module:attribute", such as "shop.tools'),
        ('[agents.a]\nuse = "a:b"\nsystem = "x"', "agents.a.system: is no key here; The keys are use, endpoint"),
        ('[agents.a]\nsystem = "x"', "longshift.toml: agents.a.endpoint: is missing; add it"),
        (
            '[agents.a]\nsystem = "x"\nendpoint = "e"\nlimits = {model_calls = 0, seconds = "1", sec = 1}',
            "agents.a.limits.model_calls: must be a whole number above 0, not 0",
        ),
        (
            '[agents.a]\nuse = "a:b"\nlimits = {model_calls = 0}',
            "agents.a.limits.model_calls: must be a whole number above 0, not 0",
        ),
        ("[agents.shop.limits]\nmodel_call = 1", "agents.shop.limits.model_call: is no limit; the limits are model_ca"),
        ("[agents.other.limits]\nmodel_calls = 1", "longshift.toml: agents.other.system: is missing; add it"),
        (
            '[agents.a]\nsystem = "x"\nendpoint = "e"\ntools = ["a:b", "c"]',
            'agents.a.tools.1: must be "module:attribut',
        ),
        (
            '[agents.a]\nsystem = "x"\nendpoint = "e"\ntools = "stock:count"',
            'agents.a.tools: must be a list, such as ["',
        ),
        ('[journal]\nurl = "file.db"', "longshift.toml: journal.url: must begin with sqlite:/// or postgresql://"),
        ('[journal]\nurl = " "', "longshift.toml: journal.url: "),
        ('default_agent = "sho"', "longshift.toml: default_agent: is no agent here; the agents are buyer, shop"),
    ],
)
def test_a_mistake_in_the_file_names_file_key_and_remedy(text: str, told: str) -> None:
    assert told in refused(text)


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("LONGSHIFT_TASKQUEUE", "a", "LONGSHIFT_TASKQUEUE: is no key here; did you mean task_queue?"),
        (
            "LONGSHIFT_WORKR__GRACE_SECONDS",
            "1",
            "LONGSHIFT_WORKR__GRACE_SECONDS: workr: is no key here; did you mean worker?",
        ),
        (
            "LONGSHIFT_JOURNAL__URL",
            "mysql://h/x",
            "LONGSHIFT_JOURNAL__URL: must begin with sqlite:/// or postgresql://",
        ),
        (
            "LONGSHIFT_JOURNAL__URL",
            "sqlite:///~nobody-here/j.db",
            "LONGSHIFT_JOURNAL__URL: begins in the home of a user who has none here; write the whole path",
        ),
        ("LONGSHIFT_TASK_QUEUE", "5", 'LONGSHIFT_TASK_QUEUE: must be text; put it in double quotes: "..."'),
        ("LONGSHIFT_WORKER", '{"grace_seconds": 0}', "LONGSHIFT_WORKER: grace_seconds: must be greater than 0"),
        ("LONGSHIFT_WORKER__GRACE_SECONDS", "0", "LONGSHIFT_WORKER__GRACE_SECONDS: must be greater than 0"),
        (
            "LONGSHIFT_ENDPOINTS__A__KIND",
            "x",
            'LONGSHIFT_ENDPOINTS__A__KIND: must be "openai" or "anthropic" or "replay"',
        ),
        (
            "LONGSHIFT_CONFIG",
            "none.toml",
            "none.toml: cannot be read (No such file or directory); give the path of a T",
        ),
        ("LONGSHIFT_CONFIG", ".", ": cannot be read (Is a directory)"),
    ],
)
def test_a_mistake_in_the_environment_names_the_variable(variable: str, value: str, told: str) -> None:
    assert told in refused(**{variable: value})


def test_a_variable_below_one_that_is_no_object_is_refused() -> None:
    told = refused(LONGSHIFT_WORKER="5", LONGSHIFT_WORKER__GRACE_SECONDS="1")

    assert "LONGSHIFT_WORKER__GRACE_SECONDS: stands below a variable that is not an object" in told
    assert "LONGSHIFT_WORKER: must be a section of keys" in told


def test_all_mistakes_are_told_at_once_a_line_each() -> None:
    told = refused('a = 1\n[worker]\nb = 2\nheartbeat_seconds = -1\n[endpoints.x]\nkind = "openai"\n', LONGSHIFT_C="1")

    assert len(told.splitlines()) == 6


def test_a_file_may_begin_with_the_mark_that_some_editors_put_there() -> None:
    Path("longshift.toml").write_text('task_queue = "mine"\n', encoding="utf-8-sig")

    assert load_settings(environ={}).task_queue == "mine"


def test_a_file_that_is_not_utf_8_is_named() -> None:
    Path("longshift.toml").write_bytes(b'task_queue = "\xff"')

    with pytest.raises(SettingsRefused, match=r"longshift\.toml: is not UTF-8 \(byte 14\); save it as UTF-8"):
        load_settings(environ={})


@pytest.mark.parametrize(
    "text",
    [
        f'[journal]\nurl = "postgresql://me:{SECRET}@db/x"\nurls = "{SECRET}"',
        f'[endpoints.a]\nkind = "openai"\nurl = "http://me:{SECRET}@host/v1"\nmodel = "m"',
        f'[endpoints.a]\nkind = "openai"\nurl = "http://host/v1"\nmodel = "m"\napi_key_env = "{SECRET}"',
        f'[endpoints.a]\nkind = "{SECRET}"',
        f'api_key = "{SECRET}"',
        f'[temporal]\napi_key = "{SECRET}"',
        f'[worker]\ngrace_seconds = "{SECRET}"',
        f'api_key = "{SECRET}',
    ],
)
def test_no_value_stands_in_an_error(text: str) -> None:
    assert SECRET not in refused(text)


def _fields(model: type[BaseModel]) -> set[str]:
    names = set(model.model_fields)
    for field in model.model_fields.values():
        for below in _reachable(field.annotation):
            names |= _fields(below)
    return names


def test_every_key_is_in_the_documentation() -> None:
    text = DOCS.read_text()

    missing = [name for name in sorted(_fields(Settings)) if f"`{name}`" not in text]

    assert not missing


def test_the_example_in_the_documentation_is_a_working_configuration() -> None:
    example = DOCS.read_text().split("```toml\n")[1].split("```")[0]
    write(example)

    settings = load_settings(environ={})

    assert {"local", "hosted", "rehearsal"} < set(settings.endpoints)
    assert {"writer", "shop-live"} < set(settings.agents)


def test_defaults_in_the_documentation_are_the_defaults() -> None:
    rows: dict[str, str] = {}
    for line in DOCS.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 4 and cells[1].startswith("`"):
            rows[cells[1].strip("`")] = cells[2]
    settings: Any = load_settings(environ={})

    for name in (
        "grace_seconds",
        "heartbeat_seconds",
        "max_concurrent_activities",
        "max_cached_workflows",
        "log_level",
    ):
        assert rows[name] == f"`{getattr(settings.worker, name)}`"
    for name in ("timeout_seconds", "call_ids", "max_body_bytes", "output_limit_field"):
        assert rows[name] == f"`{OpenAIConfig.model_fields[name].default}`"
    assert (rows["task_queue"], rows["default_agent"]) == ("`longshift`", "`shop`")
    for name in ("unknown_tool", "malformed_calls", "context"):
        assert rows[name] == f"`{DeclaredAgent.model_fields[name].default}`"
        assert all(f"`{value}`" in DOCS.read_text() for value in get_args(DeclaredAgent.model_fields[name].annotation))


def test_a_worker_without_mcp_servers_does_not_load_what_they_need() -> None:
    program = (
        "import sys, worker.process, client.main\n"
        "print(sorted({'mcp', 'mcp_types', 'jsonschema', 'httpx2'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=DOCS.parents[1], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


def test_the_service_units_wait_longer_than_the_grace_and_keep_the_servers_data_safe() -> None:
    deploy = DOCS.parents[1] / "deploy"
    worker, server = ((deploy / f"longshift-{name}.service").read_text() for name in ("worker", "server"))

    stop = int(worker.split("TimeoutStopSec=")[1].split()[0])
    assert stop >= load_settings(environ={}).worker.grace_seconds + 15
    assert all(f"--sqlite-pragma {pragma}" in server for pragma in PRAGMAS)
    assert f"--retention {RETENTION // timedelta(hours=1)}h" in server
