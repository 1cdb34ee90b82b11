"""A worker process that stops at a point between two of its own steps, so that a kill lands exactly there.

`python -m tests.acceptance.gated_worker WHEN METHOD NUMBER`: before or after a method of the journal or the
activities, at its NUMBER-th call in this process.
"""

import os
import sys
from typing import Any

from activities.run_activities import Activities
from store.journal import Journal
from tests.acceptance.house_agent import visit
from worker.process import main


def put_gate(when: str, method: str, number: int) -> None:
    """Have the `number`-th call of `method` visit the gate before or after its work."""
    owner: type = Journal if hasattr(Journal, method) else Activities
    work = getattr(owner, method)
    calls = 0

    async def gated(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        here = calls == number
        if here and when == "before":
            await visit("gate")
        done = await work(*args)
        if here and when == "after":
            await visit("gate")
        return done

    setattr(owner, method, gated)


if __name__ == "__main__":
    put_gate(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    code = main()
    sys.stderr.flush()
    os._exit(code)  # as worker/__main__.py does
