"""A run's rows of the journal, typed. Pure.

Rows may be changed or lacking, which the audit tells: what cannot be read stands here as None, and hides nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from client.recorded import RecordedCall, tool_calls
from longshift import jsontext
from longshift.agent import AgentSpec
from longshift.audit.sides import Rows, bodies_of
from longshift.context import Excerpt
from longshift.contracts import RunResult, RunSpec
from longshift.messages import AssistantMessage, Message, ToolMessage
from longshift.turns import ModelFailure
from store.tables import ModelCallRow, RunRow, ToolCallRow

T = TypeVar("T")
_MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


@dataclass(frozen=True)
class Confirmed:
    """A message of the transcript."""

    number: int
    """From 0."""
    role: str
    message: Message | None
    """None where its body is not in the journal, or is no message."""
    turn: int | None
    """The model call whose turn it is."""
    bytes: int


@dataclass(frozen=True)
class Decided:
    """A decision."""

    at: float
    """Seconds since the epoch."""
    kind: str
    detail: Mapping[str, JsonValue]


@dataclass(frozen=True)
class Call:
    """A model call."""

    row: ModelCallRow
    reply: AssistantMessage | None
    """None where none came, or its body is not in the journal."""
    failure: ModelFailure | None
    excerpt: Excerpt | None


@dataclass(frozen=True)
class Records:
    """All that the journal holds of a run."""

    run: RunRow
    spec: RunSpec | None
    result: RunResult | None
    messages: Sequence[Confirmed]
    model_calls: Sequence[Call]
    tool_calls: Sequence[RecordedCall]
    decisions: Sequence[Decided]

    @property
    def agent(self) -> AgentSpec:
        """The agent, as far as it is recorded."""
        return self.spec.agent if self.spec else AgentSpec(name=self.run.agent)

    @property
    def last_at(self) -> float:
        """When the latest thing happened that is recorded, seconds since the epoch."""
        times = [self.run.opened_at, self.run.closed_at]
        times += [at for one in self.model_calls for at in (one.row.started_at, one.row.ended_at)]
        times += [at for one in self.tool_calls for at in (one.started_at, one.settled_at)]
        times += [one.at for one in self.decisions]
        return max(at for at in times if at is not None)


def records_of(rows: Rows) -> Records | None:
    """The rows of a run, typed; None where the journal holds no run."""
    found = next(iter(rows.get("runs", ())), None)
    if found is None:
        return None
    run, bodies = RunRow(**found), bodies_of(rows)
    messages = [_confirmed(row, bodies.get(row["number"])) for row in rows.get("messages", ())]
    calls = [_call(ModelCallRow(**row)) for row in rows.get("model_calls", ())]
    transcript = [one.message for one in messages if one.message is not None]
    dispatched = [_dispatched(row) for row in rows.get("tool_calls", ())]
    turns = [one.row if one.reply else _without_body(one.row) for one in calls]
    return Records(
        run=run,
        spec=_read(RunSpec.model_validate_json, run.spec),
        result=_read(RunResult.model_validate_json, run.result),
        messages=messages,
        model_calls=calls,
        tool_calls=tool_calls(run.run_id, turns, dispatched, transcript),
        decisions=[Decided(row["at"], row["kind"], _object(row["detail"])) for row in rows.get("decisions", ())],
    )


def _confirmed(row: Mapping[str, Any], body: str | None) -> Confirmed:
    message = _read(_MESSAGE.validate_json, body)
    return Confirmed(row["number"], row["role"], message, row.get("turn"), row["bytes"])


def _call(row: ModelCallRow) -> Call:
    return Call(
        row=row,
        reply=_read(AssistantMessage.model_validate_json, row.body),
        failure=_read(ModelFailure.model_validate_json, row.failure),
        excerpt=_read(Excerpt.model_validate_json, row.excerpt),
    )


def _without_body(row: ModelCallRow) -> ModelCallRow:
    return ModelCallRow(**{**row.model_dump(), "body": None})


def _dispatched(row: Mapping[str, Any]) -> ToolCallRow:
    """The row of a tool call, without an observation that is none."""
    found = ToolCallRow(**row)
    if _read(ToolMessage.model_validate_json, found.body) is None:
        found.body = None
    return found


def _object(text: str) -> Mapping[str, JsonValue]:
    found = _read(jsontext.parse, text)
    return found if isinstance(found, dict) else {}


def _read(parse: Callable[[str], T], text: str | None) -> T | None:
    """What a text says; None where there is none, or it cannot be read."""
    try:
        return None if text is None else parse(text)
    except (ValidationError, ValueError):
        return None
