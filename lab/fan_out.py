"""The workflow of an experiment: starts its shifts, so many at once, and waits for them.

Its history stays small: it hands over to a new run of itself every so many shifts, once those have ended. Whatever dies
in between, it goes on where it was, and no shift is started twice: each has an id that the server gives once.
"""

import asyncio

from pydantic import BaseModel, ConfigDict
from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ChildWorkflowError, WorkflowAlreadyStartedError

from lab.plan import Plan, Planned, runs_of
from longshift import contracts

WORKFLOW = "reliability"
PROGRESS = "progress"
SHARE = 100
"""Shifts of one run of the workflow, unless it is said; each takes six events of its history."""


class FanOut(BaseModel):
    """What the workflow is given."""

    model_config = ConfigDict(frozen=True)

    plan: Plan
    share: int = SHARE
    """Shifts of one run of the workflow, carried along so that a later version does not change it on the way."""
    ended: int = 0
    """Shifts that earlier runs of it have seen to their ends."""


@workflow.defn(name=WORKFLOW)
class Reliability:
    """The shifts of one experiment."""

    @workflow.init
    def __init__(self, given: FanOut) -> None:
        """Know how far it is before anybody asks."""
        self._ended = given.ended
        self._places = asyncio.Semaphore(given.plan.at_once)

    @workflow.run
    async def run(self, given: FanOut) -> int:
        """See all shifts of the plan to their ends; how many they are."""
        until = min(given.ended + given.share, given.plan.runs)
        await asyncio.gather(*(self._one(given.plan, run) for run in runs_of(given.plan, given.ended, until)))
        if until < given.plan.runs:
            workflow.continue_as_new(given.model_copy(update={"ended": until}))
        return given.plan.runs

    @workflow.query(name=PROGRESS)
    def progress(self) -> int:
        """How many shifts have ended."""
        return self._ended

    async def _one(self, plan: Plan, run: Planned) -> None:
        async with self._places:
            try:
                shift = await workflow.start_child_workflow(
                    contracts.WORKFLOW,
                    run.given(plan).model_dump(mode="json", exclude_none=True, exclude={"messages"}),
                    id=run.run_id,
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                    static_summary=f"{run.condition}: {run.length} look-ups, attempt {run.attempt}",
                )
                await shift
            except WorkflowAlreadyStartedError:
                pass  # by a run of this workflow that was terminated; whoever grades the shift waits for its end
            except ChildWorkflowError:
                pass  # so a shift ends that did not complete; the journal has how
        self._ended += 1
