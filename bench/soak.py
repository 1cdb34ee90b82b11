"""`python -m bench.soak`: many shifts on two workers, one of which is killed every few seconds, and what became of all.

Each shift looks at the stock, orders from a supplier that keeps a book, and looks again. Ends with 1 where anything is
not as it should be.
"""

import argparse
import asyncio
import json
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from bench.processes import environment, open_files, polled, resident_bytes
from examples.shop.supplier import Order
from examples.shop.tools import SUPPLIER
from longshift.contracts import RunResult
from longshift.messages import ToolMessage
from longshift.observations import read
from longshift.run_input import RunInput
from store.journal import Journal
from tests.acceptance.order_house import ARGUMENTS, EFFECT, HeldBook, OrderHouse, Verdict, agent_of, order_house
from worker.child import Child

TURNS: tuple[tuple[tuple[str, dict[str, Any]], ...], ...] = (
    (("list_stock", {}), ("product", {"sku": "SKU-VANILLA"})),
    ((EFFECT, ARGUMENTS),),
    (("product", {"sku": "SKU-STRAWBERRY"}),),
)
"""The calls of each turn; the last turn has none."""
CALLS = sum(len(turn) for turn in TURNS)
MESSAGES = 2 + len(TURNS) + CALLS + 1
"""System, user, turns, observations and the answer."""
LIMITS: dict[str, JsonValue] = {"seconds": 3600.0}
AT_ONCE = 5
"""A fifth of the shifts is started at once; the others one after another, while the workers are killed."""
LOADED = 0.9
"""Share of the seconds in which shifts are started."""
SUPPLIER_SECONDS = 0.2
"""Before the supplier enters an order in its book, and again before it answers."""
GAUGE_SECONDS = 1.0
"""Between two looks at a worker, or at what is left."""
STILL_SECONDS = 10.0
"""Without an end of a shift, after which those that are left are asked what they wait for."""
LEAST_LOOKS = 8
"""For there to be one in each quarter of a life."""
LEAST_LIFE = 60.0
"""Seconds that a worker must have lived for its growth to be judged."""
MOST_GROWN = 0.1
"""Share of its memory that a worker may gain from the second quarter of its life to the last."""
MOST_FILES = 8
"""File handles that it may gain; what is in flight has some."""
LOGGED = re.compile("database is locked|SQLITE_BUSY|holds its write lock|Traceback|the worker failed|unexpectedly")
"""Words that no worker's log may hold."""
IN_HISTORY = (b"the journal is away", b"database is locked")
"""Words that no run's history may hold: it waited for its journal, or was told of it."""
SERVER_ERRORS = re.compile(r"level=ERROR(?!.*(context canceled|SendHeader called multiple times))|panic")
"""Words that the server's log may not hold; but it says these two where a killed worker had made a call."""
SHOWN, TOLD = 10, 400
"""Faults that are printed, and characters of a log's line."""
MB = 1e6


@dataclass(frozen=True)
class Plan:
    """What is to be endured."""

    shifts: int
    workers: int
    seconds: float
    """That the load lasts."""
    kill_every: float
    """Seconds between two kills."""


@dataclass(frozen=True)
class Gauge:
    """One look at the worker that lives long."""

    age: float
    """Seconds since the first look."""
    resident: int
    """Bytes."""
    files: int


@dataclass
class Soaked:
    """What became of all."""

    plan: Plan
    statuses: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    seconds: float = 0.0
    """Until the last shift had ended."""
    asked_for: int = 0
    """Requests for an order that reached the supplier."""
    orders: int = 0
    twice: int = 0
    """Shifts with more than one order."""
    unknown: int = 0
    """Shifts whose worker was lost where only the supplier knew, which asked a person."""
    lost: int = 0
    """Model calls whose worker was lost before it recorded an answer."""
    away: int = 0
    """Shifts that had to wait for their journal."""
    gauges: list[Gauge] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class SlowBook(HeldBook):
    """The supplier's book. It takes its time before and after an order, so that kills fall into both."""

    def place(self, sku: str, quantity: int, key: str | None) -> tuple[Order, bool]:
        """Take the order."""
        time.sleep(SUPPLIER_SECONDS)
        placed = super().place(sku, quantity, key)
        time.sleep(SUPPLIER_SECONDS)
        return placed


class _Soak:
    """One soak in a house of its own."""

    def __init__(self, house: OrderHouse, plan: Plan, tell: Callable[[str], object]) -> None:
        self._house = house
        self._plan = plan
        self._tell = tell
        self._workers: list[Child] = []
        self._runs: list[str] = []
        self._found = Soaked(plan)
        _configure(house.folder)

    async def run(self) -> Soaked:
        """Start and kill, wait for the ends, and look at everything."""
        house, found = self._house, self._found
        self._workers = [await self._worker() for _ in range(self._plan.workers)]
        try:
            await polled(house.client, house.queue, *self._workers)
            began = time.monotonic()
            async with asyncio.TaskGroup() as load:
                load.create_task(self._start_shifts())
                load.create_task(self._kill())
            self._tell(f"{found.kills} kills are over; {await self._open()} shifts have not ended")
            await self._drained()
            asked = await house.questions(self._runs)
            await house.answer(asked)
            found.unknown = len(asked)
            verdicts = await house.verdicts(self._runs)
            found.seconds = time.monotonic() - began
        finally:
            for worker in self._workers:
                await worker.kill()
        await self._judge(verdicts)
        return found

    async def _worker(self) -> Child:
        """A worker as people start it, from nothing."""
        house = self._house
        variables = {
            "TEMPORAL_ADDRESS": house.server.address,
            "LONGSHIFT_CONFIG": str(house.folder / "longshift.toml"),
            SUPPLIER: house.supplier.url,
        }
        return await Child.start([sys.executable, "-m", "worker"], house.log, environment(variables))

    async def _start_shifts(self) -> None:
        """Many at once, then one after another."""
        plan, shifts = self._plan, await self._house.shifts()
        at_once = plan.shifts // AT_ONCE
        pause = plan.seconds * LOADED / (plan.shifts - at_once)
        began = time.monotonic()

        async def start(number: int) -> None:
            run_id = f"soak-{'keyed' if number % 2 else 'plain'}-{number}"
            self._runs.append(run_id)
            given = RunInput(agent=f"soak-{agent_of(run_id)}", task="Order vanilla.", limits=LIMITS)
            await shifts.start(given, run_id=run_id)

        await asyncio.gather(*map(start, range(at_once)))
        for number in range(at_once, plan.shifts):
            await asyncio.sleep(began + (number - at_once) * pause - time.monotonic())
            await start(number)

    async def _kill(self) -> None:
        """Kill the workers in turn for half of the time, then only the first one: the last one lives, and is looked
        at."""
        plan, found = self._plan, self._found
        began = time.monotonic()
        gauging: asyncio.Task[None] | None = None
        while (passed := (found.kills + 1) * plan.kill_every) <= plan.seconds:
            await asyncio.sleep(began + passed - time.monotonic())
            in_turn = passed < plan.seconds / 2
            if not in_turn and gauging is None:
                gauging = asyncio.create_task(self._gauge(self._workers[-1]))
            killed = found.kills % plan.workers if in_turn else 0
            await self._workers[killed].kill()
            self._workers[killed] = await self._worker()
            found.kills += 1
            self._tell(f"kill {found.kills}: {len(self._runs)} shifts started, {await self._open()} have not ended")
        await asyncio.sleep(began + plan.seconds - time.monotonic())
        if gauging is not None:
            gauging.cancel()

    async def _gauge(self, worker: Child) -> None:
        began = time.monotonic()
        while worker.code is None:
            age, resident, files = time.monotonic() - began, resident_bytes(worker.pid), open_files(worker.pid)
            self._found.gauges.append(Gauge(age, resident, files))
            await asyncio.sleep(GAUGE_SECONDS)

    async def _open(self) -> int:
        """Shifts that have not ended, as the server lists them."""
        return (await self._house.client.count_workflows("ExecutionStatus = 'Running'")).count

    async def _drained(self) -> None:
        """Wait until no shift has ended for a while: those that are left wait for a person, or for ever."""
        least, since = await self._open(), time.monotonic()
        while least and time.monotonic() - since < STILL_SECONDS:
            await asyncio.sleep(GAUGE_SECONDS)
            if (left := await self._open()) < least:
                least, since = left, time.monotonic()

    async def _judge(self, verdicts: Sequence[Verdict]) -> None:
        """Hold what became of all against what should have."""
        house, found, plan = self._house, self._found, self._plan
        found.asked_for = len(house.book.requests)
        found.orders = len(house.book.listed()["orders"])
        found.twice = sum(verdict.orders > 1 for verdict in verdicts)
        found.faults += [f"{verdict.run_id}: {verdict.problem}" for verdict in verdicts if verdict.problem]
        if found.orders != sum(verdict.orders for verdict in verdicts):
            found.faults.append("the supplier has orders of no shift")
        async with house.journal() as journal:
            for verdict in verdicts:
                run_id = verdict.run_id
                found.faults += [f"{run_id}: {fault}" for fault in await self._looked_at(journal, run_id)]
        if sum(found.statuses.values()) != plan.shifts:
            found.faults.append(f"{sum(found.statuses.values())} shifts ended, of {plan.shifts}")
        found.faults += [f"a worker logged: {line}" for line in _matching(house.log, LOGGED)]
        found.faults += [f"the server logged: {line}" for line in _matching(house.server.log, SERVER_ERRORS)]
        found.faults += _growth(found.gauges)

    async def _looked_at(self, journal: Journal, run_id: str) -> list[str]:
        """What is wrong with how a shift went, beside its order."""
        found, faults = self._found, list[str]()
        row = await journal.run(run_id)
        if row is None or row.result is None:
            return ["the journal has no end of it"]
        result = RunResult.model_validate_json(row.result)
        found.statuses[result.status] += 1
        states = [call.state for call in await journal.model_calls(run_id)]
        lost = states.count("failed")
        found.lost += lost
        messages = [stored.message for stored in await journal.messages(run_id)]
        reads = [message.content for message in messages if isinstance(message, ToolMessage) and message.name != EFFECT]
        if [content for content in reads if not read(content)["ok"]]:
            faults.append("a read failed")
        counted = (result.tool_calls, result.model_calls, result.messages)
        if counted != (CALLS, len(TURNS) + 1 + lost, MESSAGES):
            faults.append(f"counted {counted} tool calls, model calls and messages, {lost} calls lost")
        history = await self._house.handle(run_id).fetch_history()
        if any(words in event.SerializeToString() for event in history.events for words in IN_HISTORY):
            found.away += 1
            faults.append("its journal was away")
        return faults


async def soak(plan: Plan, folder: Path, tell: Callable[[str], object] = lambda line: None) -> Soaked:
    """Endure it.

    Args:
        plan: how much.
        folder: for the server's, the journal's and the workers' files; should be on a real disk.
        tell: gets a line now and then.
    """
    async with order_house(folder, SlowBook) as house:
        return await _Soak(house, plan, tell).run()


def _configure(folder: Path) -> None:
    """Add the agents of the soak, and an endpoint that plays their turns, to the workers' configuration."""
    numbers = iter(range(1, CALLS + 1))
    turns: list[dict[str, object]] = [
        {
            "calls": [{"id": f"call-{next(numbers)}", "name": name, "arguments": given} for name, given in turn],
            "output_tokens": 1,
        }
        for turn in TURNS
    ]
    turns.append({"content": "Done.", "output_tokens": 1})
    file = folder / "soak.json"
    file.write_text(json.dumps(turns), encoding="utf-8")
    agents = "".join(f'[agents.soak-{name}]\nuse = "bench.soak_agents:{name}"\n' for name in ("plain", "keyed"))
    with (folder / "longshift.toml").open("a", encoding="utf-8") as config:
        config.write(f'[endpoints.soak]\nkind = "replay"\nfile = "{file}"\n{agents}')


def _matching(log: Path, words: re.Pattern[str]) -> Iterator[str]:
    with log.open(encoding="utf-8", errors="replace") as lines:
        yield from (line.strip()[:TOLD] for line in lines if words.search(line))


def _quarter(gauges: Sequence[Gauge], number: int) -> tuple[float, float]:
    """Medians of memory, in MB, and file handles in a quarter of a worker's life, the first of which is number 1."""
    life = gauges[-1].age
    chosen = [gauge for gauge in gauges if (number - 1) * life <= 4 * gauge.age <= number * life]
    return statistics.median(g.resident for g in chosen) / MB, statistics.median(g.files for g in chosen)


def _growth(gauges: Sequence[Gauge]) -> Iterator[str]:
    """What a worker gained under an even load that it should not have."""
    if len(gauges) < LEAST_LOOKS or gauges[-1].age < LEAST_LIFE:
        return
    (memory, files), (memory_at_last, files_at_last) = _quarter(gauges, 2), _quarter(gauges, 4)
    if memory_at_last > memory * (1 + MOST_GROWN):
        yield f"a worker's memory grew from {memory:.0f} to {memory_at_last:.0f} MB"
    if files_at_last > files + MOST_FILES:
        yield f"a worker's file handles grew from {files:.0f} to {files_at_last:.0f}"


def table(found: Soaked) -> Iterator[str]:
    """What became of all, as lines of Markdown."""
    plan = found.plan
    ends = ", ".join(f"{count} {status}" for status, count in found.statuses.most_common())
    yield f"- {plan.shifts} shifts on {plan.workers} workers, {found.kills} of them killed in {plan.seconds:g} s, each"
    yield f"  replaced at once; the last shift had ended after {found.seconds:.0f} s"
    yield f"- ends: {ends}"
    yield f"- at the supplier: {found.asked_for} requests, {found.orders} orders, {found.twice} shifts with two"
    yield f"- {found.unknown} shifts asked a person what came of their order, {found.away} waited for their journal"
    yield f"- {found.lost} model calls lost their worker before it recorded an answer"
    if len(found.gauges) >= LEAST_LOOKS:
        quarters = [_quarter(found.gauges, number) for number in range(1, 5)]
        memory, files = (", ".join(f"{figure:.0f}" for figure in figures) for figures in zip(*quarters, strict=True))
        yield f"- a worker that lived on for {found.gauges[-1].age:.0f} s had, in the quarters of its life,"
        yield f"  {memory} MB and {files} file handles"
    yield f"- not as it should be: {len(found.faults)}"
    yield from (f"  - {fault}" for fault in found.faults[:SHOWN])


def _main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak", description="Many shifts, and a kill every few seconds."
    )
    parser.add_argument("--shifts", type=int, default=500, metavar="N", help="shifts in all (default: 500)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="workers on one journal (default: 2)")
    parser.add_argument("--seconds", type=float, default=300, metavar="S", help="how long it lasts (default: 300)")
    parser.add_argument("--kill-every", type=float, default=5, metavar="S", help="seconds between kills (default: 5)")
    given = parser.parse_args()
    plan = Plan(given.shifts, given.workers, given.seconds, given.kill_every)
    if plan.shifts < 2 or plan.workers < 1 or plan.seconds <= 0 or plan.kill_every <= 0:
        parser.error("give at least 2 shifts and 1 worker, and seconds above 0")
    with tempfile.TemporaryDirectory(prefix="longshift-soak-") as folder:
        found = asyncio.run(soak(plan, Path(folder), lambda line: sys.stderr.write(f"{line}\n")))
    sys.stdout.write("\n".join(table(found)) + "\n")
    return int(bool(found.faults))


if __name__ == "__main__":
    sys.exit(_main())
