"""Judgement: usage, money, ids, batches, failures and back-off."""

import math
from typing import Any

import pytest

from longshift import Status
from longshift.admission import End, Hold
from longshift.judgement import BACKOFF_CAP_SECONDS, Batch, Retry, after_failure, judge, receive
from longshift.limits import MAX_COUNT
from longshift.state import Answer, RunState
from longshift.turns import Usage
from tests.unit.authored import agent, call, failure, turn

START = 1000.0
NOW = 1010.0


def state(limits: dict[str, Any] | None = None, **fields: Any) -> RunState:
    """A run that started ten seconds ago."""
    run = RunState(run_id="r", started_at=START, **fields)
    run.limits = run.limits.changed(limits or {})
    return run


@pytest.mark.parametrize("reported", [0, 1, 99, 100])
def test_reported_tokens_up_to_the_allowance_are_counted(reported: int) -> None:
    run = state(output_tokens=5)
    assert receive(run, turn("Done.", tokens=reported), 100, NOW) is None
    assert run.output_tokens == 5 + reported
    assert bool(run.notes) == (reported == 0)


@pytest.mark.parametrize("reported", [-1, 101, 10**12])
def test_reported_tokens_outside_the_allowance_are_invalid_and_not_counted(reported: int) -> None:
    run = state()
    end = receive(run, turn("Done.", tokens=reported), 100, NOW)
    text = f"the endpoint reports {reported} output tokens where 0 to 100 are allowed"
    assert end == End(Status.INVALID_USAGE, text)
    assert run.output_tokens == 0


def test_a_turn_from_before_a_reset_is_judged_by_the_allowance_that_it_was_sent_with() -> None:
    run = state()
    before = turn("Done.", tokens=500).model_copy(update={"allowed": 1024})
    assert receive(run, before, 100, NOW) is None
    assert run.output_tokens == 500
    unreported = turn("Done.", tokens=None).model_copy(update={"allowed": 1024})
    assert receive(run, unreported, 100, NOW) is None
    assert run.output_tokens == 1524


@pytest.mark.parametrize("shown", ["true", "1.5", '"6"', "-3", ""])
def test_usage_that_is_no_count_is_invalid_as_it_was_reported(shown: str) -> None:
    bad = turn("Done.").model_copy(update={"usage": Usage(invalid=shown)})
    end = receive(state(), bad, 100, NOW)
    assert end is not None
    assert end.detail.startswith(f"the endpoint reports {shown} output tokens")


def test_usage_that_is_missing_is_charged_with_the_whole_allowance_and_noted_once() -> None:
    run = state()
    receive(run, turn("Done.", tokens=None), 100, NOW)
    receive(run, turn("Done.", tokens=None), 50, NOW)
    assert run.output_tokens == 150
    assert run.notes == ["the endpoint reported no output tokens for a call: its whole allowance was charged"]


def test_no_tokens_for_an_empty_reply_are_no_surprise() -> None:
    run = state()
    receive(run, turn("", tokens=0), 100, NOW)
    assert run.notes == []


def test_a_late_reply_is_not_used_whatever_it_holds() -> None:
    run = state()
    end = receive(run, turn("Done.", invalid="x"), 100, START + 60)
    assert end == End(Status.TIME_LIMIT, "60.0 of 60 seconds passed; the reply came too late and is not used")
    assert run.output_tokens == 0


def test_a_call_is_reserved_at_its_estimate_and_settled_at_what_it_cost() -> None:
    run = state({"estimated_call_cents": 3})
    assert (run.begin_model_call(), run.exposure) == (1, 30_000)
    run.settle_turn(turn("x", cost=12_345), 30_000)
    assert run.exposure == 12_345
    run.begin_model_call()
    run.settle_turn(turn("x"), 30_000)
    assert run.exposure == 42_345, "without a price the estimate stays"
    run.begin_model_call()
    run.settle_failure(failure(), 30_000, 64)
    assert run.exposure == 72_345, "a failed call may have been billed"
    run.begin_model_call()
    run.settle_failure(failure(cost=5, usage=Usage(output_tokens=7)), 30_000, 64)
    assert (run.exposure, run.output_tokens) == (72_350, 7), "a reply that was refused is charged what it reports"
    run.begin_model_call()
    run.settle_failure(failure(usage=Usage(output_tokens=10**12)), 30_000, 64)
    assert run.output_tokens == 71, "and no more tokens than it was allowed"


def test_the_estimate_of_a_call_that_is_out_is_settled_by_what_was_reserved_for_it() -> None:
    run = state({"estimated_call_cents": 3})
    run.begin_model_call()
    run.limits = run.limits.changed({"estimated_call_cents": 9})
    run.settle_turn(turn("x", cost=1), 30_000)
    assert run.exposure == 1


@pytest.mark.parametrize(
    ("used", "asked", "refused"), [(0, 2, False), (1, 1, False), (1, 2, True), (2, 1, True), (3, 1, True), (0, 3, True)]
)
def test_a_batch_is_taken_whole_or_not_at_all(used: int, asked: int, refused: bool) -> None:
    run = state({"tool_calls": 2}, tool_calls=used)
    before = run.model_copy(deep=True)
    verdict = judge(run, agent(), turn("", *(call(str(n)) for n in range(asked))), 1)
    if refused:
        text = f"{used} of 2 tool calls used, and the batch asks for {asked} more"
        assert verdict == End(Status.TOOL_LIMIT, text)
        assert run == before
    else:
        assert isinstance(verdict, Batch)
        assert (run.head.length, len(run.used_ids), run.tool_calls) == (1, asked, used)


