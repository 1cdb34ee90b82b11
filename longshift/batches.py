"""Batches: what becomes of each call of an accepted batch, and which of them run side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from longshift import jsontext
from longshift.agent import AgentSpec
from longshift.messages import ToolCall, ToolMessage
from longshift.observations import error
from longshift.repeats import Repetition, key_of
from longshift.tools import ToolSpec

_NOTHING: Mapping[int, str] = MappingProxyType({})
MAX_SIDE_BY_SIDE = 8
"""Reads of one run in flight at once. Bounds what one workflow task schedules: Temporal refuses one past 4 MiB."""


@dataclass(frozen=True)
class Planned:
    """One call of a batch and what is to be done for it."""

    position: int
    call: ToolCall
    tool: ToolSpec | None
    """None: there is no such tool."""
    repeat_of: tuple[int, int] | None = None
    """No handler runs; the run is told what this call of its own returned."""
    observation: ToolMessage | None = None
    """The observation, where the workflow knows it already and nothing is dispatched."""
    fatal: bool = False
    """Its observation ends the run."""

    @property
    def alone(self) -> bool:
        """Whether it runs by itself, after everything before it and before everything after it."""
        return self.tool is not None and self.tool.kind == "effect" and not self.observation and not self.repeat_of


def plan(
    agent: AgentSpec, calls: Sequence[ToolCall], said: Sequence[Repetition], refused: Mapping[int, str] = _NOTHING
) -> list[Planned]:
    """What is to be done for each call, in order.

    Args:
        refused: why arguments do not fit, by the position of their call, where that is known before it is dispatched.
    """
    tools = {tool.name: tool for tool in agent.tools}
    effects: set[str] = set()
    planned = []
    for position, (call, repetition) in enumerate(zip(calls, said, strict=True)):
        tool = tools.get(call.name)
        observation = None
        if tool is None:
            known = ", ".join(sorted(tools)) or "none"
            text = f"there is no tool {_shown(call.name)}; the tools are: {known}"
            observation = _known(call, repetition, "unknown_tool", text)
        elif call.malformed is not None:
            text = f"the arguments must be one JSON object; this was sent: {call.malformed}"
            observation = _known(call, repetition, "invalid_arguments", text)
        elif position in refused:
            observation = _known(call, repetition, "invalid_arguments", refused[position])
        elif tool.kind == "effect" and not tool.repeatable:
            if key_of(call) in effects:
                observation = refusal(call, "repeated", "identical call in the same turn, not executed")
            effects.add(key_of(call))
        planned.append(
            Planned(
                position,
                call,
                tool,
                repeat_of=None if observation else repetition.told,
                observation=observation,
                fatal=tool is None and agent.unknown_tool == "fatal",
            )
        )
    return planned


def portions(planned: Sequence[Planned]) -> list[list[Planned]]:
    """The batch in the order it runs: neighbouring reads together, at most MAX_SIDE_BY_SIDE, an effect alone.

    What is told the outcome of an earlier call of the same batch comes after it.
    """
    cut: list[list[Planned]] = []
    for item in planned:
        last = cut[-1] if cut else []
        together = last and not item.alone and not last[-1].alone and len(last) < MAX_SIDE_BY_SIDE
        if together and not (item.repeat_of and _under_way(item, last)):
            last.append(item)
        else:
            cut.append([item])
    return cut


def _under_way(item: Planned, portion: Sequence[Planned]) -> bool:
    return any(not other.repeat_of and key_of(other.call) == key_of(item.call) for other in portion)


def told_again(returned: str) -> str:
    """What the model reads in place of a call that it made too often; `returned` is the earlier observation."""
    return (
        f"this exact call was already made and is not made again; it returned: {returned}. "
        "Use that, or try another approach."
    )


def _known(call: ToolCall, repetition: Repetition, kind: str, message: str) -> ToolMessage:
    """The observation of a call that needs no tool; said to be a repetition where the run is to be told so."""
    if repetition.told:
        return refusal(call, "repeated", told_again(error(kind, message)))
    return refusal(call, kind, message)


def refusal(call: ToolCall, kind: str, message: str) -> ToolMessage:
    """The observation of a call that no handler answered."""
    return ToolMessage(call_id=call.id, name=call.name, content=error(kind, message))


def _shown(name: str) -> str:
    return jsontext.canonical(name if len(name) <= 80 else name[:77] + "...")
