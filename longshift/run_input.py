"""What a person gives to start a run, and what is refused of it."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import to_json

from longshift import jsontext
from longshift.funds import FundName
from longshift.limits import MAX_PROBLEMS, Limits, LimitsRefused, first_problems
from longshift.messages import Message, usual

MAX_INPUT_BYTES = 256 * 1024
"""Bytes of a run's input, a signal or an update that are accepted; Temporal refuses a payload past 2 MiB."""


class InputRefused(ValueError):
    """A run's input is bad. `problems` maps a field to what is wrong with it and the remedy, for the first few."""

    def __init__(self, problems: dict[str, str]) -> None:
        self.problems = first_problems(problems)
        super().__init__("; ".join(f"{name}: {text}" for name, text in self.problems.items()))


class RunInput(BaseModel):
    """What a person gives to start a run. Unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent: str
    """Name of an agent that the workers know."""
    task: str | None = None
    """The user's message; the agent's system prompt goes before it."""
    messages: tuple[Message, ...] = ()
    """Instead of a task: the whole opening of the transcript."""
    limits: dict[str, JsonValue] = Field(default_factory=dict)
    """Limits that differ from the agent's, by name."""
    endpoint: str | None = None
    """Name of an endpoint that the workers know, instead of the agent's."""
    fund: FundName | None = Field(None, exclude_if=usual(None))
    """Name of a fund in the journal that pays for the model calls, instead of the agent's, if it has one."""


def read_input(args: tuple[Any, ...]) -> RunInput:
    """The run's input from whatever a workflow was started with.

    Raises InputRefused, naming the bad fields.
    """
    if len(args) != 1 or not isinstance(args[0], dict):
        example = '{"agent": "shop", "task": "..."}'
        raise InputRefused({"input": f"must be exactly one JSON object, like {example}"})
    try:
        jsontext.check(args[0])
    except ValueError as error:
        raise InputRefused({"input": str(error)}) from None
    size = len(to_json(args[0]))
    if size > MAX_INPUT_BYTES:
        raise InputRefused({"input": f"has {size} bytes, at most {MAX_INPUT_BYTES} are accepted"})
    try:
        given = RunInput.model_validate(args[0])
    except ValidationError as error:
        named = error.errors()[:MAX_PROBLEMS]
        raise InputRefused({_place(e["loc"]): e["msg"].removeprefix("Value error, ")[:200] for e in named}) from None
    if (given.task is None) == (not given.messages):
        raise InputRefused({"task": "give either a task (text) or messages (a transcript to go on from), not both"})
    if given.task is not None and not given.task.strip():
        raise InputRefused({"task": "is blank; say what the agent shall do"})
    try:
        Limits().changed(given.limits)
    except LimitsRefused as refused:
        raise InputRefused({f"limits.{name}": text for name, text in refused.problems.items()}) from None
    try:
        jsontext.canonical(args[0])
    except ValueError:
        raise InputRefused({"messages": "a call's arguments hold a number that is out of range"}) from None
    return given


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location)[:120] or "input"
