"""An agent: the instructions, the tools and the limits that a shift works with, as declared and as recorded."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, InstanceOf, field_validator

from longshift import jsontext
from longshift.evidence import EvidenceCheck
from longshift.funds import FundName
from longshift.limits import Limits
from longshift.messages import Payload
from longshift.tools import Tool, ToolSpec

AGENT_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
"""An agent's name stands in workflow ids, file names and commands."""

UnknownTool = Literal["recoverable", "fatal"]
"""What a call of a tool that does not exist is: an error observation, or the end of the run."""
UnknownOutcome = Literal["ask", "tell", "stop"]
"""What becomes of an effect that may have happened: a person is asked, the model is told, or the run ends."""
ContextPolicy = Literal["stop", "window", "summarize"]
"""What becomes of a run whose transcript outgrows `context_bytes`: it ends, or its oldest exchanges are left out of
what is sent, with or without a summary in their place."""
MalformedCalls = Literal["fail", "observe"]
"""What arguments that are no JSON object make of a turn: a failed model call, or an error observation."""


def _limits(given: object) -> object:
    """The limits, where the changes to the defaults are given. Raises LimitsRefused, naming every bad field."""
    return Limits().changed(dict(given)) if isinstance(given, Mapping) else given


class AgentSpec(Payload):
    """An agent as data: what is recorded of it when a run starts, and all that a workflow knows of it."""

    name: str
    system: str = ""
    """The system prompt."""
    tools: tuple[ToolSpec, ...] = ()
    limits: Limits = Limits()
    unknown_tool: UnknownTool = "recoverable"
    malformed_calls: MalformedCalls = "fail"
    unknown_outcome: UnknownOutcome = "ask"
    context: ContextPolicy = "stop"


class Agent(BaseModel):
    """An agent as its author declares it. Raises pydantic's ValidationError, naming each bad field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    name: str
    system: str
    """The system prompt; the first message of every run."""
    endpoint: str
    """Name of an endpoint in the worker's configuration, unless a run names another."""
    tools: tuple[InstanceOf[Tool[..., Any]], ...] = ()
    mcp_servers: tuple[str, ...] = ()
    """Names of MCP servers in the worker's configuration, whose allowed tools it has too."""
    limits: Annotated[Limits, BeforeValidator(_limits)] = Limits()
    """Limits of its runs, or a mapping of those that differ from the defaults."""
    unknown_tool: UnknownTool = "recoverable"
    malformed_calls: MalformedCalls = "fail"
    unknown_outcome: UnknownOutcome = "ask"
    context: ContextPolicy = "stop"
    fund: FundName | None = None
    """Name of a fund in the journal that pays for the model calls of its runs, unless a run names another."""
    evidence: tuple[InstanceOf[EvidenceCheck], ...] = ()
    """Checks that `longshift eval` judges its runs by, once they have ended. No run knows of them."""

    @field_validator("name")
    @classmethod
    def _usable_name(cls, name: str) -> str:
        if not AGENT_NAME.fullmatch(name):
            raise ValueError("must be 1 to 64 lower-case letters, digits or -, and begin with a letter")
        return name

    @field_validator("endpoint")
    @classmethod
    def _named(cls, endpoint: str) -> str:
        if not endpoint.strip():
            raise ValueError("is blank; name an endpoint of the worker's configuration")
        return endpoint

    @field_validator("mcp_servers")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"names {name[:80]} twice; leave one out")
        return names

    @field_validator("system")
    @classmethod
    def _unicode(cls, system: str) -> str:
        jsontext.check(system)
        return system

    @field_validator("tools", mode="before")
    @classmethod
    def _tools(cls, tools: object) -> object:
        if not isinstance(tools, (list, tuple)):
            raise ValueError("must be a tuple of tools")
        names: set[str] = set()
        for item in tools:
            if not isinstance(item, Tool):
                shown = getattr(item, "__name__", type(item).__name__)
                raise ValueError(f"{shown} is not a tool; put @tool above the function")
            if item.spec.name in names:
                raise ValueError(f"two tools are called {item.spec.name}; give one another name")
            names.add(item.spec.name)
        return tuple(tools)

    @field_validator("evidence", mode="before")
    @classmethod
    def _checks(cls, checks: object) -> object:
        if not isinstance(checks, (list, tuple)):
            raise ValueError("must be a tuple of checks")
        names: set[str] = set()
        for item in checks:
            if not isinstance(item, EvidenceCheck):
                shown = getattr(item, "__name__", type(item).__name__)
                raise ValueError(f"{shown} is not a check; put @evidence_check(...) above the function")
            if item.name in names:
                raise ValueError(f"two checks are called {item.name}; give one another name")
            names.add(item.name)
        return tuple(checks)

    def spec(self) -> AgentSpec:
        """The agent as data."""
        return AgentSpec(
            name=self.name,
            system=self.system,
            tools=tuple(tool.spec for tool in self.tools),
            limits=self.limits,
            unknown_tool=self.unknown_tool,
            malformed_calls=self.malformed_calls,
            unknown_outcome=self.unknown_outcome,
            context=self.context,
        )


def schemas_bytes(tools: Sequence[ToolSpec]) -> int:
    """Bytes of the tools as a model is told of them, the part of `context_bytes` that is not transcript."""
    offered = [tool.model_dump(mode="json", include={"name", "description", "parameters"}) for tool in tools]
    return jsontext.size(jsontext.canonical(offered))
