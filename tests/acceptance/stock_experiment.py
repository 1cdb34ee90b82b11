"""An experiment whose error rates are planted; also as a process of its own, which a test kills: it is started with the
folder, and says how many shifts have ended.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from endpoints.config import ReplayConfig
from lab.experiment import Graded, Progress, conduct
from lab.plan import Plan
from lab.stock import CONDITIONS
from lab.trials import Scripted
from tests.acceptance.stock_models import planted

PLAN = Plan(
    seed=3,
    lengths=(1, 2),
    instances=10,
    conditions=CONDITIONS,
    attempts=2,
    retry_length=2,
    endpoint="measured",
    model="clerk",
    at_once=8,
)
SHARE = 20
"""Shifts of one run of the workflow, so that it hands over a few times."""


def conducted(folder: Path, told: Callable[[Progress], None] = lambda progress: None) -> list[Graded]:
    """The experiment, from where it is to its end."""
    clerk = Scripted(PLAN.endpoint, planted)
    return asyncio.run(conduct(PLAN, folder, clerk, ReplayConfig(turns=()), told, SHARE))


def _say(progress: Progress) -> None:
    sys.stdout.write(f"{progress.ended}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    conducted(Path(sys.argv[1]), _say)
