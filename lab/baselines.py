"""What the labs are held against: agents without Longshift, as plain functions, with the same models and tools."""

from dataclasses import dataclass
from typing import Any

from lab.models import Model
from longshift import observations
from longshift.agent import Agent
from longshift.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage


@dataclass(frozen=True)
class Came:
    """What came of it."""

    steps: int
    """Model calls made."""
    answer: str | None


def unguarded(agent: Agent, task: str, model: Model, steps: int) -> Came:
    """A loop that runs what it is asked to run, `steps` times, and looks at nothing else: not whether the model has
    ended, not whether the tool exists.

    Raises KeyError for a tool that does not exist.
    """
    tools: dict[str, Any] = {tool.spec.name: tool for tool in agent.tools}
    messages = _opening(agent, task)
    for _ in range(steps):
        turn = model(messages, tools)
        calls = tuple(
            ToolCall(id=call.id or "", name=call.name, arguments=_object(call.arguments)) for call in turn.calls
        )
        messages.append(AssistantMessage(content=turn.content, calls=calls))
        for call in calls:
            content = observations.ok(tools[call.name](**call.arguments))
            messages.append(ToolMessage(call_id=call.id, name=call.name, content=content))
    return Came(steps, None)


def one_shot(agent: Agent, task: str, model: Model) -> Came:
    """No loop: the model is asked once, without tools, and what it says is the answer."""
    return Came(1, model(_opening(agent, task), ()).content)


def _opening(agent: Agent, task: str) -> list[Message]:
    return [SystemMessage(content=agent.system), UserMessage(content=task)]


def _object(arguments: object) -> dict[str, Any]:
    assert isinstance(arguments, dict), "the scripted models give objects"
    return arguments
