"""The points at which an effect is interrupted, and the worker that stops each run at its own.

`python -m tests.acceptance.kill_points` is a worker whose runs stop at the point that their id begins with. So one
signal to one process hits many runs, each of them at the point it stands at.
"""

import asyncio
import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from temporalio.worker import _workflow

from activities.run_activities import Activities
from longshift import ToolContext
from store.journal import Journal
from tests.acceptance import order_agent
from tests.acceptance.house_agent import visit
from worker.process import main


@dataclass(frozen=True)
class Point:
    """Where an effect stands when it is interrupted."""

    name: str
    """Begins the ids of its runs."""
    words: str
    unknown: bool
    """Whether nobody but the supplier can know then what came of the order."""
    gate: tuple[Literal["before", "after"], str] | None = None
    """The method of the journal or the activities that the worker stops at; None: see where it is used."""


SUPPLIERS = ("request", "lost", "counted")
"""Points at which the supplier holds the request: before it counts it, before it loses it, and before it replies."""
POINTS = (
    Point("scheduled", "before `started`", False, ("before", "begin_effect")),
    Point("started", "after `started`, before the handler", True, ("after", "begin_effect")),
    Point("request", "during the HTTP call, the order not yet taken", True),
    Point("lost", "during the HTTP call, the order never taken", True),
    Point("counted", "during the HTTP call, the order taken", True),
    Point("replied", "after the reply, in the handler", True),
    Point("observed", "before `settled`", True, ("before", "settle_tool_call")),
    Point("settled", "after `settled`", False, ("after", "settle_tool_call")),
    Point("returned", "before completion is reported", False, ("after", "_run_tool")),
    Point("reported", "after completion is reported", False),
)
IN_HANDLER = (*SUPPLIERS, "replied")
"""Points inside the tool's own time-out."""
BY_NAME = {point.name: point for point in POINTS}


def point_of(run_id: str) -> str:
    """The name of the point that a run is stopped at."""
    return run_id.partition("-")[0]


def put_gates() -> None:
    """Have every run of this process visit the gate that bears its id, at its point."""
    for point in POINTS:
        if point.gate is not None:
            _put_gate(point.name, *point.gate)

    def replied(context: ToolContext) -> None:
        if point_of(context.run_id) == "replied":
            asyncio.run(visit(context.run_id))

    order_agent.replied = replied
    _hold_workflow_tasks()


def _put_gate(name: str, when: str, method: str) -> None:
    owner: type = Journal if hasattr(Journal, method) else Activities
    work: Callable[..., Any] = getattr(owner, method)

    @functools.wraps(work)
    async def gated(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        here = point_of(request.run_id) == name
        if here and when == "before":
            await visit(request.run_id)
        done = await work(self, request, *args, **options)
        if here and when == "after":
            await visit(request.run_id)
        return done

    setattr(owner, method, gated)


def _hold_workflow_tasks() -> None:
    """Stop where the server has the completion of the effect and the workflow has not been told.

    Nothing public stands between the two.
    """
    handle: Callable[..., Any] = _workflow._WorkflowWorker._handle_activation

    held = set()  # the SDK keeps no reference to the task that handles an activation

    async def gated(self: Any, activation: Any) -> None:
        known = self._running_workflows.get(activation.run_id)
        news = [job.resolve_activity.result.completed.result.data for job in activation.jobs]
        if known and point_of(known.workflow_id) == "reported" and any(b'"observation"' in text for text in news):
            held.add(asyncio.current_task())
            await visit(known.workflow_id)
        await handle(self, activation)

    _workflow._WorkflowWorker._handle_activation = gated  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    put_gates()
    code = main()
    sys.stderr.flush()
    os._exit(code)  # as worker/__main__.py does