def test_a_batch_over_the_limit_waits_where_the_run_waits_at_limits_and_is_then_taken() -> None:
    run = state({"tool_calls": 1, "on_limit": "wait"})
    batch = turn("", call("a"), call("b"))
    before = run.model_copy(deep=True)
    verdict = judge(run, agent(), batch, 1)
    assert isinstance(verdict, Hold)
    assert (verdict.status, run) == (Status.TOOL_LIMIT, before)
    run.limits = run.limits.changed({"tool_calls": 2})
    assert isinstance(judge(run, agent(), batch, 1), Batch)


LONG = "x" * 41


@pytest.mark.parametrize(
    ("used", "ids", "detail"),
    [
        ([], ["a", "b", "a"], "the call id a stands twice in one batch"),
        (["a"], ["b", "a"], "the call id a was used before in this run"),
        ([LONG], [LONG], f"the call id {LONG} was used before in this run"),
        ([], ["", ""], "the call id  stands twice in one batch"),
        (["a"], ["A", " a"], None),
        ([LONG], [LONG + "x", LONG[:-1]], None),
    ],
)
def test_a_call_id_counts_once_in_a_run_exactly_as_it_is_written(
    used: list[str], ids: list[str], detail: str | None
) -> None:
    run = state()
    run.use_ids(used)
    before = run.model_copy(deep=True)
    verdict = judge(run, agent(), turn("", *(call(id_) for id_ in ids)), 1)
    if detail is None:
        assert isinstance(verdict, Batch)
    else:
        assert verdict == End(Status.REPEATED_CALL_ID, detail)
        assert run == before


def test_a_repeated_id_is_found_before_a_limit_and_a_limit_before_a_loop() -> None:
    run = state({"tool_calls": 3, "repeats": 2})
    for number, id_ in enumerate("abc", 1):
        judge(run, agent(), turn("", call(id_)), number)
        run.tool_calls += number < 3
    run.tool_calls = 3
    assert isinstance(end := judge(run, agent(), turn("", call("a")), 4), End)
    assert end.status is Status.REPEATED_CALL_ID
    assert isinstance(end := judge(run, agent(), turn("", call("d")), 4), End)
    assert end.status is Status.TOOL_LIMIT
    run.limits = run.limits.changed({"tool_calls": 4})
    before = run.model_copy(deep=True)
    assert isinstance(end := judge(run, agent(), turn("", call("d")), 4), End)
    assert (end.status, run) == (Status.LOOP_DETECTED, before)


def test_text_beside_calls_is_kept_and_is_no_answer() -> None:
    run = state()
    assert isinstance(judge(run, agent(), turn("I look.", call("a")), 1), Batch)
    assert judge(run, agent(), turn(" Done.\n"), 2) == Answer(text=" Done.\n")
    assert run.head.length == 2


def test_a_blank_reply_is_no_message() -> None:
    run = state()
    verdict = judge(run, agent(), turn("\n\u2003 "), 4)
    assert verdict == End(Status.EMPTY_REPLY, "model call 4 brought neither text nor calls")
    assert run.head.length == 0


@pytest.mark.parametrize(
    ("retries", "failures", "again"), [(0, 1, False), (2, 1, True), (2, 2, True), (2, 3, False), (2, 4, False)]
)
def test_a_transient_failure_is_tried_again_as_often_as_is_allowed(retries: int, failures: int, again: bool) -> None:
    verdict = after_failure(state({"model_retries": retries}, failures_in_row=failures), failure("busy"), NOW)
    assert isinstance(verdict, Retry) == again
    if isinstance(verdict, End):
        made = f" ({failures} attempts made)" if failures > 1 else ""
        assert verdict == End(Status.MODEL_FAILED, f"busy{made}")


def test_a_final_failure_is_not_tried_again_and_a_turn_in_between_begins_anew() -> None:
    run = state()
    run.settle_failure(failure(), 0, 64)
    assert after_failure(run, failure("no key", transient=False), NOW) == End(Status.MODEL_FAILED, "no key")
    run.settle_turn(turn("x"), 0)
    assert run.failures_in_row == 0


def test_a_failure_past_the_deadline_is_the_end_of_the_time() -> None:
    end = after_failure(state(failures_in_row=1), failure(transient=False), START + 60)
    assert isinstance(end, End)
    assert end.status is Status.TIME_LIMIT


@pytest.mark.parametrize(
    ("asked", "waits"),
    [(0.0, 0.0), (0.4, 0.4), (49.9, 49.9), (50.0, 50.0), (51.0, 50.0), (1e308, 50.0), (-5.0, 0.0), (math.nan, 0.0)],
)
def test_the_wait_that_an_endpoint_asks_for_never_passes_the_deadline(asked: float, waits: float) -> None:
    assert after_failure(state(failures_in_row=1), failure(retry_after=asked), NOW) == Retry(waits)


@pytest.mark.parametrize(
    ("failures", "waits"),
    [(1, 1.0), (2, 2.0), (3, 4.0), (6, 32.0), (7, BACKOFF_CAP_SECONDS), (5000, BACKOFF_CAP_SECONDS)],
)
def test_the_wait_doubles_up_to_its_cap_however_often_it_failed(failures: int, waits: float) -> None:
    run = state({"model_retries": MAX_COUNT, "seconds": 1e6}, failures_in_row=failures)
    assert after_failure(run, failure(), NOW) == Retry(waits)
