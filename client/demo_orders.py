"""The demonstration of effects: a shift orders from a supplier, and its worker is killed in the middle of an order."""

import asyncio
import http.client
import json
import shlex
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from client.demo import CRASH_HEARTBEAT_SECONDS, PATIENCE_SECONDS, Played, Stage, Telling, stage
from examples.shop.evidence import EXPECTED
from examples.shop.supplier import HOST, Book, Order, Supplier
from examples.shop.tools import SUPPLIER, place_order
from longshift import observations
from longshift.contracts import RunResult
from longshift.messages import Message, ToolMessage
from longshift.questions import Question
from longshift.remedies import commands
from longshift.run_input import RunInput
from longshift.status import Status
from worker.settings import BUYER_TURNS

AGENT = "buyer"
ORDER_TO_KILL = "PO-2"
"""Number of the order in whose middle the worker is killed."""
NEEDED = sorted((item["sku"], item["quantity"]) for item in EXPECTED)
"""What the shop needs: sku and tubs."""
LIST_SECONDS = 5.0
"""Seconds for the supplier to list its orders."""
VARIABLES = {
    "LONGSHIFT_AGENTS__BUYER__USE": "examples.shop.agent:buyer_next_door",
    "LONGSHIFT_WORKER__HEARTBEAT_SECONDS": str(CRASH_HEARTBEAT_SECONDS),
}
"""The worker's configuration, beside the supplier's address."""


@dataclass(frozen=True)
class Asked:
    """One call of the shift that was to order, and what each side says of it."""

    call_id: str
    at_supplier: tuple[str, ...]
    """Numbers of the orders that the supplier has of this call."""
    in_shift: str | None
    """Number of the order that the shift's observation names; None where it is an error."""


@dataclass(frozen=True)
class Orders(Played):
    """What came of the shift that orders."""

    orders: tuple[Order, ...]
    """All that the supplier took."""
    asked: tuple[Asked, ...]
    """The shift's calls, in order."""

    @property
    def good(self) -> bool:
        """Completed, and proved."""
        return self.result.status is Status.COMPLETED and self.verdict

    @property
    def verdict(self) -> bool:
        """The supplier took what the shop needs and nothing else, each once, and the shift says the same of each."""
        took = sorted((order.sku, order.quantity) for order in self.orders)
        same = all(asked.at_supplier == (asked.in_shift,) for asked in self.asked)
        return took == NEEDED and len(self.asked) == len(NEEDED) and same

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        told = sum(asked.in_shift is not None for asked in self.asked)
        twice = ", ".join(asked.call_id for asked in self.asked if len(asked.at_supplier) > 1)
        counted = f"{len(self.orders)} orders at the supplier, {told} in the shift, {twice or 'none'} twice"
        return counted if self.verdict else f"{counted}; needed are {len(NEEDED)} at both, the same ones"

    def document(self) -> dict[str, Any]:
        """The outcome as `--json` prints it, with both sides' orders and the verdict."""
        return super().document() | {
            "orders": [vars(order) for order in self.orders],
            "asked": [vars(asked) for asked in self.asked],
            "evidence": self.verdict,
            "evidence_detail": self.sentence,
        }


class WatchedBook(Book):
    """The supplier's book; it waits for `taken` once an order is noted, and before the shop gets its answer."""

    taken: Callable[[Order], Coroutine[Any, Any, None]]
    """Set before the first order comes."""

    def __init__(self) -> None:
        """Begin with no order, inside the loop in which `taken` is to run."""
        super().__init__()
        self._loop = asyncio.get_running_loop()

    def place(self, sku: str, quantity: int, key: str | None) -> tuple[Order, bool]:
        """Take the order."""
        order, new = super().place(sku, quantity, key)
        asyncio.run_coroutine_threadsafe(self.taken(order), self._loop).result()
        return order, new


@asynccontextmanager
async def ordered(telling: Telling) -> AsyncIterator[Orders]:
    """Play the shift that orders; supplier, server, UI and worker are up until the context is left.

    Raises:
        ServerFailed, WorkerFailed: with the reason.
    """
    book = WatchedBook()
    with serving(book) as supplier:
        telling.note(f"supplier up at {supplier.url}, its orders at {supplier.url}/orders")
        async with stage(telling.note, {**VARIABLES, SUPPLIER: supplier.url}) as up:
            shift = _Shift(telling, up, supplier)
            book.taken = shift.taken
            run_id = await up.shifts.start(
                RunInput(agent=AGENT, task=json.loads(BUYER_TURNS.read_text("utf-8"))["task"])
            )
            result = await up.to_its_end(shift.followed(run_id), PATIENCE_SECONDS)
            orders = await shift.listed()
            asked = compared(await up.shifts.transcript(run_id), run_id, orders)
            yield Orders(result, up.server.address, up.journal, await up.page(run_id), orders, asked)


