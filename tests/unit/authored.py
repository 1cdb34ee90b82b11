"""What the tests of the core write down: turns, calls, failures, and an agent with tools of each kind."""

from typing import Any

from longshift.agent import AgentSpec
from longshift.messages import AssistantMessage, ToolCall
from longshift.recording import record
from longshift.tools import ToolSpec
from longshift.turns import ModelFailure, Turn, Usage


def turn(
    content: str = "",
    *calls: ToolCall,
    tokens: int | None = 1,
    cost: int | None = None,
    milliseconds: int = 0,
    invalid: str | None = None,
) -> Turn:
    """A turn, with its usage."""
    message = AssistantMessage(content=content, calls=calls)
    usage = Usage(output_tokens=None if invalid else tokens, invalid=invalid)
    return Turn(reply=record(message), usage=usage, cost=cost, milliseconds=milliseconds)


def call(id_: str, name: str = "look", malformed: str | None = None, /, **arguments: Any) -> ToolCall:
    """A call of a tool."""
    return ToolCall(id=id_, name=name, arguments=arguments, malformed=malformed)


def failure(
    message: str = "away", *, transient: bool = True, retry_after: float | None = None, **more: Any
) -> ModelFailure:
    """A model call that brought no turn."""
    return ModelFailure(kind="status", message=message, transient=transient, retry_after=retry_after, **more)


def agent(**changes: Any) -> AgentSpec:
    """An agent with two reads (`look`, `add`) and two effects (`send`; `ring`, which is repeatable)."""
    tools = (
        ToolSpec(name="look", kind="read"),
        ToolSpec(name="add", kind="read"),
        ToolSpec(name="send", kind="effect"),
        ToolSpec(name="ring", kind="effect", repeatable=True),
    )
    limits = changes.pop("limits", {})
    spec = AgentSpec(name="tester", tools=tools, **changes)
    return spec.model_copy(update={"limits": spec.limits.changed(limits)})
