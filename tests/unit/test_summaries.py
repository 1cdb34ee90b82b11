"""The lines by which the Temporal UI's list of events is read."""

from typing import Any

import pytest

from longshift import observations
from longshift.chain import Head
from longshift.contracts import CallModel, OpenRun, RunResult, RunTool, SettleEffect
from longshift.messages import ToolCall
from longshift.run_input import RunInput
from longshift.status import Status
from workflows import summaries

DRAFT = ToolCall(id="c1", name="draft_order", arguments={"sku": "SKU-VANILLA", "quantity": 6})
TOOL = RunTool(run_id="r", model_call=2, position=1, call=DRAFT)


def asked(**fields: Any) -> CallModel:
    return CallModel(run_id="r", number=3, reply=3, head=Head(), output_tokens=100, **fields)


@pytest.mark.parametrize(
    ("request_", "since", "tokens", "dispatch", "words"),
    [
        (asked(), [], 0, 0, "#3 model call"),
        (asked(), ["ok", "ok"], 35, 0, "#3 model call after 2 ok; 35 tokens so far"),
        (
            asked(),
            ["ok", "draft_order refused", "ok"],
            35,
            0,
            "#3 model call after 2 ok, draft_order refused; 35 tokens so far",
        ),
        (asked(tools=False), ["#2 failed (status)"], 0, 1, "#3 model call, wrap-up, again after #2 failed (status)"),
    ],
)
def test_a_model_call_says_its_number_and_what_came_of_the_calls_before_it(
    request_: CallModel, since: list[str], tokens: int, dispatch: int, words: str
) -> None:
    assert summaries.model_call(request_, since, tokens, dispatch) == words


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (observations.ok({"stock": 4}), "ok"),
        (observations.ok({"error": {"kind": "odd"}}), "ok"),
        (observations.error("refused", "not that many"), "draft_order refused"),
    ],
)
def test_an_outcome_is_told_in_a_word_or_two(observation: str, words: str) -> None:
    assert summaries.outcome("draft_order", observation) == words


def test_a_tool_call_says_where_it_stands_what_it_calls_and_with_what() -> None:
    arguments = '{"quantity":6,"sku":"SKU-VANILLA"}'
    assert summaries.tool_call(TOOL, effect=False) == f"#2.1 draft_order {arguments}"
    again = TOOL.model_copy(update={"dispatch": 2})
    assert summaries.tool_call(again, effect=True) == f"#2.1 again (2) effect draft_order {arguments}"


def test_a_look_into_the_ledger_says_which_call_it_is_about() -> None:
    assert summaries.settling(SettleEffect(call=TOOL)) == "#2.1 settle draft_order: what came of it?"
    assert summaries.settling(SettleEffect(call=TOOL, resolution="{}")) == "#2.1 resolve draft_order: a person knows"


def test_the_end_says_the_status_and_what_the_run_used() -> None:
    result = RunResult(
        run_id="r", status=Status.COMPLETED, detail="d", model_calls=3, tool_calls=2, output_tokens=93, exposure=2100
    )
    assert summaries.closing(result) == "end: COMPLETED; 3 model calls, 2 tool calls, 93 tokens, 0.21 cents"


def test_what_does_not_fit_is_cut_and_nothing_in_a_line_acts() -> None:
    long = DRAFT.model_copy(update={"arguments": {"text": "x" * 500}})
    line = summaries.tool_call(TOOL.model_copy(update={"call": long}), effect=False)
    assert len(line) == summaries.CHARACTERS
    assert line.endswith("x...")
    turned = DRAFT.model_copy(update={"arguments": {"text": "a\u202eb"}})
    assert "\\u202e" in summaries.tool_call(TOOL.model_copy(update={"call": turned}), effect=False)
    opening = OpenRun(run_id="r", started_at=0, given=RunInput(agent="shop\u202e", task="t"))
    assert summaries.opening(opening) == "open the run of agent shop\\u202e"
