"""What people read of a run in the Temporal UI."""

from typing import Any

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.worker import HandleQueryInput, WorkflowInboundInterceptor, WorkflowInterceptorClassInput

from longshift.agent import AgentSpec
from longshift.contracts import EndpointFacts, RunResult, RunSpec
from longshift.limits import Limits
from longshift.status import Status
from longshift.view import StateView
from workflows import details

SPEC = RunSpec(
    agent=AgentSpec(name="shop", system="Mind the shop."),
    endpoint=EndpointFacts(name="local", kind="replay", model="authored", timeout_seconds=5),
    heartbeat_seconds=2,
)
VIEW = StateView(run_id="r", status="RUNNING", phase="model call 2", model_calls=2, exposure=995_000, limits=Limits())


def _without_gaps(text: str) -> str:
    return text.replace(details.GAP, "")


def test_what_is_used_is_a_bar_that_is_full_only_at_its_limit() -> None:
    lines = _without_gaps(details.markdown(VIEW, SPEC)).splitlines()
    assert "| model calls | 2 | 8 | ██░░░░░░░░ 25 % |" in lines
    assert "| context, bytes | 0 | 32,768 | ░░░░░░░░░░ 0 % |" in lines
    assert "| money, US cents | 99.5 | 100 | █████████░ 99 % |" in lines
    full = VIEW.model_copy(update={"model_calls": 9, "working_seconds": 3.0})
    text = _without_gaps(details.markdown(full.model_copy(update={"limits": Limits(working_seconds=6)}), SPEC))
    assert "| model calls | 9 | 8 | ██████████ 100 % |" in text
    assert "| working seconds | 3.0 | 6.0 | █████░░░░░ 50 % |" in text


def test_an_answer_ends_no_fence_and_makes_no_markup() -> None:
    hostile = "```\n# **Approved**\n<script>\x1b[2J"
    result = RunResult(run_id="r", status=Status.COMPLETED, answer=hostile, detail="`a`", notes=("``b``",))
    ended = VIEW.model_copy(update={"status": "ENDED", "result": result})
    text = details.markdown(ended, SPEC)
    assert text.startswith("**COMPLETED**, model call 2.")
    assert "**Answer:**\n\n````text\n```\n# **Approved**\n<script>\\x1b[2J\n````" in text
    assert "**Ended:** `` `a` ``" in text
    assert "**Note:** ``` ``b`` ```" in text


def test_a_phase_that_says_what_the_status_says_is_left_out() -> None:
    waiting = VIEW.model_copy(update={"status": "WAITING", "phase": "waiting"})
    assert details.markdown(waiting, SPEC).startswith("**WAITING**. Agent `shop`")


def test_a_run_that_is_being_opened_says_so() -> None:
    assert details.markdown(VIEW, None).startswith("**RUNNING**, model call 2: a worker looks the agent up")


class Answering(WorkflowInboundInterceptor):
    """A workflow's own answer to what the Temporal UI asks."""

    def __init__(self) -> None:
        """Stand before nothing."""

    async def handle_query(self, input: HandleQueryInput) -> Any:
        """Give it."""
        return WorkflowMetadata(current_details="its own")


@pytest.mark.asyncio
async def test_a_workflow_of_another_kind_keeps_its_own_details(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("temporalio.workflow.instance", object)
    given = WorkflowInterceptorClassInput(unsafe_extern_functions={})
    interceptor = details.CurrentDetails().workflow_interceptor_class(given)
    assert interceptor is not None
    asked = HandleQueryInput(id="q", query="__temporal_workflow_metadata", args=[], headers={})
    assert (await interceptor(Answering()).handle_query(asked)).current_details == "its own"
