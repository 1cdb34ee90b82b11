"""Executions of activities on a real journal: what waits for a thread, and what an operator has executed again."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.beginning import Beginning
from activities.run_activities import Activities
from endpoints.base import Endpoint, Reply, Request
from endpoints.config import ReplayConfig, ReplayTurn
from endpoints.replay import ReplayEndpoint
from longshift import contracts, tool
from longshift.agent import Agent
from longshift.audit.rows import NOT_USED
from longshift.chain import Head
from longshift.context import Excerpt
from longshift.contracts import CallModel, OpenRun, RanTool, RunTool, SettledEffect, SettleEffect
from longshift.limits import Limits
from longshift.messages import AssistantMessage, Message
from longshift.observations import InThread, read
from longshift.run_input import RunInput
from longshift.turns import ModelFailure, Usage
from store.errors import JournalMismatch, JournalUnavailable
from store.funds import Draw
from store.journal import Found, Journal
from tests.store.shift import call
from worker.threads import ToolThreads

pytestmark = pytest.mark.asyncio

MODEL = ReplayConfig(turns=(ReplayTurn(content="Hello.", output_tokens=3),))
ORDER = RunTool(run_id="r", model_call=1, position=0, call=call("c1", "place", sku="a"))
PATIENCE = 15.0
"""Seconds to wait for what must come."""


class Supplier:
    """What the effect of these tests changes."""

    def __init__(self, timeout_seconds: float, first: Callable[[], object] = bool) -> None:
        self.orders: list[str] = []

        @tool(timeout_seconds=timeout_seconds)
        def place(sku: str) -> str:
            """Order one; the first order waits as it is told."""
            self.orders.append(sku)
            if len(self.orders) == 1:
                first()
            return f"ordered {sku}"

        self.agent = Agent(name="buyer", system="Buy.", endpoint="authored", tools=(place,))


class Hung:
    """The only thread for tools, and a tool that hangs in it."""

    def __init__(self) -> None:
        self.threads, self._go_on = ToolThreads(1), threading.Event()
        self._hung = asyncio.ensure_future(self.threads.run(self._hang))
        self.waiting = asyncio.Event()
        """Set once something else waits for the thread."""

    def _hang(self) -> str:
        self._go_on.wait()
        return ""

    async def run(self, work: Callable[[], str]) -> str:
        """Run something in the thread."""
        self.waiting.set()
        return await self.threads.run(work)

    async def over(self) -> None:
        """Let the thread go on, and do all that waits for it."""
        self._go_on.set()
        await self._hung
        await self.threads.run(str)


async def opened(
    journal: Journal, agent: Agent, model: Endpoint | None = None, in_thread: InThread = asyncio.to_thread
) -> Activities:
    """A worker's activities, and a run that they have opened."""
    model = model or ReplayEndpoint("authored", MODEL)
    found = Activities(journal, {agent.name: agent}, {"authored": model}, {"authored": MODEL}, 5, in_thread)
    given = RunInput(agent=agent.name, task="Go on.")
    await ActivityEnvironment().run(found.open_run, OpenRun(run_id="r", started_at=1.0, given=given))
    return found


def executed(second: int) -> ActivityEnvironment:
    """An execution of an activity that began so long after the epoch. All are the first attempt at the same activity,
    as the platform has it once an operator has set the attempts back."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, started_time=datetime.fromtimestamp(second, UTC))
    return environment


async def standing(worker: Activities, order: RunTool = ORDER) -> SettledEffect:
    """What a run is told of an effect whose dispatch brought nothing."""
    return await ActivityEnvironment().run(worker.settle_effect, SettleEffect(call=order, patient=False))


async def test_an_effect_that_no_thread_took_in_time_never_begins_and_is_made_anew(journal: Journal) -> None:
    hung, supplier = Hung(), Supplier(0.05)
    worker = await opened(journal, supplier.agent, in_thread=hung.run)
    lost = asyncio.ensure_future(executed(1).run(worker.run_tool, ORDER))
    await asyncio.wait([lost], timeout=PATIENCE)
    told = await standing(worker)
    await hung.over()
    assert supplier.orders == []
    with pytest.raises(ApplicationError, match="place was not begun in time") as raised:
        await lost
    assert raised.value.type == contracts.OUTCOME_UNKNOWN
    assert told == SettledEffect(fence=0)

    supplier = Supplier(30)
    worker = await opened(journal, supplier.agent, in_thread=hung.run)
    ran = await executed(2).run(worker.run_tool, ORDER.model_copy(update={"dispatch": 1}))
    assert read(ran.observation.message.content) == {"ok": True, "value": "ordered a"}
    assert supplier.orders == ["a"]
    hung.threads.leave()


async def waits_for_a_thread(
    journal: Journal, hung: Hung, supplier: Supplier
) -> tuple[Activities, ActivityEnvironment, "asyncio.Future[RanTool]"]:
    """An effect under way for which no thread is free: its worker, its execution and what becomes of it."""
    worker = await opened(journal, supplier.agent, in_thread=hung.run)
    execution = executed(1)
    lost = asyncio.ensure_future(execution.run(worker.run_tool, ORDER))
    await hung.waiting.wait()
    return worker, execution, lost


async def never_begins(worker: Activities, hung: Hung, supplier: Supplier, lost: "asyncio.Future[RanTool]") -> None:
    """Whatever thread is free in the end, it is fenced, and its run is told so."""
    await hung.over()
    with pytest.raises(ApplicationError, match="place was not begun in time"):
        await lost
    assert supplier.orders == []
    assert await standing(worker) == SettledEffect(fence=0)
    hung.threads.leave()


async def test_an_effect_that_was_cancelled_while_it_waited_for_a_thread_never_begins(journal: Journal) -> None:
    hung, supplier = Hung(), Supplier(600)
    worker, execution, lost = await waits_for_a_thread(journal, hung, supplier)
    execution.cancel()
    await never_begins(worker, hung, supplier, lost)


async def test_an_effect_that_waits_for_a_thread_while_its_worker_ends_never_begins(journal: Journal) -> None:
    hung, supplier = Hung(), Supplier(600)
    worker, execution, lost = await waits_for_a_thread(journal, hung, supplier)
    execution.worker_shutdown()
    await asyncio.wait([lost], timeout=PATIENCE)
    await never_begins(worker, hung, supplier, lost)


async def test_a_thread_that_stood_still_with_its_process_begins_nothing() -> None:
    """No timer of the process could fire meanwhile: the thread itself looks at the clock."""
    beginning, begun = Beginning(0.05), list[str]()

    def work() -> str:
        begun.append("the handler")
        return ""

    def late(work: Callable[[], str]) -> str:
        while beginning.left() > 0:
            continue
        return work()

    async def stopped(work: Callable[[], str]) -> str:
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(late, work).result()

    await ActivityEnvironment().run(beginning.in_thread, stopped, work)
    assert beginning.missed
    assert begun == []


async def test_an_effect_whose_attempts_were_set_back_is_not_begun_again(journal: Journal) -> None:
    at_work, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        at_work.set()
        go_on.wait()

    supplier = Supplier(600, hold)
    worker = await opened(journal, supplier.agent)
    first = asyncio.ensure_future(executed(1).run(worker.run_tool, ORDER))
    await asyncio.to_thread(at_work.wait)
    try:
        with pytest.raises(ApplicationError, match="place was begun before") as raised:
            await executed(2).run(worker.run_tool, ORDER)
        assert raised.value.type == contracts.OUTCOME_UNKNOWN
    finally:
        go_on.set()
        ran = await first
    assert read(ran.observation.message.content) == {"ok": True, "value": "ordered a"}
    assert supplier.orders == ["a"]


def without_tools(journal: Journal) -> Activities:
    """A worker of a deploy in which the agent has none any more."""
    agent = Agent(name="buyer", system="Buy.", endpoint="authored")
    return Activities(
        journal, {"buyer": agent}, {"authored": ReplayEndpoint("authored", MODEL)}, {"authored": MODEL}, 5
    )


async def test_an_effect_whose_tool_is_gone_is_told_as_it_was_settled(journal: Journal) -> None:
    supplier = Supplier(600)
    made = await executed(1).run((await opened(journal, supplier.agent)).run_tool, ORDER)
    assert await executed(2).run(without_tools(journal).run_tool, ORDER) == made
    assert supplier.orders == ["a"]


@pytest.mark.parametrize("over", [False, True])
async def test_an_effect_whose_tool_is_gone_and_that_was_begun_is_left_to_the_ledger(
    journal: Journal, over: bool
) -> None:
    await opened(journal, Supplier(600).agent)
    assert await journal.begin_effect(ORDER, "another worker", 1.0, again=False)
    if over:
        await journal.leave_unknown(ORDER, 2.0, "it took too long")
    with pytest.raises(ApplicationError, match=r"this worker has no tool place .*begun before") as raised:
        await executed(2).run(without_tools(journal).run_tool, ORDER)
    assert raised.value.type == contracts.OUTCOME_UNKNOWN


@pytest.mark.parametrize("known", ["nothing", "that it never began", "an effect of another call"])
async def test_an_effect_whose_tool_is_gone_and_that_was_never_made_is_missing(journal: Journal, known: str) -> None:
    await opened(journal, Supplier(600).agent)
    if known == "that it never began":
        await journal.settle_effect(ORDER, 1.0)
    elif known == "an effect of another call":
        other = ORDER.model_copy(update={"call": call("c1", "place", sku="b")})
        assert await journal.begin_effect(other, "another worker", 1.0, again=False)
    with pytest.raises(ApplicationError, match="this worker has no tool place") as raised:
        await executed(2).run(without_tools(journal).run_tool, ORDER)
    assert raised.value.type == contracts.TOOL_MISSING


class Held:
    """A model whose first reply waits."""

    def __init__(self) -> None:
        self.sent, self.asked, self.go_on = 0, asyncio.Event(), asyncio.Event()

    async def send(self, request: Request) -> Reply:
        """Answer one model call."""
        self.sent += 1
        if self.sent == 1:
            self.asked.set()
            await self.go_on.wait()
        return Reply(message=AssistantMessage(content="Hello."), stop_reason="stop", usage=Usage(output_tokens=3))

    async def close(self) -> None:
        """Nothing to close."""


async def first_call(journal: Journal) -> CallModel:
    """The request for the first model call of the run."""
    row = await journal.run("r")
    assert row is not None
    return CallModel(run_id="r", number=1, reply=1, head=Head(length=row.length, digest=row.digest), output_tokens=100)


async def test_a_model_call_whose_attempts_were_set_back_is_not_sent_again(journal: Journal) -> None:
    model = Held()
    worker = await opened(journal, Supplier(1).agent, model)
    request = await first_call(journal)
    first = asyncio.ensure_future(executed(1).run(worker.call_model, request))
    await model.asked.wait()
    with pytest.raises(ApplicationError, match="it may have been billed") as raised:
        await executed(2).run(worker.call_model, request)
    (failure,) = raised.value.details
    assert isinstance(failure, ModelFailure)
    assert (failure.kind, failure.transient) == ("lost", True)
    model.go_on.set()
    with pytest.raises(ApplicationError, match="the reply is not used"):
        await first
    assert model.sent == 1


async def test_an_execution_that_wakes_up_late_leaves_the_call_to_the_later_one_that_sent_it(journal: Journal) -> None:
    model = Held()
    worker = await opened(journal, Supplier(1).agent, model)
    request = await first_call(journal)
    later = asyncio.ensure_future(executed(2).run(worker.call_model, request))
    await model.asked.wait()
    with pytest.raises(ApplicationError, match=f"sent by a later execution.*{NOT_USED}$") as raised:
        await executed(1).run(worker.call_model, request)
    (failure,) = raised.value.details
    assert (failure.kind, failure.transient) == ("lost", True)
    model.go_on.set()
    assert (await later).turn.message.content == "Hello."
    (row,) = await journal.model_calls("r")
    assert (row.state, row.sender, model.sent) == ("answered", "test-run/test/2000000", 1)


class Unreadable(Journal):
    """A journal that goes away once a call was entered, or that was tampered with."""

    error: Exception = JournalUnavailable("the server is stopping")

    async def transcript(self, run_id: str, head: Head, excerpt: Excerpt | None = None) -> list[Message]:
        """Never."""
        raise self.error


class Reading(Held):
    """A model that reads the transcript, and may break before or after."""

    def __init__(self, breaks: str | None = None) -> None:
        super().__init__()
        self.breaks = breaks

    async def send(self, request: Request) -> Reply:
        """Answer one model call."""
        if self.breaks is not None:
            raise ValueError(self.breaks)
        await request.messages()
        return await super().send(request)


@pytest.mark.parametrize(
    ("error", "breaks", "held", "transient"),
    [
        (JournalUnavailable("the server is stopping"), None, 0, True),
        (JournalMismatch("message 1 was changed"), None, 0, False),
        (JournalUnavailable("the server is stopping"), "what it did before is not known", 7, False),
    ],
)
async def test_a_call_whose_transcript_could_not_be_read_costs_its_fund_nothing(
    url: str, error: Exception, breaks: str | None, held: int, transient: bool
) -> None:
    journal = await Unreadable.open(url)
    journal.error = error
    await journal.set_fund("research", 100)
    limits = Limits().changed({"estimated_call_cents": 1})
    agent = Agent(name="buyer", system="Buy.", endpoint="authored", fund="research", limits=limits)
    worker = await opened(journal, agent, Reading(breaks))
    request = (await first_call(journal)).model_copy(update={"estimate": 7})
    with pytest.raises(ApplicationError) as raised:
        await executed(1).run(worker.call_model, request)
    (failure,) = raised.value.details
    assert (failure.kind, failure.transient) == ("internal", transient)
    assert [(fund.spent, fund.reserved) for fund in await journal.funds()] == [(0, held)]
    assert [(row.state, row.reserved) for row in await journal.model_calls("r")] == [("failed", held)]
    await journal.close()


class Repeating(Journal):
    """A journal whose connection is lost with each commit by which something begins: it is repeated."""

    async def begin_model_call(self, request: CallModel, sender: str, now: float, draw: Draw | None = None) -> Found:
        """Twice."""
        await super().begin_model_call(request, sender, now, draw)
        return await super().begin_model_call(request, sender, now, draw)

    async def begin_effect(self, request: RunTool, attempt: str, now: float, *, again: bool) -> bool:
        """Twice."""
        await super().begin_effect(request, attempt, now, again=again)
        return await super().begin_effect(request, attempt, now, again=again)


async def test_what_one_execution_began_is_its_own_when_a_lost_commit_is_repeated(url: str) -> None:
    journal, supplier = await Repeating.open(url), Supplier(600)
    worker = await opened(journal, supplier.agent)
    called = await executed(1).run(worker.call_model, await first_call(journal))
    assert called.turn.message.content == "Hello."
    await executed(2).run(worker.run_tool, ORDER)
    assert supplier.orders == ["a"]
    (row,) = await journal.tool_calls("r")
    assert row.attempt == "test-run/test/2000000"
    await journal.close()
