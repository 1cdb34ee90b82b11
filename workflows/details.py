"""What people read of a run in the Temporal UI and in lists: the memo and the current details."""

import re
from datetime import UTC, datetime
from typing import Any

from longshift import jsontext
from longshift.contracts import RunSpec, StateView
from longshift.limits import Limits, cents


def memo(view: StateView, spec: RunSpec) -> dict[str, Any]:
    """What stands beside a run in every list, with or without a worker. Written at the start, at the end, and when a
    wait begins or ends: each time is one event."""
    return {
        "agent": spec.agent.name,
        "endpoint": spec.endpoint.name,
        "model": spec.endpoint.model,
        "status": view.result.status.value if view.result else view.status,
        "detail": view.result.detail if view.result else view.waiting_for or "",
        "question": view.question.model_dump(mode="json") if view.question and not view.result else None,
    }


def markdown(view: StateView, spec: RunSpec) -> str:
    """The current details: counters against limits, the phase, and what the run waits for."""
    limits = view.limits or Limits()
    deadline = datetime.fromtimestamp(min(view.deadline, 253402300799), tz=UTC).isoformat(timespec="seconds")
    rows = [
        ("model calls", view.model_calls, limits.model_calls),
        ("tool calls", view.tool_calls, limits.tool_calls),
        ("output tokens", view.output_tokens, limits.total_output_tokens),
        ("context bytes", view.context_bytes, limits.context_bytes),
        ("exposure, cents", cents(view.exposure), cents(limits.budget)),
    ]
    table = "\n".join(f"| {name} | {used} | {limit} |" for name, used, limit in rows)
    status = view.result.status.value if view.result else view.status
    lines = [
        f"**{status}**, {view.phase}. Agent `{spec.agent.name}`, endpoint `{spec.endpoint.name}`, deadline {deadline}.",
        f"| | used | limit |\n|---|---|---|\n{table}",
    ]
    if view.waiting_for:
        lines.append(f"Waits: {_verbatim(view.waiting_for)}")
    if view.question:
        asked = view.question
        answer = jsontext.canonical({"call_id": asked.call_id, "arguments_sha256": asked.arguments_sha256[:16]})
        names = "`approve` or `deny` (with a `reason`)" if asked.kind == "approval" else "`resolve` (with an `outcome`)"
        lines.append(f"From here, the update {names} with {_verbatim(answer)} answers it.")
    if view.result:
        lines.append(view.result.detail)
    return "\n\n".join(lines)


def _verbatim(text: str) -> str:
    """Text from outside as Markdown that shows it and does nothing else: code, fenced by more than it holds."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence} {' '.join(text.split())} {fence}"
