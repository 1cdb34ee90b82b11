"""The figures of many runs, on both databases."""

import json

import pytest

from longshift.contracts import Decision
from longshift.status import Status
from store.journal import Journal
from tests.store.shift import Shift, call

pytestmark = pytest.mark.asyncio


async def test_runs_are_summed_up_from_when_they_were_opened(journal: Journal) -> None:
    assert await journal.figures(0.0) == []
    shift = await Shift(journal).open()
    await shift.step("Looking.", call("c1"), '{"ok":true,"value":1}')
    held = Decision(number=1, at=5.0, kind="held", detail={"reason": "MODEL_CALL_LIMIT: 1 of 1 model calls used"})
    other = Decision(number=2, at=6.0, kind="goes_on")
    request = shift.request(decisions=(held, other))
    await shift.begin(request)  # sent, and not answered
    at_work = await Shift(journal, "shift-2").open()

    first, second = await journal.figures(1000.0)
    assert (first.run_id, first.agent, first.model, first.opened_at) == ("shift-1", "shop", "authored", 1000.0)
    assert (first.model_calls, first.tool_calls, first.output_tokens, first.exposure) == (2, 1, 9, 3 + 7)
    assert (first.charged_tokens, first.last_at) == (9, shift.now)  # the call that is out is charged with nothing yet
    assert (first.status, first.closed_at) == (None, None)
    assert [json.loads(one) for one in first.held] == [{"reason": "MODEL_CALL_LIMIT: 1 of 1 model calls used"}]
    assert (second.run_id, second.model_calls, second.tool_calls, second.exposure) == ("shift-2", 0, 0, 0)
    assert (second.charged_tokens, second.last_at) == (0, 1000.0)
    assert await journal.figures(1000.1) == []

    await journal.close_run(at_work.closing(Status.STOP_REQUESTED), 1030.0)
    _, ended = await journal.figures(0.0)
    assert (ended.status, ended.closed_at, ended.detail) == ("STOP_REQUESTED", 1030.0, "it is done")
