"""The one reader of the configuration: a TOML file, then the environment over it.

Nothing else in the house reads the file or acts on a `LONGSHIFT_*` variable; the demonstration hands some on to its
worker, whose settings are read here too. Pydantic's own settings package is left out: its
import alone takes a tenth or more of the two seconds in which a worker is to poll, for thirty lines at the end here.
"""

import ipaddress
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from platformdirs import user_state_path
from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    PrivateAttr,
    StrictBool,
    StringConstraints,
    Tag,
    ValidationError,
    model_validator,
)

from endpoints.config import EndpointConfig
from longshift import jsontext
from longshift.agent import ContextPolicy, MalformedCalls, UnknownOutcome, UnknownTool
from longshift.configured import Configured, UpToADay, Whole
from longshift.funds import FundName
from longshift.limits import Limits
from toolsets.mcp.config import McpServerConfig, ServerName
from worker.problems import SettingsRefused, Sources, lines

FILE = "longshift.toml"
"""The configuration file looked for in the working directory."""
PREFIX = "LONGSHIFT_"
"""Begins the name of every environment variable of ours; `__` goes one level down."""
NAMING_KEYS = re.compile(r"__(API_KEY_ENV|ENV_FROM|HEADERS_FROM(__\w+)?)$")
"""Ends the names of those of them whose values are names of variables that hold keys."""
FILE_VARIABLE = PREFIX + "CONFIG"
"""Names the file, where none is given on the command line."""
SHOP_TURNS = Path(__file__).resolve().parents[1] / "examples" / "shop" / "turns.json"
"""The authored turns of the opening shift, beside this package in a checkout and in a wheel alike."""
BUYER_TURNS = SHOP_TURNS.with_name("buyer_turns.json")
"""The authored turns of a shift that orders."""
BUILT_IN: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "endpoints": {
        "authored": {"kind": "replay", "file": str(SHOP_TURNS)},
        "unhurried": {"kind": "replay", "file": str(SHOP_TURNS), "delay_seconds": "20"},
        "authored-orders": {"kind": "replay", "file": str(BUYER_TURNS)},
    },
    "agents": {"shop": {"use": "examples.shop.agent:agent"}, "buyer": {"use": "examples.shop.agent:buyer"}},
}
"""What is known without any file, and stays known beside one; a section of the same name replaces it whole, but for one
that changes an agent and does not say what it is."""

Places = Annotated[Whole, Field(gt=0, le=10_000)]
Words = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"\S")]
Reference = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]
"""`module:attribute`."""


def _not_in_nobodys_home(url: str) -> str:
    if url.startswith("sqlite") and ":///~" in url:  # as `_anchored` leaves it: a folder of that name would be made
        raise ValueError("begins in the home of a user who has none here; write the whole path")
    return url


JournalUrl = Annotated[
    Words,
    StringConstraints(pattern=r"^(sqlite|postgres(ql)?)(\+\w+)?://"),
    AfterValidator(_not_in_nobodys_home),
]
"""A URL of a database that the journal knows."""
EndpointName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class TemporalSettings(Configured):
    """Which of Temporal's own connection profiles is used; address, namespace, TLS and keys stand there."""

    profile: Words | None = None
    """Name of the profile; none: TEMPORAL_PROFILE, else `default`."""
    config_file: Path | None = None
    """File of the profiles; none: TEMPORAL_CONFIG_FILE, else Temporal's place in the user's configuration folder."""


def _user_journal() -> str:
    return f"sqlite:///{user_state_path('longshift') / 'journal.db'}"


class JournalSettings(Configured):
    """Where runs are recorded."""

    url: JournalUrl = Field(default_factory=_user_journal)
    """`sqlite:///path` or `postgresql://user:password@host/name`; none: a file in the user's state folder."""


class WorkerSettings(Configured):
    """One worker process."""

    grace_seconds: UpToADay = 30
    """Seconds that steps in flight get to finish once the worker is told to end."""
    heartbeat_seconds: UpToADay = 10
    """Seconds without a sign of life after which a worker counts as dead and its step is dealt with."""
    max_concurrent_activities: Places = 100
    """Model calls and tools at once."""
    max_cached_workflows: Places = 1000
    """Runs kept in memory between their steps; one that is not is replayed from its history."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe line that is logged."""


