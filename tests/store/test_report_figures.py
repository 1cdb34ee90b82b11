"""The figures of many runs, on both databases."""

import json

import pytest

from longshift.agent import AgentSpec
from longshift.contracts import Decision
from longshift.limits import Limits
from longshift.status import Status
from store.journal import Journal
from tests.store.shift import SPEC, Shift, call

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
    assert (first.tokens_before, first.budget_needed) == (9, 3 + 7)  # a call of 3 came before it, and 7 are reserved
    assert (first.status, first.closed_at) == (None, None)
    assert [json.loads(one) for one in first.held] == [{"reason": "MODEL_CALL_LIMIT: 1 of 1 model calls used"}]
    assert (second.run_id, second.model_calls, second.tool_calls, second.exposure) == ("shift-2", 0, 0, 0)
    assert (second.charged_tokens, second.tokens_before, second.budget_needed, second.last_at) == (0, 0, 0, 1000.0)
    assert await journal.figures(1000.1) == []

    await journal.close_run(at_work.closing(Status.STOP_REQUESTED), 1030.0)
    _, ended = await journal.figures(0.0)
    assert (ended.status, ended.closed_at, ended.detail) == ("STOP_REQUESTED", 1030.0, "it is done")


async def test_a_run_that_has_ended_is_counted_as_its_limits_count(journal: Journal) -> None:
    spec = SPEC.model_copy(
        update={"agent": AgentSpec(name="shop", limits=Limits(wrap_up=True, estimated_call_cents=2))}
    )
    shift = Shift(journal)
    shift.head = await journal.open_run(shift.run_id, spec, (), 1000.0)
    await shift.step("Looking.", call("c1"), '{"ok":true,"value":1}')
    closing = shift.closing()
    # Two calls of tools were refused, and a model call was lost before a worker entered it: none of them has a row.
    told = {"model_calls": 2, "tool_calls": 3, "output_tokens": 9, "exposure": 3 * 10**9, "answer": "NUL: \0 \\u0000"}
    closing = closing.model_copy(update={"result": closing.result.model_copy(update=told)})
    await journal.close_run(closing, 1030.0)

    (run,) = await journal.figures(0.0)
    assert (run.model_calls, run.tool_calls, run.charged_tokens, run.exposure) == (2, 3, 9, 3 * 10**9)
    assert (run.limits.wrap_up, run.limits.estimate, run.limits.tool_calls) == (True, 20_000, 16)
    assert run.budget_needed == 7  # nothing was spent before the only call that was entered
