"""What people read of a run in the Temporal UI and in lists: the memo and the current details."""

import re
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

from temporalio import workflow
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.worker import (
    HandleQueryInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from longshift import jsontext, remedies
from longshift.admission import Hold
from longshift.contracts import RunResult, RunSpec
from longshift.inert import inert
from longshift.limits import Limits, cents
from longshift.questions import Question
from longshift.view import StateView

CELLS = 10
"""Characters of a bar that shows how much of a limit is used."""
MAX_SHOWN = 4000
"""Characters shown of an answer; the result has it whole, or the journal."""
LAST_YEAR = 253402300799
"""Seconds since the epoch at the end of the year 9999, the last that can be written."""
GAP = "\u2003"
"""A space that stands between two columns: the UI shows tables without any."""


def memo(view: StateView, spec: RunSpec) -> dict[str, Any]:
    """What stands beside a run in every list, with or without a worker. Written at the start, at the end, and when a
    wait begins or ends: each time is one event."""
    return {
        "agent": spec.agent.name,
        "endpoint": spec.endpoint.name,
        "model": spec.endpoint.model,
        "started_at": view.started_at,  # the server knows when the latest run of a chain began
        "status": view.result.status.value if view.result else view.status,
        "detail": view.result.detail if view.result else view.waiting_for or "",
        "question": view.question.model_dump(mode="json") if view.question and not view.result else None,
    }


def markdown(view: StateView, spec: RunSpec | None, hold: Hold | None = None, goal: str | None = None) -> str:
    """The current details: counters against limits, the phase, what the run waits for, and what lets it go on.

    Args:
        hold: what the run waits for, as the core has it.
        goal: the beginning of the task, where the UI shows it nowhere else.
    """
    if spec is None:
        return f"**{view.status}**, {view.phase}: a worker looks the agent up and begins the journal."
    status = view.result.status.value if view.result else view.status
    phase = "" if view.phase.upper() == view.status else f", {view.phase}"
    parts = [
        f"**{status}**{phase}. Agent `{spec.agent.name}`, endpoint `{spec.endpoint.name}`, "
        f"model {_verbatim(spec.endpoint.model)}, deadline {_clock(view.deadline)}.",
        *([f"Task: {_verbatim(goal)}"] if goal else []),
        *(_waiting(view, hold, spec.fund) if hold else []),
        _table(view, view.limits or Limits()),
        *(_ended(view.result) if view.result else []),
    ]
    return "\n\n".join(parts)


def _table(view: StateView, limits: Limits) -> str:
    rows: list[tuple[str, float, float]] = [
        ("model calls", view.model_calls, limits.model_calls),
        ("tool calls", view.tool_calls, limits.tool_calls),
        ("output tokens", view.output_tokens, limits.total_output_tokens),
        ("context, bytes", view.context_bytes, limits.context_bytes),
        ("money, US cents", cents(view.exposure), cents(limits.budget)),
    ]
    if limits.working_seconds is not None:
        rows.append(("working seconds", round(view.working_seconds, 1), limits.working_seconds))
    lines = [f"| {name} | {GAP}{used:,} | {GAP}{limit:,}{GAP} | {_bar(used, limit)} |" for name, used, limit in rows]
    return "\n".join((f"| | used | limit{GAP} | |", "|---|--:|--:|---|", *lines))


def _bar(used: float, limit: float) -> str:
    share = min(max(used / limit, 0), 1) if limit else 1
    filled = int(share * CELLS)
    return f"{'█' * filled}{'░' * (CELLS - filled)} {int(share * 100)} %"


def _waiting(view: StateView, hold: Hold, fund: str | None) -> list[str]:
    commands = remedies.going_on(view.run_id, hold, view.question, fund)
    parts = [f"**Waits:** {_verbatim(hold.reason if commands else view.waiting_for or hold.reason)}"]
    if commands:
        parts.append(f"To let it go on:\n\n{_block(chr(10).join(commands))}")
    if view.question and hold.kind in ("approval", "outcome"):
        parts.append(_from_here(view.question))
    return parts


def _from_here(asked: Question) -> str:
    answer = jsontext.canonical({"call_id": asked.call_id, "arguments_sha256": asked.arguments_sha256[:16]})
    names = "`approve` or `deny` (with a `reason`)" if asked.kind == "approval" else "`resolve` (with an `outcome`)"
    return f"From here, the update {names} with {_verbatim(answer)} answers it."


def _ended(result: RunResult) -> list[str]:
    parts = [f"**Ended:** {_verbatim(result.detail)}"]
    text = result.answer if result.answer is not None else result.partial
    if text is not None:
        cut = text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."
        parts.append(f"**{'Answer' if result.answer is not None else 'Partial'}:**\n\n{_block(cut)}")
    for name, calls in (("Never ran", result.unrun_calls), ("May have happened", result.unknown_calls)):
        shown = [call_id for call_id in calls if name != "Never ran" or call_id not in result.unknown_calls]
        if shown:
            parts.append(f"**{name}:** {', '.join(map(_verbatim, shown))}")
    parts.extend(f"**Note:** {_verbatim(note)}" for note in result.notes)
    return parts


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(min(seconds, LAST_YEAR), tz=UTC):%Y-%m-%d %H:%M:%S} UTC"


def _verbatim(text: str) -> str:
    """Text from outside as Markdown that shows it and does nothing else: code, fenced by more than it holds."""
    line = inert(" ".join(text.split()))
    fence = "`" * (1 + _longest_run(line))
    return f"{fence} {line} {fence}"


def _block(text: str) -> str:
    """The same of several lines."""
    fence = "`" * max(3, 1 + _longest_run(text))
    return f"{fence}text\n{inert(text, multiline=True)}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


@runtime_checkable
class Detailed(Protocol):
    """A workflow that can tell its current details."""

    def current_details(self) -> str:
        """Markdown."""


class CurrentDetails(Interceptor):
    """Has a run make its current details when somebody looks at them: made at each step, they would cost a part of it
    that nobody reads."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """What stands in every workflow's way."""
        return _OnQuery


class _OnQuery(WorkflowInboundInterceptor):
    async def handle_query(self, input: HandleQueryInput) -> Any:
        answer = await super().handle_query(input)
        run = workflow.instance()
        if isinstance(answer, WorkflowMetadata) and isinstance(run, Detailed):  # a workflow of another kind has none
            answer.current_details = run.current_details()
        return answer
