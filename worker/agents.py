"""From the configuration's agents to agents that can work: imports what the operator names, and checks it."""

import importlib
import sys
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from longshift.agent import Agent
from longshift.evidence import EvidenceCheck
from longshift.tools import Tool
from worker.problems import SettingsRefused, Sources
from worker.settings import AgentSettings, PythonAgent, Settings

SHOWN = 300
"""Characters shown of an error in a user's own module."""


class _NotFound(Exception):
    """A `module:attribute` leads nowhere; the text says where it ends, and what to do."""


def load_agents(settings: Settings) -> dict[str, Agent]:
    """The configured agents by name. Their modules are imported, so their top level runs.

    The folder of the configuration file, else the working directory, is searched after all that is installed: a
    user's `client.py` hides nothing of ours.

    Raises:
        SettingsRefused: with a line for each mistake, naming agent, key and remedy.
    """
    folder = str(settings.sources.folder)
    if folder not in sys.path:
        sys.path.append(folder)
    agents: dict[str, Agent] = {}
    problems: list[str] = []
    for name, section in settings.agents.items():
        found = _load(name, section, settings.sources, problems)
        if found is None:
            continue
        agents[name] = found
        if found.endpoint not in settings.endpoints:
            known = ", ".join(sorted(settings.endpoints))
            text = f"there is no endpoint {found.endpoint}; the endpoints are {known}"
            problems.append(settings.sources.line(("agents", name, "endpoint"), text))
        for server in found.mcp_servers:
            if server not in settings.mcp_servers:
                known = ", ".join(sorted(settings.mcp_servers)) or "none"
                text = f"there is no MCP server {server}, give it a section [mcp_servers.{server}]; there are: {known}"
                problems.append(settings.sources.line(("agents", name, "mcp_servers"), text))
    if problems:
        raise SettingsRefused(problems)
    return agents


def _load(name: str, section: AgentSettings, sources: Sources, problems: list[str]) -> Agent | None:
    """The agent of one section; None after adding what is wrong with it to `problems`."""
    before = len(problems)
    if isinstance(section, PythonAgent):
        place = ("agents", name, "use")
        base = _found(section.use, place, sources, problems)
        if base is not None and not isinstance(base, Agent):
            text = f"{section.use} is {_kind(base)}, not an agent; make it one with longshift.Agent(...)"
            problems.append(sources.line(place, text))
        if not isinstance(base, Agent) or len(problems) > before:
            return None
        servers = base.mcp_servers if section.mcp_servers is None else section.mcp_servers
        own = {
            "endpoint": section.endpoint or base.endpoint,
            "fund": section.fund or base.fund,
            "mcp_servers": servers,
            "limits": base.limits.changed(section.limits),
        }
        given: dict[str, Any] = {**dict(base), **own}
    else:
        named = {
            "tools": (section.tools, Tool, "a tool; put @tool above the function"),
            "evidence": (section.evidence, EvidenceCheck, "a check; put @evidence_check(...) above the function"),
        }
        found: dict[str, tuple[object, ...]] = {}
        for key, (references, kind, remedy) in named.items():
            things = []
            for position, reference in enumerate(references):
                where_it_stands = ("agents", name, key, position)
                thing = _found(reference, where_it_stands, sources, problems)
                if thing is not None and not isinstance(thing, kind):
                    text = f"{reference} is {_kind(thing)}, not {remedy}"
                    problems.append(sources.line(where_it_stands, text))
                things.append(thing)
            found[key] = tuple(things)
        if len(problems) > before:
            return None
        given = {**dict(section), **found}
    try:
        return Agent(**{**given, "name": name})
    except ValidationError as error:
        for details in error.errors(include_url=False, include_input=False):
            where = () if details["loc"][:1] == ("name",) else details["loc"]  # the section's name is the agent's
            problems.append(sources.line(("agents", name, *where), details["msg"].removeprefix("Value error, ")))
        return None


def _found(reference: str, place: Sequence[str | int], sources: Sources, problems: list[str]) -> object:
    """What `reference` leads to; None after adding to `problems` why it leads nowhere."""
    try:
        return _resolve(reference, sources)
    except _NotFound as error:
        problems.append(sources.line(place, str(error)))
        return None


def _resolve(reference: str, sources: Sources) -> object:
    module, _, attribute = reference.partition(":")
    try:
        value: object = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise _NotFound(f"importing {module} failed: it imports {error.name}, which is not installed") from None
        where = f"in {sources.folder} or among the installed packages"
        raise _NotFound(f"there is no module {error.name} {where}; mend the name, or move the file there") from None
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())[:SHOWN]
        raise _NotFound(f"importing {module} failed with {type(error).__name__}: {said}; mend the module") from None
    for step in attribute.split("."):
        if not hasattr(value, step):
            raise _NotFound(f"the module {module} has no {attribute}; mend the name")
        value = getattr(value, step)
    if value is None:
        raise _NotFound(f"{reference} is None; name what is declared there")
    return value


def _kind(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1] in 'AEIOUaeiou' else 'a'} {kind}"
