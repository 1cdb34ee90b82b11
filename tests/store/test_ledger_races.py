"""Workers that reach for one effect at the same moment: the ledger lets one of them have it."""

import asyncio
import sys

import pytest
import pytest_asyncio

from longshift.contracts import RunTool
from store.journal import Begun, Fenced, Journal, Observed
from tests.store.shift import Shift, call, tool_message

pytestmark = pytest.mark.asyncio

ORDER = call("a", "place_order")
ROUNDS = 60


def effect(position: int, dispatch: int = 0) -> RunTool:
    """A dispatch of an order at a place of its own."""
    return RunTool(run_id="shift-1", model_call=1, position=position, call=ORDER, dispatch=dispatch)


@pytest_asyncio.fixture(autouse=True)
async def opened(shift: Shift) -> None:
    """The run of these effects stands in the journal."""


async def test_a_dispatch_that_begins_as_it_is_given_up_is_either_begun_or_fenced(journal: Journal, url: str) -> None:
    other = await Journal.open(url)
    for position in range(ROUNDS):
        request = effect(position)
        first, second = (journal, other) if position % 2 else (other, journal)
        begun, standing = await asyncio.gather(
            first.begin_effect(request, "worker-1", 1.0, again=False), second.settle_effect(request, 2.0)
        )
        assert standing == (Begun(0, 1.0, False) if begun else Fenced(0))
    await other.close()


@pytest.mark.parametrize("again", [False, True])
async def test_dispatches_that_begin_and_are_given_up_all_at_once_never_overlap(
    journal: Journal, url: str, again: bool
) -> None:
    other = await Journal.open(url)
    dispatches = (0, 0, 1, 1, 2)
    for position in range(ROUNDS // 3):
        requests = [effect(position, dispatch) for dispatch in dispatches]
        answers = await asyncio.gather(
            *(journal.begin_effect(request, f"worker-{n}", 1.0, again=again) for n, request in enumerate(requests)),
            *(other.settle_effect(request, 2.0) for request in requests[:4]),
        )
        begun = [d for d, may in zip(dispatches, answers[:5], strict=True) if may is True]
        fenced = [answer.dispatch for answer in answers[5:] if isinstance(answer, Fenced)]
        assert len(begun) == len(set(begun))  # a dispatch begins once
        assert len(begun) <= 1 or again
        assert not begun or max(fenced, default=-1) < min(begun)  # what is fenced never ran, and never will
        (row,) = [row for row in await journal.tool_calls("shift-1") if row.position == position]
        assert row.state == "started"  # dispatch 2 is never given up: it, or one before it, began
        assert row.dispatch >= max(begun)
    await other.close()


async def test_a_person_and_a_handler_that_speak_at_once_are_told_the_same(journal: Journal, url: str) -> None:
    other = await Journal.open(url)
    handler, person = (Observed(tool_message(ORDER, text), 1, False) for text in ("handler", "person"))
    for position in range(ROUNDS // 3):
        request = effect(position)
        assert await journal.begin_effect(request, "worker-1", 1.0, again=False)
        reported, _, resolved = await asyncio.gather(
            journal.settle_tool_call(request, "effect", "worker-1", handler, 1.0, 2.0),
            other.leave_unknown(request, 2.0, "it took too long"),
            other.resolve_effect(request, person, 2.0),
        )
        assert reported == resolved == await journal.stored_observation(request)
    await other.close()


WORKER = f"""
import asyncio, sys
from store.journal import Journal
from tests.store.test_ledger_races import effect

async def main(url):
    journal = await Journal.open(url)
    print("ready", flush=True)
    sys.stdin.readline()
    begun = [await journal.begin_effect(effect(n), "worker-1", 1.0, again=False) for n in range({ROUNDS})]
    print(*(int(one) for one in begun))
    await journal.close()

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.slow
async def test_of_two_processes_one_begins_or_the_other_fences(journal: Journal, url: str) -> None:
    pipe = asyncio.subprocess.PIPE
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", WORKER, url, stdin=pipe, stdout=pipe)
    assert worker.stdin is not None
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"ready\n"
    worker.stdin.write(b"go\n")
    fenced = {n: isinstance(await journal.settle_effect(effect(n), 2.0), Fenced) for n in reversed(range(ROUNDS))}
    out, _ = await worker.communicate()  # it came from the other end, so that they met
    begun = dict(enumerate(int(one) for one in out.split()))
    assert len(begun) == ROUNDS
    assert [n for n in range(ROUNDS) if begun[n] == fenced[n]] == []