@contextmanager
def serving(book: Book) -> Iterator[Supplier]:
    """A supplier with this book on a free port, that serves while the body runs."""
    with Supplier(book) as supplier:
        thread = threading.Thread(target=supplier.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield supplier
        finally:
            supplier.shutdown()
            thread.join()


def compared(messages: Sequence[Message], run_id: str, orders: Sequence[Order]) -> tuple[Asked, ...]:
    """Hold the transcript of a shift against the supplier's orders."""
    observed = [one for one in messages if isinstance(one, ToolMessage) and one.name == place_order.spec.name]
    return tuple(
        Asked(
            one.call_id,
            tuple(order.order for order in orders if _is_of(order, run_id, one.call_id)),
            _number(observations.read(one.content).get("value")),
        )
        for one in observed
    )


class _Shift:
    """Follows a shift, and does for it what a person would."""

    def __init__(self, telling: Telling, up: Stage, supplier: Supplier) -> None:
        self._telling, self._up, self._supplier = telling, up, supplier
        self._goes_on = asyncio.Event()
        """Set while no question is open, as far as the story is told."""
        self._goes_on.set()

    async def taken(self, order: Order) -> None:
        """Tell of an order; and kill the worker before it has the supplier's reply, if it is that one's turn."""
        note, worker = self._telling.note, self._up.worker
        await self._goes_on.wait()  # so that what happens is told in its order
        note(f"the supplier takes {order.order}: {order.quantity} x {order.sku}, under the key {order.key}")
        if order.order == ORDER_TO_KILL:
            note(f"kill -9 {worker.pid}: the worker dies before it has the supplier's reply")
            await worker.kill()
            note("the ledger has it as begun, and not what came of it: the shift waits until the tool's time is over")

    async def followed(self, run_id: str) -> RunResult:
        """Tell each step, answer each question; how the shift ended."""
        shifts = self._up.shifts
        async for line in shifts.follow(run_id):
            self._telling.step(line)
            if line.kind == "waiting":
                question = (await shifts.state(run_id)).question
                if question is not None:
                    self._goes_on.clear()
                    await self._answer(run_id, question)
            elif line.kind == "goes_on":
                self._goes_on.set()
        return await shifts.result(run_id)

    async def _answer(self, run_id: str, question: Question) -> None:
        """Approve an order; or look at the supplier's list for what came of it, and say that."""
        shifts, note = self._up.shifts, self._telling.note
        if question.kind == "approval":
            self._person_types(commands(run_id, question)[0])
            await shifts.approve(run_id, question)
            return
        found = [order for order in await self.listed() if _is_of(order, run_id, question.call_id)]
        listed = f"GET {self._supplier.url}/orders"
        happened, did_not_happen, _ = commands(run_id, question)
        if found:
            note(f"{listed} has {found[0].order} under the key {found[0].key}: it was ordered")
            result: JsonValue = {"order": found[0].order, "sku": found[0].sku, "quantity": found[0].quantity}
            self._person_types(happened.removesuffix("JSON") + shlex.quote(json.dumps(result)))
            await shifts.resolve(run_id, question, "happened", result=result)
        else:
            note(f"{listed} has no order for {question.call_id}: it was not ordered")
            self._person_types(did_not_happen)
            await shifts.resolve(run_id, question, "did_not_happen")

    def _person_types(self, command: str) -> None:
        self._telling.note(f"a person would type what the demonstration does for you: {command}")

    async def listed(self) -> tuple[Order, ...]:
        """The supplier's orders, as it lists them to anyone."""
        body = await asyncio.to_thread(_get, self._supplier.server_port, "/orders")
        return tuple(Order(**order) for order in body["orders"])


def _get(port: int, path: str) -> Any:
    """What a server on this machine answers. Not urllib.request, which goes through the user's proxy."""
    connection = http.client.HTTPConnection(HOST, port, timeout=LIST_SECONDS)
    try:
        connection.request("GET", path)
        return json.load(connection.getresponse())
    finally:
        connection.close()


def _is_of(order: Order, run_id: str, call_id: str) -> bool:
    """Whether an order's key is the operation of this call: it begins with the run and ends with the call."""
    key = order.key or ""
    return key.startswith(f"{run_id}/") and key.endswith(f"/{call_id}")


def _number(value: object) -> str | None:
    """The order's number in what the tool returned, or a person told."""
    return str(value["order"]) if isinstance(value, dict) and "order" in value else None
