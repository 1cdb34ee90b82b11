"""What a run starts with: the agent it names, its limits, its endpoint, and the first messages of its transcript."""

from collections.abc import Mapping

from activities.toolbox import Toolbox
from endpoints.config import EndpointConfig, ServerConfig
from longshift.agent import Agent
from longshift.contracts import EndpointFacts, RunSpec
from longshift.episode import validate_episode
from longshift.funds import UNCOUNTED
from longshift.messages import Message, SystemMessage, UserMessage
from longshift.run_input import InputRefused, RunInput

UNTIMED_SECONDS = 3600.0
"""Seconds a call may take at an endpoint that has no time-out of its own, which only a replay may have."""


def resolve(
    given: RunInput, agents: Mapping[str, Agent], endpoints: Mapping[str, EndpointConfig], heartbeat_seconds: float
) -> RunSpec:
    """What the run works with.

    Raises InputRefused for a name that this worker does not know, and for a fund that could not count the calls.
    """
    agent = agents.get(given.agent)
    if agent is None:
        raise InputRefused({"agent": _unknown("agent", given.agent, agents)})
    name = given.endpoint or agent.endpoint
    config = endpoints.get(name)
    if config is None:
        raise InputRefused({"endpoint": _unknown("endpoint", name, endpoints)})
    spec = agent.spec()
    spec = spec.model_copy(update={"limits": spec.limits.changed(given.limits)})
    facts = EndpointFacts(
        name=name,
        kind=config.kind,
        model=config.model if isinstance(config, ServerConfig) else config.kind,
        timeout_seconds=config.timeout_seconds or UNTIMED_SECONDS,
    )
    fund = given.fund or agent.fund
    if fund is not None and config.price is None and not spec.limits.estimate:
        raise InputRefused({"fund": UNCOUNTED})
    notes = _notes(spec.limits.estimate, config)
    return RunSpec(agent=spec, endpoint=facts, heartbeat_seconds=heartbeat_seconds, notes=notes, fund=fund)


async def equip(spec: RunSpec, agent: Agent, toolbox: Toolbox) -> RunSpec:
    """The same with all tools of the agent, those of its MCP servers too. Raises what the toolbox raises."""
    offered = await toolbox.offered(agent)
    tools = tuple(tool.spec for tool in offered.tools)
    return spec.model_copy(
        update={
            "agent": spec.agent.model_copy(update={"tools": tools}),
            "notes": spec.notes + offered.notes,
            "tool_servers": offered.servers,
        }
    )


def opening(given: RunInput, spec: RunSpec) -> tuple[Message, ...]:
    """The first messages: the agent's system prompt, unless the caller gives one, then the task or the caller's own.

    Raises InputRefused for messages that a model cannot be asked to go on from.
    """
    asked: tuple[Message, ...] = given.messages or (UserMessage(content=given.task or ""),)
    own = asked[0].role == "system" or not spec.agent.system
    messages = asked if own else (SystemMessage(content=spec.agent.system), *asked)
    report = validate_episode(messages)
    if report.problem is not None:
        raise InputRefused({"messages": str(report.problem)})
    if report.unanswered:
        text = f"the call {report.unanswered[0]} has no observation; add it, or leave the call out"
        raise InputRefused({"messages": text})
    if messages[-1].role not in ("user", "tool"):
        raise InputRefused({"messages": "nothing is asked; end with a user's message"})
    return messages


def _notes(estimate: int, config: EndpointConfig) -> tuple[str, ...]:
    if isinstance(config, ServerConfig) and config.price is None and not estimate:
        return ("model_budget_cents can never bind: the endpoint has no price and estimated_call_cents is 0",)
    return ()


def _unknown(what: str, name: str, known: Mapping[str, object]) -> str:
    return f"no {what} {name[:80]!r} on this worker; it knows: {', '.join(sorted(known)) or 'none'}"
