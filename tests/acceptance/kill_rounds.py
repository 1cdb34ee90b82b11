"""Rounds of interruptions: many runs are brought to their points, hit at once, and followed to their ends.

Each round gives back what became of every run's order; nothing here asserts.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.acceptance.kill_points import POINTS
from tests.acceptance.order_house import OrderHouse, Verdict
from tests.acceptance.shift_house import PATIENCE
from worker.child import Child

EVERY_POINT = tuple(point.name for point in POINTS)
UNKEYED, BOTH = ("plain",), ("plain", "keyed")
"""Agents: whose supplier takes every request for an order; and beside it, one whose supplier honours keys."""


@dataclass(frozen=True)
class Outcome:
    """What became of one run."""

    verdict: Verdict
    asked: bool
    """It waited, visibly, for a person to say what came of its order."""


Round = Callable[[OrderHouse, Sequence[int]], Awaitable[list[Outcome]]]
"""Takes a house without workers, and a number for each run that is to stand at a point; leaves no worker."""


async def worker_killed(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """SIGKILL; another worker takes over."""
    victim = await house.victim()
    runs = await _at_points(house, EVERY_POINT, BOTH, numbers)
    await victim.kill()
    house.let_all_go_on(runs)
    return await _rescued(house, runs)


async def worker_suspended(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """SIGSTOP, until another worker has taken over and half of the questions are answered; then SIGCONT."""
    victim = await house.victim()
    runs = await _at_points(house, EVERY_POINT, BOTH, numbers)
    os.kill(victim.pid, signal.SIGSTOP)
    house.let_supplier_go_on(runs)
    rescuer = await house.rescuer()
    asked = await house.settled(runs)
    early = list(asked)[::2]
    await house.answer({run_id: asked[run_id] for run_id in early})
    await house.verdicts([run_id for run_id in runs if run_id not in asked or run_id in early])
    house.let_all_go_on(runs)
    os.kill(victim.pid, signal.SIGCONT)
    await victim.stop(PATIENCE)
    await house.answer({run_id: question for run_id, question in asked.items() if run_id not in early})
    return await _outcomes(house, runs, asked, rescuer)


async def worker_ended_in_grace(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """SIGTERM, and the supplier replies within the grace."""
    victim = await house.victim()
    runs = await _at_points(house, ("request", "counted"), UNKEYED, numbers)
    said = house.log.read_text("utf-8").count("ending:")
    ending = asyncio.create_task(victim.stop(PATIENCE))
    await _said(house, "ending:", said + 1)
    house.let_all_go_on(runs)
    await ending
    return await _rescued(house, runs)


async def worker_ended_past_grace(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """SIGTERM, and the supplier replies after the grace."""
    victim = await house.victim(LONGSHIFT_WORKER__GRACE_SECONDS="0.5")
    runs = await _at_points(house, ("request", "counted"), UNKEYED, numbers)
    await victim.stop(PATIENCE)
    house.let_all_go_on(runs)
    return await _rescued(house, runs)


async def server_killed(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """SIGKILL for the Temporal server; the order is made and settled while it is away; started again."""
    victim = await house.victim()
    runs = await _at_points(house, EVERY_POINT, UNKEYED, numbers)
    await house.server.kill()
    house.let_all_go_on(runs)
    await house.server.restart()
    await house.connect()
    asked = await house.settled(runs)
    await house.answer(asked)
    return await _outcomes(house, runs, asked, victim)


async def server_away_for_long(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """The same, and the server is away until the platform has dropped the completions."""
    victim = await house.victim()
    runs = await _at_points(house, ("counted", "settled", "returned"), UNKEYED, numbers)
    dropped = house.log.read_text("utf-8").count("completing activity")
    await house.server.kill()
    house.let_all_go_on(runs)
    await _said(house, "completing activity", dropped + len(runs))
    await house.server.restart()
    await house.connect()
    asked = await house.settled(runs)
    await house.answer(asked)
    return await _outcomes(house, runs, asked, victim)


async def all_closed_while_a_person_is_asked(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """SIGKILL at a point; SIGKILL for everything once the runs wait for a person, for an approval or an outcome."""
    victim = await house.victim()
    waiting = await house.begin(("approval",), ("asking",), numbers)
    runs = await _at_points(house, ("started", "counted"), UNKEYED, numbers)
    await victim.kill()
    house.let_all_go_on(runs)
    rescuer = await house.rescuer()
    asked = await house.settled(runs + waiting)
    await asyncio.gather(rescuer.kill(), house.server.kill())
    await house.server.restart()
    await house.connect()
    rescuer = await house.rescuer()
    still_asked = await house.settled(runs + waiting)
    await house.answer(still_asked)
    both = {run_id: question for run_id, question in still_asked.items() if asked.get(run_id) == question}
    return await _outcomes(house, runs + waiting, both, rescuer)


async def _at_points(
    house: OrderHouse, points: Sequence[str], agents: Sequence[str], numbers: Sequence[int]
) -> list[str]:
    runs = await house.begin(points, agents, numbers)
    await house.at_their_points(runs)
    return runs


async def _rescued(house: OrderHouse, runs: Sequence[str]) -> list[Outcome]:
    """Have another worker take over, and answer what it asks."""
    rescuer = await house.rescuer()
    asked = await house.settled(runs)
    await house.answer(asked)
    return await _outcomes(house, runs, asked, rescuer)


async def _outcomes(house: OrderHouse, runs: Sequence[str], asked: Iterable[str], worker: Child) -> list[Outcome]:
    found = [Outcome(verdict, verdict.run_id in asked) for verdict in await house.verdicts(runs)]
    await worker.kill()
    return found


async def _said(house: OrderHouse, words: str, times: int) -> None:
    """Wait until the workers have logged something so often; a log has no event."""
    async with asyncio.timeout(PATIENCE):
        while house.log.read_text("utf-8").count(words) < times:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