def _listening(address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
        usable = port.isascii() and port.isdigit() and 0 < int(port) <= 65_535
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("must be an IP address and a port, such as 127.0.0.1:9464")
    return address


class TelemetrySettings(Configured):
    """What a worker tells of its work, beside its journal; off unless it is turned on here."""

    prometheus: Annotated[str, AfterValidator(_listening)] | None = None
    """`ADDRESS:PORT` where a worker serves its metrics, under `/metrics`; none: nowhere."""
    traces: StrictBool = False
    """Whether a worker sends traces, where OpenTelemetry's own OTEL_* variables say."""
    content: StrictBool = False
    """Whether they hold what models, tools and people wrote."""
    log_format: Literal["text", "json"] = "text"
    """How the log is written: lines for people, or a JSON object a line."""

    @model_validator(mode="after")
    def _of_traces(self) -> Self:
        if self.content and not self.traces:
            raise ValueError("`content` is for traces; set traces = true, or leave it out")
        return self


def _good_limits(limits: dict[str, object]) -> dict[str, object]:
    Limits().changed(limits)
    return limits


ChangedLimits = Annotated[dict[str, object], AfterValidator(_good_limits)]


class PythonAgent(Configured):
    """An agent that is declared in Python. The section's name is its name."""

    use: Reference
    """`module:attribute` of a longshift.Agent."""
    endpoint: Words | None = None
    """Name of an endpoint, instead of the agent's own."""
    mcp_servers: tuple[Words, ...] | None = None
    """Names of MCP servers, instead of the agent's own."""
    fund: FundName | None = None
    """Name of a fund, instead of the agent's own."""
    limits: ChangedLimits = Field(default_factory=dict)
    """Limits that differ from the agent's own."""


class DeclaredAgent(Configured):
    """An agent that is declared here. The section's name is its name."""

    system: str
    """The system prompt."""
    endpoint: Words
    """Name of an endpoint."""
    tools: tuple[Reference, ...] = ()
    """`module:attribute` of each tool."""
    evidence: tuple[Reference, ...] = ()
    """`module:attribute` of each check that `longshift eval` judges its runs by."""
    mcp_servers: tuple[Words, ...] = ()
    """Names of MCP servers, whose allowed tools it has too."""
    limits: ChangedLimits = Field(default_factory=dict)
    """Limits that differ from the defaults."""
    unknown_tool: UnknownTool = "recoverable"
    """What a call of a tool that does not exist is: an error observation, or the end of the run."""
    unknown_outcome: UnknownOutcome = "ask"
    """What becomes of an effect that may have happened: a person is asked, the model is told, or the run ends."""
    context: ContextPolicy = "stop"
    """What becomes of a run whose transcript outgrows `context_bytes`: it ends, or its oldest exchanges are left out of
    what is sent, with or without a summary in their place."""
    malformed_calls: MalformedCalls = "fail"
    """What arguments that are no JSON object make of a turn: a failed model call, or an error observation."""
    fund: FundName | None = None
    """Name of a fund in the journal that pays for the model calls of its runs, unless a run names another."""


def _kind_of_agent(section: object) -> str:
    in_python = isinstance(section, PythonAgent) or (isinstance(section, dict) and "use" in section)
    return (PythonAgent if in_python else DeclaredAgent).__name__


AgentSettings = Annotated[
    Annotated[PythonAgent, Tag(PythonAgent.__name__)] | Annotated[DeclaredAgent, Tag(DeclaredAgent.__name__)],
    Discriminator(_kind_of_agent),
]


class Settings(Configured):
    """The whole configuration."""

    task_queue: Words = "longshift"
    """Temporal task queue that clients put runs on and workers take them from."""
    default_agent: Words = "shop"
    """Name of the agent that works where a run names none."""
    temporal: TemporalSettings = TemporalSettings()
    journal: JournalSettings = Field(default_factory=JournalSettings)
    worker: WorkerSettings = WorkerSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    endpoints: dict[EndpointName, EndpointConfig]
    agents: dict[str, AgentSettings]
    mcp_servers: dict[ServerName, McpServerConfig] = Field(default_factory=dict)

    _sources: Sources = PrivateAttr()

    @property
    def sources(self) -> Sources:
        """Where each value came from, for errors and for the search of the user's modules."""
        return self._sources


def load_settings(file: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the configuration.

    Args:
        file: the TOML file; none: the one LONGSHIFT_CONFIG names, else `longshift.toml` here, if there is one.
        environ: the environment.

    Raises:
        SettingsRefused: with a line for each mistake, naming file or variable, key and remedy.
    """
    named = file or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    path = (named or Path(FILE)).absolute()
    found = _read_file(path) if named or path.exists() else None
    folder = path.parent if found is not None else Path.cwd()
    given, problems, variables = _read_environment(environ, key_variables(found or {}, environ))
    sources = Sources(file=path if found is not None else None, folder=folder, variables=variables)
    merged = _merge(_anchored(found or {}, folder), _anchored(given, Path.cwd()))
    for name, built_in in BUILT_IN.items():
        if isinstance(merged.setdefault(name, {}), dict):
            merged[name] = {**built_in, **merged[name]}
    agents = merged["agents"] if isinstance(merged["agents"], dict) else {}
    for name, section in agents.items():
        if isinstance(section, dict) and not {"use", "system"} & section.keys():
            agents[name] = {**BUILT_IN["agents"].get(name, {}), **section}
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        raise SettingsRefused(problems + lines(error, Settings, sources)) from None
    if settings.default_agent not in settings.agents:
        known = ", ".join(sorted(settings.agents))
        problems.append(sources.line(("default_agent",), f"is no agent here; the agents are {known}"))
    if problems:
        raise SettingsRefused(problems)
    settings._sources = sources
    return settings


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        problem = f"cannot be read ({reason}); give the path of a TOML file with --config or {FILE_VARIABLE}"
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 (byte {error.start}); save it as UTF-8"
    except tomllib.TOMLDecodeError as error:
        problem = f"is not TOML: {error}; mend it there"
    raise SettingsRefused([f"{path}: {problem}"])


def key_variables(found: Mapping[str, Any], environ: Mapping[str, str]) -> set[str]:
    """The variables that hold keys of endpoints and MCP servers: their names may begin like ours, and they are none of
    ours.

    Args:
        found: what stands in the file.
        environ: the environment, or as much of it as counts.
    """
    named: list[object] = [_value(text) for name, text in environ.items() if NAMING_KEYS.search(name)]
    for group, keys in (("endpoints", ("api_key_env",)), ("mcp_servers", ("env_from", "headers_from"))):
        sections = found.get(group)
        for section in sections.values() if isinstance(sections, dict) else ():
            named += [section.get(key) for key in keys] if isinstance(section, dict) else []
    return {name for value in named for name in _texts(value)}


def _texts(value: object) -> Iterator[str]:
    """Every text in a value of the configuration."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _read_environment(
    environ: Mapping[str, str], key_variables: set[str]
) -> tuple[dict[str, Any], list[str], dict[tuple[str, ...], str]]:
    """What the variables say, as the file would say it; what is wrong with them; and which variable said what.

    A value is read as JSON where it is JSON, else as text; an empty one counts as not set.
    """
    given: dict[str, Any] = {}
    problems: list[str] = []
    variables: dict[tuple[str, ...], str] = {}
    for name in sorted(name for name in environ if name.startswith(PREFIX) and environ[name]):
        if name == FILE_VARIABLE or name in key_variables:
            continue
        keys = tuple(name.removeprefix(PREFIX).lower().split("__"))
        place: Any = given
        for key in keys[:-1]:
            place = place.setdefault(key, {}) if isinstance(place, dict) else None
        if not isinstance(place, dict):
            problems.append(f"{name}: stands below a variable that is not an object; remove one of the two")
            continue
        place[keys[-1]] = _value(environ[name])
        variables[keys] = name
    return given, problems, variables


def _value(text: str) -> object:
    try:
        return jsontext.parse(text)
    except jsontext.JsonRefused:
        return text


def _anchored(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """`data` with its relative paths resolved against `folder`; what is not a path where one belongs is left alone."""
    journal = data.get("journal")
    places = [(data.get("temporal"), "config_file")]
    for group, key in (("endpoints", "file"), ("mcp_servers", "cwd")):
        sections = data.get(group)
        places += [(section, key) for section in sections.values()] if isinstance(sections, dict) else []
    for section, key in places:
        if isinstance(section, dict) and isinstance(section.get(key), str):
            section[key] = str(folder / _at_home(section[key]))
    if isinstance(journal, dict) and isinstance(url := journal.get("url"), str):
        driver, separator, file = url.partition(":///")
        if separator and driver.startswith("sqlite") and file and file != ":memory:":
            path = _at_home(file)
            journal["url"] = f"{driver}:///{path if str(path).startswith('~') else folder / path}"
    return data


def _at_home(path: str) -> Path:
    """A path whose `~` is a home; as it stands where nobody has that one."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(merged.get(key), dict) and isinstance(value, dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged
