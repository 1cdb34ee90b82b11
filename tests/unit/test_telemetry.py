"""Telemetry without a server: its names, its log, what it imports, and how its configuration is refused."""

import inspect
import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes, exception_attributes, server_attributes
from temporalio import activity
from temporalio.testing import ActivityEnvironment

from toolsets.mcp.secrets import Secrets
from worker.problems import SettingsRefused
from worker.settings import load_settings
from worker.telemetry import keys_of
from worker.telemetry import spans as conventions
from worker.telemetry import tracing as exporting
from worker.telemetry.lines import JsonLines
from worker.telemetry.metrics import serving

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-planted-0123456789abcdefghijklmnop"


def test_the_names_are_those_of_the_conventions_in_force() -> None:
    stable = {*vars(error_attributes), *vars(server_attributes)}
    source = inspect.getsource(gen_ai_attributes)
    said = dict(re.findall(r'^GEN_AI_\w+: Final = "([\w.]+)"\n"""\n(.*?)\n"""', source, re.MULTILINE | re.DOTALL))
    # Those that "moved" are in force elsewhere; those that were replaced or removed say so.
    in_force = {name for name, text in said.items() if not re.match("Deprecated: (Replaced|Removed)", text)}
    names = [
        value
        for name, value in vars(conventions).items()
        if name.isupper() and isinstance(value, str) and value.startswith(("gen_ai.", "server.", "error."))
    ]

    assert len(names) > 20
    assert [name for name in names if name not in in_force and name.replace(".", "_").upper() not in stable] == []
    assert not {"gen_ai.system", "gen_ai.prompt"} & in_force
    operations = gen_ai_attributes.GenAiOperationNameValues
    assert (operations.CHAT.value, operations.EXECUTE_TOOL.value) == (conventions.CHAT, conventions.EXECUTE_TOOL)
    providers = {value.value for value in gen_ai_attributes.GenAiProviderNameValues}
    assert {"openai", "anthropic"} <= providers
    assert exporting.WORDS == (exception_attributes.EXCEPTION_MESSAGE, exception_attributes.EXCEPTION_STACKTRACE)


def line(record: logging.LogRecord, **options: Any) -> dict[str, Any]:
    """A record as it is logged."""
    text = JsonLines(Secrets([KEY]), **options).format(record)
    assert "\n" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def record(text: str, **extra: Any) -> logging.LogRecord:
    """A record of the worker's log."""
    return logging.getLogger("longshift.worker").makeRecord(
        "longshift.worker", logging.WARNING, "file", 1, text, (), extra.pop("exc_info", None), extra=extra
    )


def test_a_line_of_the_log_is_one_json_object_without_keys() -> None:
    found = line(record(f"two\nlines and {KEY}"), ids=lambda: {"trace_id": "1", "span_id": "2"})

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", found.pop("time"))
    assert found == {
        "level": "warning",
        "logger": "longshift.worker",
        "message": "two\nlines and ***",
        "trace_id": "1",
        "span_id": "2",
    }


@pytest.mark.parametrize(
    "variables",
    [
        {"LONGSHIFT_JOURNAL__URL": f"postgresql://longshift:{KEY}@db.example/journal"},
        {"LONGSHIFT_JOURNAL__URL": f"postgresql://longshift:{KEY.replace('-', '%2D')}@db.example/journal"},
        {"OTEL_EXPORTER_OTLP_HEADERS": f"x-other=1,Authorization=Bearer {KEY}"},
        {"OTEL_EXPORTER_OTLP_HEADERS": f"x-other=1,Authorization=Bearer%20{KEY}"},
    ],
    ids=["a password", "an encoded password", "a header", "an encoded header"],
)
def test_a_key_is_known_however_its_variable_writes_it(variables: dict[str, str]) -> None:
    secrets = Secrets(keys_of(load_settings(environ=variables), variables))

    assert secrets.hide(f"<{KEY}>") == "<***>"
    assert "sk-" not in secrets.hide(variables.get("LONGSHIFT_JOURNAL__URL", "")).replace("%2D", "-")


@pytest.mark.parametrize("mark", ["/", "#", "?", "["])
def test_a_password_is_known_by_the_rules_by_which_the_journal_is_opened(mark: str) -> None:
    variables = {"LONGSHIFT_JOURNAL__URL": f"postgresql://longshift:planted{mark}password@db.example/journal"}

    assert Secrets(keys_of(load_settings(environ=variables), {})).hide(f"<planted{mark}password>") == "<***>"


def test_a_url_that_cannot_be_read_has_no_password() -> None:
    variables = {"LONGSHIFT_JOURNAL__URL": "postgresql://longshift:planted-password@db.example:port/journal"}

    assert not any(keys_of(load_settings(environ=variables), {}))


def test_an_exception_stands_in_its_line_whole_and_without_keys() -> None:
    try:
        raise ValueError(f"bad {KEY}")
    except ValueError:
        found = line(record("it broke", exc_info=sys.exc_info()))

    assert found["exception"].startswith("Traceback")
    assert found["exception"].endswith("ValueError: bad ***")


async def _logged() -> dict[str, Any]:
    return line(record("at work"))


@pytest.mark.asyncio
async def test_a_line_names_its_run_whoever_writes_it() -> None:
    environment = ActivityEnvironment()
    info = environment.info
    about = {
        "run_id": info.workflow_id,
        "activity": info.activity_type,
        "activity_id": info.activity_id,
        "attempt": info.attempt,
    }

    assert about.items() <= (await environment.run(_logged)).items()
    by_logger = record("late", temporal_activity={"workflow_id": "r", "activity_type": "a", "attempt": 2})
    assert {"run_id": "r", "activity": "a", "attempt": 2}.items() <= line(by_logger).items()
    assert line(record("replayed", temporal_workflow={"workflow_id": "r"}))["run_id"] == "r"
    assert "run_id" not in line(record("starting"))
    assert not activity.in_activity()


def test_what_is_off_is_not_imported() -> None:
    program = """
import sys, client.main, worker.process
from worker.settings import load_settings
from worker.telemetry import Telemetry
telemetry = Telemetry(load_settings(environ={}))
assert telemetry.interceptors(None) == [] and telemetry.runtime is None
assert telemetry.endpoints({"a": 1}, {}, None) == {"a": 1}
print(sorted(n for n in sys.modules if n.startswith(("opentelemetry", "worker.telemetry.", "temporalio.contrib.open"))))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_traces_without_opentelemetry_name_what_to_install() -> None:
    program = """
import sys
sys.modules["opentelemetry.sdk"] = None
from worker.settings import load_settings
from worker.telemetry import Telemetry
try:
    Telemetry(load_settings(environ={"LONGSHIFT_TELEMETRY__TRACES": "true"}))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("SettingsRefused: LONGSHIFT_TELEMETRY__TRACES: needs opentelemetry.sdk")
    assert "which is not installed; install Longshift's extra telemetry (in a checkout: .uv/bin/uv sync" in done.stdout
    assert "--extra telemetry), or set traces = false" in done.stdout


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"PROMETHEUS": ":9464"}, "must be an IP address and a port, such as 127.0.0.1:9464"),
        ({"PROMETHEUS": "localhost:9464"}, "must be an IP address and a port"),
        ({"PROMETHEUS": "127.0.0.1:0"}, "must be an IP address and a port"),
        ({"CONTENT": "true"}, "`content` is for traces; set traces = true, or leave it out"),
        ({"TRACES": '"yes"'}, "LONGSHIFT_TELEMETRY__TRACES: must be a valid boolean"),
        ({"LOG_FORMAT": "xml"}, "must be 'text' or 'json'"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_remedy(variables: dict[str, str], says: str) -> None:
    environ = {f"LONGSHIFT_TELEMETRY__{name}": value for name, value in variables.items()}

    with pytest.raises(SettingsRefused) as refused:
        load_settings(environ=environ)

    assert says in str(refused.value)


def test_an_address_that_nobody_can_listen_on_is_refused_where_it_stands() -> None:
    settings = load_settings(environ={"LONGSHIFT_TELEMETRY__PROMETHEUS": "203.0.113.1:9464"})

    with pytest.raises(SettingsRefused) as refused:
        serving(settings)

    assert "LONGSHIFT_TELEMETRY__PROMETHEUS: 203.0.113.1:9464 cannot be listened on" in str(refused.value)
    assert "each worker of a machine needs a port of its own" in str(refused.value)
