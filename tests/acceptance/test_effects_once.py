"""An order is placed once, whatever is killed, suspended or ended meanwhile; and nobody is told otherwise.

`python -m bench.kills` plays the same rounds, and slower ones, many times.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance import kill_rounds
from tests.acceptance.kill_points import BY_NAME, point_of
from tests.acceptance.kill_rounds import Round
from tests.acceptance.order_house import agent_of, order_house

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


def only_the_supplier_knows(run_id: str) -> bool:
    """The worker was lost where nobody else can know, and asking the supplier again is no way to find out."""
    return BY_NAME[point_of(run_id)].unknown and agent_of(run_id) == "plain"


def the_supplier_lost_it(run_id: str) -> bool:
    """Its handler saw the connection break."""
    return point_of(run_id) == "lost"


def always(run_id: str) -> bool:
    """Each of the runs."""
    return True


def never(run_id: str) -> bool:
    """None of them."""
    return False


@pytest.mark.parametrize(
    ("interrupted", "runs", "asks"),
    [
        (kill_rounds.worker_killed, 1, only_the_supplier_knows),
        (kill_rounds.worker_suspended, 2, only_the_supplier_knows),  # one answered before it comes back, one after
        (kill_rounds.worker_ended_in_grace, 2, never),
        (kill_rounds.worker_ended_past_grace, 2, always),
        (kill_rounds.server_killed, 1, the_supplier_lost_it),
        (kill_rounds.all_killed_while_a_person_is_asked, 2, always),
        (kill_rounds.run_reset, 2, never),
        (kill_rounds.effect_paused, 2, never),
    ],
    ids=lambda given: getattr(given, "__name__", str(given)),
)
async def test_no_order_is_placed_twice_and_every_run_tells_the_truth_or_asks_a_person(
    tmp_path: Path, interrupted: Round, runs: int, asks: Callable[[str], bool]
) -> None:
    async with order_house(tmp_path) as house:
        outcomes = await interrupted(house, range(runs))

    assert [outcome.verdict for outcome in outcomes if outcome.verdict.problem] == []
    assert max(outcome.verdict.orders for outcome in outcomes) == 1
    at_point = [outcome for outcome in outcomes if outcome.hit]
    assert [outcome.verdict for outcome in at_point if outcome.asked != asks(outcome.verdict.run_id)] == []
