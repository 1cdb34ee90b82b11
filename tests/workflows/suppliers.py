"""Runs that order from a supplier, which fails as a test says, by a worker whose dispatches are lost as it says."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.client import WorkflowUpdateFailedError as UpdateFailed
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities import failures
from longshift import Agent, ToolContext, contracts, tool
from longshift.contracts import RanTool, RunResult, RunTool
from longshift.questions import Question
from longshift.run_input import RunInput
from longshift.view import StateView
from store.journal import Journal
from tests.workflows.raw_runs import Handle, started, until
from tests.workflows.running import Script, activities_of, call, echo, working

ONE_EFFECT = ([call("c1", "place", sku="a")], "Done.")
"""The turns of a run that orders once."""


class Supplier:
    """What effects of these tests change."""

    def __init__(self, *failures: Exception | None) -> None:
        self.orders: list[str] = []
        """The operation ids of the orders, in order."""
        self._failures = list(failures)

    def agent(self, **options: Any) -> Agent:
        """An agent that can order here."""
        policy = {"unknown_outcome": options.pop("unknown_outcome")} if "unknown_outcome" in options else {}

        @tool(**{"timeout_seconds": 0.5, **options})
        def place(sku: str, context: ToolContext) -> str:
            """Order one."""
            failure = self._failures.pop(0) if self._failures else None
            self.orders.append(context.operation_id)
            if failure is not None:
                raise failure
            return f"order {len(self.orders)} of {sku}"

        return Agent(name="buyer", system="Buy.", endpoint="scripted", tools=(place, echo), **policy)


def asking(supplier: Supplier, **options: Any) -> Agent:
    """The agent of a supplier, whose orders need approval."""
    return supplier.agent(**{"needs_approval": True, **options})


class Diary:
    """What was done, in order, by an agent whose looks are reads and whose orders need approval."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def agent(self) -> Agent:
        """The agent."""

        @tool(kind="read")
        def look(at: str) -> str:
            """Look."""
            self.done.append(f"look {at}")
            return at

        @tool(needs_approval=True)
        def place(sku: str) -> str:
            """Order one."""
            self.done.append(f"place {sku}")
            return sku

        return Agent(name="buyer", system="Buy.", endpoint="scripted", tools=(look, place))


def lost() -> ApplicationError:
    """What the workflow learns of a dispatch whose worker ended."""
    return ApplicationError(
        "the completion was lost", type="WorkerShutdown", non_retryable=True, category=ApplicationErrorCategory.BENIGN
    )


Lose = Mapping[tuple[str, int], str]
"""Which dispatches, by call id and fence, are lost `before` or `after` all their work, or find `no tool` or
`no journal`."""


@asynccontextmanager
async def losing(
    client: Client, queue: str, journal_url: str, agent: Agent, model: Script, lose: Lose
) -> AsyncIterator[None]:
    """A worker whose dispatches are lost as `lose` says: the workflow learns no more than that its worker ended."""
    async with activities_of(journal_url, agent, model) as activities:
        real = next(one for one in activities if one.__name__ == contracts.RUN_TOOL)

        @activity.defn(name=contracts.RUN_TOOL)
        async def run_tool(request: RunTool) -> RanTool:
            point = lose.get((request.call.id, request.dispatch))
            if point == "before":
                raise lost()
            if point == "no journal":
                raise failures.journal_away("the journal is locked")
            if point == "no tool":
                raise failures.tool_missing("this worker has no such tool")
            ran: RanTool = await real(request)
            if point == "after":
                raise lost()
            return ran

        async with working(client, queue, [*(one for one in activities if one is not real), run_tool]):
            yield


async def begun(client: Client, queue: str, **limits: Any) -> Handle:
    """A run of the buyer."""
    return await started(client, queue, RunInput(agent="buyer", task="Order.", limits=limits))


async def asked(handle: Handle) -> Question:
    """The question of a run, once it asks one."""

    async def look() -> Question | None:
        view: StateView = await handle.query(contracts.STATE, result_type=StateView)
        assert view.question is None or view.status == "WAITING"
        return view.question

    question = await until(look)
    assert question is not None
    return question


async def next_question(handle: Handle, before: Question) -> Question:
    """The question that follows another."""

    async def look() -> Question | None:
        view: StateView = await handle.query(contracts.STATE, result_type=StateView)
        return view.question if view.question != before else None

    found = await until(look)
    assert found is not None
    return found


def answer(question: Question, **fields: Any) -> dict[str, Any]:
    """What answers a question."""
    return {"call_id": question.call_id, "arguments_sha256": question.arguments_sha256[:12], **fields}


async def refusal(handle: Handle, name: str, given: Any) -> str:
    """Why an update is refused."""
    with pytest.raises(UpdateFailed) as refused:
        await handle.execute_update(name, given)
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "MessageRefused"
    return refused.value.cause.message


async def observations(journal_url: str, run_id: str) -> list[dict[str, Any]]:
    """What the model was told of its calls, in order."""
    journal = await Journal.open(journal_url)
    try:
        assert await journal.verify_chain(run_id) is None
        messages = [stored.message for stored in await journal.messages(run_id)]
        return [json.loads(message.content) for message in messages if message.role == "tool"]
    finally:
        await journal.close()


async def concluded(handle: Handle) -> RunResult:
    """The result of a run that Temporal ends as cancelled, which gives none."""

    async def look() -> RunResult | None:
        view: StateView = await handle.query(contracts.STATE, result_type=StateView)
        return view.result

    result = await until(look)
    assert result is not None
    return result
