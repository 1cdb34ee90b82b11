"""A house with a supplier, and runs that order from it: what became of an order, by the supplier's own book."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    PauseActivityRequest,
    ResetWorkflowExecutionRequest,
    UnpauseActivityRequest,
)
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError

from examples.shop.supplier import Book, Order, Supplier
from examples.shop.tools import SUPPLIER
from longshift import contracts, validate_episode
from longshift.messages import ToolMessage
from longshift.observations import read
from longshift.questions import Question
from longshift.run_input import RunInput
from longshift.status import Status
from longshift.view import StateView
from tests.acceptance.kill_points import SUPPLIERS, point_of
from tests.acceptance.shift_house import PATIENCE, House, Outside
from tests.audits import differences
from worker.child import Child
from worker.dev_server import DevServer
from worker.plugin import longshift_plugin

EFFECT = "place_order"
"""The tool that each run orders with."""
ARGUMENTS = {"sku": "SKU-VANILLA", "quantity": 6}
"""What each run orders, once."""
FIRST_TASK_DONE = 4
"""The event that completes a run's first workflow task: it is started, and the task scheduled and started, before."""
LIMITS: dict[str, JsonValue] = {"seconds": 600.0}
LOOK_SECONDS = 0.5
"""Between two looks at a run that is waited for; what it waits for has no event outside of it."""


class HeldBook(Book):
    """The supplier's book, which runs can stop at. It honours keys for the runs of the agent `keyed` alone."""

    def __init__(self, gate: Callable[[str], None]) -> None:
        """Begin with no order.

        Args:
            gate: waits until the run of this id may go on.
        """
        super().__init__()
        self._gate = gate
        self.requests: list[str] = []
        """The run of each request that arrived, whatever became of it."""

    def honours(self, key: str) -> bool:
        """One order for a key, where the tool says so."""
        return agent_of(run_of(key)) == "keyed"

    def place(self, sku: str, quantity: int, key: str | None) -> tuple[Order, bool]:
        """Take the order, stopped before or after it, or lose it, as its run's id says."""
        run_id = run_of(key or "")
        point = point_of(run_id)
        first = run_id not in self.requests
        self.requests.append(run_id)
        if point in ("request", "lost"):
            self._gate(run_id)
        if point == "lost" and first:
            raise ConnectionResetError
        placed = super().place(sku, quantity, key)
        if point == "counted":
            self._gate(run_id)
        return placed

    def orders(self, run_id: str) -> list[dict[str, Any]]:
        """The orders that stand for a run, under whichever operation."""
        return [order for order in self.listed()["orders"] if run_of(order["key"]) == run_id]


def run_of(key: str) -> str:
    """The run whose operation a key is."""
    return key.partition("/")[0]


def agent_of(run_id: str) -> str:
    """The agent of a run; see `OrderHouse.begin`."""
    return run_id.split("-")[1]


@dataclass(frozen=True)
class Verdict:
    """What became of the one order of a run that has ended."""

    run_id: str
    orders: int
    requests: int
    problem: str | None
    """What is wrong; None where there is at most one order and the transcript tells the truth about it."""


