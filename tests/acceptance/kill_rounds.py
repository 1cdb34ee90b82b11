"""Rounds of interruptions: many runs are brought to their points, hit at once, and followed to their ends.

Each round gives back what became of every run's order; nothing here asserts. A round's docstring is its line in the
table.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass, replace

from tests.acceptance.kill_points import IN_HANDLER, POINTS
from tests.acceptance.order_house import OrderHouse, Verdict
from tests.acceptance.shift_house import PATIENCE
from worker.child import Child

EVERY_POINT = tuple(point.name for point in POINTS)
PLAIN, BOTH = ("plain",), ("plain", "keyed")
"""Agents: one whose supplier takes every request for an order; and beside it, one whose supplier honours keys."""
DROPPED = "completing activity"
"""What the platform logs when it gives up a completion that it cannot deliver for ten seconds."""


@dataclass(frozen=True)
class Outcome:
    """What became of one run."""

    verdict: Verdict
    asked: bool
    """It waited, visibly, for a person: to say what came of its order, or to approve it."""
    hit: bool
    """It stood at its point when it was hit."""


Round = Callable[[OrderHouse, Sequence[int]], Awaitable[list[Outcome]]]
"""Takes a house without workers, and a number for each run that is to stand at a point; leaves no worker."""


@dataclass(frozen=True)
class Held:
    """Runs at their points, and the worker that holds them there."""

    worker: Child
    runs: tuple[str, ...]
    at_point: tuple[str, ...]
    """Those that still stood there when all had come; of the others time ran out."""


async def worker_killed(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """SIGKILL of the worker"""
    held = await _held(house, EVERY_POINT, BOTH, numbers)
    await held.worker.kill()
    house.let_go_on(held.runs)
    return await _rescued(house, held)


async def worker_suspended(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """SIGSTOP of the worker, SIGCONT once another has taken over"""
    held = await _held(house, EVERY_POINT, BOTH, numbers)
    os.kill(held.worker.pid, signal.SIGSTOP)
    house.let_supplier_go_on(held.runs)
    rescuer = await house.rescuer()
    asked = await house.questions(held.runs)
    early = dict(list(asked.items())[::2])  # answered before the first worker comes back; the others after
    await house.answer(early)
    await house.verdicts([run_id for run_id in held.runs if run_id not in asked or run_id in early])
    house.let_go_on(held.runs)
    os.kill(held.worker.pid, signal.SIGCONT)
    await held.worker.stop(PATIENCE)
    await house.answer({run_id: question for run_id, question in asked.items() if run_id not in early})
    return await _outcomes(house, held, asked, rescuer)


async def worker_ended_in_grace(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """SIGTERM of the worker, the supplier replies within the grace"""
    held = await _held(house, ("request", "counted"), PLAIN, numbers)
    said = house.said("ending:")
    ending = asyncio.create_task(held.worker.stop(PATIENCE))
    await house.until_said("ending:", said + 1)
    house.let_go_on(held.runs)
    await ending
    return await _rescued(house, held)


async def worker_ended_past_grace(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """SIGTERM of the worker, the supplier replies after the grace"""
    held = await _held(house, ("request", "counted"), PLAIN, numbers, LONGSHIFT_WORKER__GRACE_SECONDS="0.5")
    await held.worker.stop(PATIENCE)
    house.let_go_on(held.runs)
    return await _rescued(house, held)


async def server_killed(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """SIGKILL of the Temporal server, started again at once"""
    held = await _held(house, EVERY_POINT, PLAIN, numbers)
    await house.server.kill()
    house.let_go_on(held.runs)
    await house.start_server()
    return await _followed(house, held, held.worker)


async def server_away_for_long(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """SIGKILL of the Temporal server, away until the platform has dropped the completions"""
    held = await _held(house, ("counted", "settled", "returned"), PLAIN, numbers)
    dropped = house.said(DROPPED)
    await house.server.kill()
    house.let_go_on(held.runs)
    await house.until_said(DROPPED, dropped + len(held.runs))
    await house.start_server()
    return await _followed(house, held, held.worker)


async def all_killed_while_a_person_is_asked(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """SIGKILL of the worker, then of everything while a person is asked for an approval or an outcome"""
    held = await _held(house, ("started", "counted"), PLAIN, numbers)
    await held.worker.kill()
    house.let_go_on(held.runs)
    rescuer = await house.rescuer()
    waiting = await house.begin(("approval",), ("asking",), numbers)
    held = replace(held, runs=(*held.runs, *waiting), at_point=(*held.at_point, *waiting))
    asked = await house.questions(held.runs)
    await asyncio.gather(rescuer.kill(), house.server.kill())
    await house.start_server()
    rescuer = await house.rescuer()
    still_asked = await house.questions(held.runs)
    await house.answer(still_asked)
    return await _outcomes(house, held, [run_id for run_id in asked if asked[run_id] == still_asked[run_id]], rescuer)


async def run_reset(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """Reset of the run to its beginning by an operator"""
    held = await _held(house, ("scheduled", "counted", "settled"), PLAIN, numbers)
    await asyncio.gather(*map(house.reset, held.runs))
    house.let_go_on(held.runs)
    return await _followed(house, held, held.worker)


async def effect_paused(house: OrderHouse, numbers: Sequence[int]) -> list[Outcome]:
    """Pause and unpause of the effect by an operator"""
    held = await _held(house, ("scheduled", "counted", "settled"), PLAIN, numbers)
    await asyncio.gather(*map(house.pause_and_unpause, held.runs))
    house.let_go_on(held.runs)
    return await _followed(house, held, held.worker)


ROUNDS: tuple[Round, ...] = (
    worker_killed,
    worker_suspended,
    worker_ended_in_grace,
    worker_ended_past_grace,
    server_killed,
    server_away_for_long,
    all_killed_while_a_person_is_asked,
    run_reset,
    effect_paused,
)


async def _held(
    house: OrderHouse, points: Sequence[str], agents: Sequence[str], numbers: Sequence[int], **environment: str
) -> Held:
    """Bring a run to each point. Those with little time there, inside the tool's own time-out, come last."""
    worker = await house.victim(**environment)
    runs: list[str] = []
    for handler in (False, True):
        chosen = [point for point in points if (point in IN_HANDLER) == handler]
        begun = await house.begin(chosen, agents, numbers)
        await house.at_their_points(begun)
        runs += begun
    return Held(worker, tuple(runs), tuple(await house.still_at_their_points(runs)))


async def _rescued(house: OrderHouse, held: Held) -> list[Outcome]:
    """Have another worker take over."""
    return await _followed(house, held, await house.rescuer())


async def _followed(house: OrderHouse, held: Held, worker: Child) -> list[Outcome]:
    """Answer what the runs ask, and see them to their ends."""
    asked = await house.questions(held.runs)
    await house.answer(asked)
    return await _outcomes(house, held, asked, worker)


async def _outcomes(house: OrderHouse, held: Held, asked: Container[str], worker: Child) -> list[Outcome]:
    verdicts = await house.verdicts(held.runs)
    await worker.kill()
    return [Outcome(found, found.run_id in asked, found.run_id in held.at_point) for found in verdicts]