class OrderHouse(House):
    """Runs that order once each, and the workers and the supplier they need."""

    def __init__(self, folder: Path, server: DevServer, outside: Outside, supplier: Supplier, book: HeldBook) -> None:
        super().__init__(folder, server, outside)
        self.supplier = supplier
        self.book = book
        self.client: Client

    def _write_config(self) -> None:
        super()._write_config()
        call = '{ id = "order-1", name = "place_order", arguments = { sku = "SKU-VANILLA", quantity = 6 } }'
        agents = "".join(
            f'[agents.{name}]\nuse = "tests.acceptance.order_agent:{name}"\n' for name in ("plain", "keyed", "asking")
        )
        with (self.folder / "longshift.toml").open("a", encoding="utf-8") as config:
            config.write(
                '[endpoints.ordering]\nkind = "replay"\n'
                f'turns = [{{ calls = [{call}], output_tokens = 1 }}, {{ content = "Done.", output_tokens = 1 }}]\n'
                f"{agents}"
            )

    async def connect(self) -> None:
        """Connect to the server, once more where it was away."""
        self.client = await Client.connect(self.server.address, plugins=[longshift_plugin()])

    async def start_server(self) -> None:
        """Start the server again that was killed."""
        await self.server.restart()
        await self.connect()

    def said(self, words: str) -> int:
        """How often the workers have logged something."""
        return self.log.read_text("utf-8").count(words)

    async def until_said(self, words: str, times: int) -> None:
        """Wait until they have, so often."""
        async with asyncio.timeout(PATIENCE):
            while self.said(words) < times:  # noqa: ASYNC110  a log has no event
                await asyncio.sleep(0.05)

    async def rescuer(self) -> Child:
        """Start a worker that nothing stops."""
        return await self.worker(**{SUPPLIER: self.supplier.url})

    async def victim(self, **environment: str) -> Child:
        """Start a worker whose runs stop at their points. Each of them takes a place in it."""
        given = {SUPPLIER: self.supplier.url, "LONGSHIFT_WORKER__MAX_CONCURRENT_ACTIVITIES": "1000"}
        return await self.process("tests.acceptance.kill_points", **given, **environment)

    async def begin(self, points: Sequence[str], agents: Sequence[str], rounds: Sequence[int]) -> list[str]:
        """Start a run for each combination. Returns their ids, made of all three."""
        runs = [f"{point}-{agent}-{number}" for point in points for agent in agents for number in rounds]
        self.outside.hold(*runs)
        shifts = await self.shifts()
        inputs = {run_id: RunInput(agent=agent_of(run_id), task="Order vanilla.", limits=LIMITS) for run_id in runs}
        await asyncio.gather(*(shifts.start(given, run_id=run_id) for run_id, given in inputs.items()))
        return runs

    async def at_their_points(self, runs: Sequence[str]) -> None:
        """Wait until every run stands at its point.

        Raises TimeoutError, naming those that did not come.
        """
        came = await asyncio.gather(*(self.outside.came(run_id) for run_id in runs), return_exceptions=True)
        missing = [run_id for run_id, error in zip(runs, came, strict=True) if error is not None]
        if missing:
            raise TimeoutError(f"did not come to their points: {', '.join(missing)}")

    async def still_at_their_points(self, runs: Sequence[str]) -> list[str]:
        """Those whose effect is in flight, as the server has it; or at the last point, is told of next."""
        found = await asyncio.gather(*(self.handle(run_id).describe() for run_id in runs))
        return [run_id for run_id, described in zip(runs, found, strict=True) if _in_flight(run_id, described)]

    def let_supplier_go_on(self, runs: Sequence[str]) -> None:
        """Have the supplier go on with what it holds."""
        for run_id in runs:
            if point_of(run_id) in SUPPLIERS:
                self.outside.let_go(run_id)

    def let_go_on(self, runs: Sequence[str]) -> None:
        """Open every gate."""
        for run_id in runs:
            self.outside.let_go(run_id)

    def handle(self, run_id: str) -> WorkflowHandle[Any, Any]:
        """A run as Temporal knows it."""
        return self.client.get_workflow_handle(run_id)

    async def question(self, run_id: str) -> Question | None:
        """Wait until the run asks a person, or has ended: then None."""
        async with asyncio.timeout(PATIENCE):
            while (described := await self.handle(run_id).describe()).status is WorkflowExecutionStatus.RUNNING:
                if (await described.memo()).get("status") == "WAITING":
                    with contextlib.suppress(RPCError):  # no worker answers yet
                        view: StateView = await self.handle(run_id).query(contracts.STATE, result_type=StateView)
                        if view.status == "WAITING" and view.question is not None:
                            return view.question
                await asyncio.sleep(LOOK_SECONDS)
        return None

    async def answer(self, asked: Mapping[str, Question]) -> None:
        """Do as a person would: approve; or look whether the supplier has the order, and say so."""
        for run_id, question in asked.items():
            answer: dict[str, Any] = {"call_id": question.call_id, "arguments_sha256": question.arguments_sha256}
            orders = self.book.orders(run_id)
            if question.kind == "approval":
                name = contracts.APPROVE
            elif orders:
                name = contracts.RESOLVE
                answer |= {"outcome": "happened", "result": {"order": orders[0]["order"], **ARGUMENTS}}
            else:
                name = contracts.RESOLVE
                answer |= {"outcome": "did_not_happen"}
            await self.handle(run_id).execute_update(name, answer)

    async def reset(self, run_id: str) -> None:
        """Do as an operator may: have the run begin again at its first workflow task, and the present one ended."""
        await self.client.workflow_service.reset_workflow_execution(
            ResetWorkflowExecutionRequest(
                namespace=self.client.namespace,
                workflow_execution=WorkflowExecution(workflow_id=run_id),
                workflow_task_finish_event_id=FIRST_TASK_DONE,
                request_id=f"reset-{run_id}",
            )
        )

    async def pause_and_unpause(self, run_id: str) -> None:
        """Do as an operator may: pause the effect in flight and let it go on. Of an activity that heeds the pause, the
        platform makes a second attempt then."""
        space, run = self.client.namespace, WorkflowExecution(workflow_id=run_id)
        service = self.client.workflow_service
        await service.pause_activity(PauseActivityRequest(namespace=space, execution=run, type=contracts.RUN_TOOL))
        await service.unpause_activity(UnpauseActivityRequest(namespace=space, execution=run, type=contracts.RUN_TOOL))

    async def questions(self, runs: Sequence[str]) -> dict[str, Question]:
        """Wait until every run has ended or waits for a person; the questions of those that wait."""
        asked = await asyncio.gather(*(self.question(run_id) for run_id in runs))
        return {run_id: question for run_id, question in zip(runs, asked, strict=True) if question is not None}

    async def verdicts(self, runs: Sequence[str]) -> list[Verdict]:
        """Wait until the runs have ended, and hold their transcripts against the supplier's book."""
        shifts = await self.shifts()
        found: list[Verdict] = []
        async with self.journal() as journal:
            for run_id in runs:
                async with asyncio.timeout(PATIENCE):
                    result = await shifts.result(run_id)
                messages = [stored.message for stored in await journal.messages(run_id)]
                orders = self.book.orders(run_id)
                observed = [m.content for m in messages if isinstance(m, ToolMessage) and m.name == EFFECT]
                problem = _untrue(observed, orders)
                if result.status is not Status.COMPLETED:
                    problem = f"ended with {result.status}: {result.detail}"
                if await journal.verify_chain(run_id) is not None or not validate_episode(messages).complete:
                    problem = "its transcript is broken"
                differing = await differences(self.client, journal, run_id)
                if differing:
                    problem = f"its audit: {differing[0]}"
                found.append(Verdict(run_id, len(orders), self.book.requests.count(run_id), problem))
        return found


def _in_flight(run_id: str, described: WorkflowExecutionDescription) -> bool:
    pending = [activity.activity_type.name for activity in described.raw_description.pending_activities]
    if point_of(run_id) == "reported":
        return not pending and described.raw_description.HasField("pending_workflow_task")
    return pending == [contracts.RUN_TOOL]


def _untrue(observations: Sequence[str], orders: Sequence[dict[str, Any]]) -> str | None:
    """What a transcript says of its order that the supplier's book does not, or that there are two."""
    if len(orders) > 1:
        return f"ordered {len(orders)} times"
    if len(observations) != 1:
        return f"has {len(observations)} observations"
    body: Any = read(observations[0])
    told = body["value"]["order"] if body["ok"] else None
    stands = orders[0]["order"] if orders else None
    return None if told == stands else f"says {observations[0]}, and the supplier has {stands}"


@contextmanager
def _serving(supplier: Supplier) -> Iterator[None]:
    thread = threading.Thread(target=supplier.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield
    finally:
        supplier.shutdown()
        thread.join()


@asynccontextmanager
async def order_house(folder: Path, book_of: type[HeldBook] = HeldBook) -> AsyncIterator[OrderHouse]:
    """A server, a supplier with a book of this kind, and room for workers, for as long as the body runs."""
    loop = asyncio.get_running_loop()
    async with DevServer(folder / "server", ui=False) as server, Outside().open() as outside:

        def gate(run_id: str) -> None:
            asyncio.run_coroutine_threadsafe(outside.stop_at(run_id), loop).result()

        book = book_of(gate)
        with Supplier(book) as supplier, _serving(supplier):
            house = OrderHouse(folder, server, outside, supplier, book)
            await house.connect()
            try:
                yield house
            finally:
                await house.end()
                await server.kill()
