"""Admission: each limit at its edge, the order of the checks, wrap-up and waiting."""

from typing import Any

import pytest

from longshift import Status, jsontext
from longshift.admission import Allowance, End, Hold, before_model_call, before_tool_call, untaken, working_left
from longshift.messages import UserMessage, text_of
from longshift.state import MAX_DURATION, RunState, Stop

START = 1000.0
NOW = 1010.0


def state(limits: dict[str, Any] | None = None, **fields: Any) -> RunState:
    """A run that started ten seconds ago."""
    run = RunState(run_id="r", started_at=START, **fields)
    run.limits = run.limits.changed(limits or {})
    return run


def status(run: RunState, now: float = NOW) -> Status | None:
    """What the next model call is refused with; None where it is admitted."""
    verdict = before_model_call(run, now)
    assert isinstance(verdict, (End, Allowance))
    return verdict.status if isinstance(verdict, End) else None


@pytest.mark.parametrize(
    ("limit", "fields", "expected"),
    [
        ({"model_calls": 3}, {"model_calls": 2}, None),
        ({"model_calls": 3}, {"model_calls": 3}, "3 of 3 model calls used"),
        ({"model_calls": 3}, {"model_calls": 4}, "4 of 3 model calls used"),
        ({"tool_calls": 3}, {"tool_calls": 3}, None),
        ({"tool_calls": 3}, {"tool_calls": 4}, "4 of 3 tool calls used"),
        ({"total_output_tokens": 9}, {"output_tokens": 8}, None),
        ({"total_output_tokens": 9}, {"output_tokens": 9}, "9 of 9 output tokens used"),
        ({"total_output_tokens": 9}, {"output_tokens": 10}, "10 of 9 output tokens used"),
        ({"context_bytes": 105}, {"transcript_bytes": 100}, None),
        ({"context_bytes": 104}, {"transcript_bytes": 100}, None),
        ({"context_bytes": 103}, {"transcript_bytes": 100}, "the next call needs 104 of 103 context bytes"),
        ({"model_budget_cents": 5, "estimated_call_cents": 2}, {"exposure": 29_999}, None),
        ({"model_budget_cents": 5, "estimated_call_cents": 2}, {"exposure": 30_000}, None),
        ({"model_budget_cents": 5, "estimated_call_cents": 2}, {"exposure": 30_001}, "to 5.0001 of 5 cents"),
        ({"model_budget_cents": 5}, {"exposure": 50_000}, None),
        ({"model_budget_cents": 5}, {"exposure": 50_001}, "to 5.0001 of 5 cents"),
        ({"seconds": 10.001}, {}, None),
        ({"seconds": 10}, {}, "10.0 of 10 seconds passed"),
        ({"seconds": 9.999}, {}, "10.0 of 9.999 seconds passed"),
        ({"working_seconds": 2}, {"working_milliseconds": 1999}, None),
        ({"working_seconds": 2}, {"working_milliseconds": 2000}, "2.0 of 2 working seconds used"),
        ({"working_seconds": 1e6}, {"working_milliseconds": 10**9}, "1000000.0 of 1000000 working seconds used"),
        ({"working_seconds": 1e5 + 0.5}, {"working_milliseconds": 10**9}, "1000000.0 of 100000.5 working seconds used"),
        ({"working_seconds": None}, {"working_milliseconds": 10**9}, None),
    ],
)
def test_a_limit_admits_up_to_its_edge_and_names_the_figures_past_it(
    limit: dict[str, Any], fields: dict[str, Any], expected: str | None
) -> None:
    verdict = before_model_call(state(limit, **fields), NOW)
    if expected is None:
        assert isinstance(verdict, Allowance)
    else:
        assert isinstance(verdict, End)
        assert verdict.detail.endswith(expected)


def test_with_two_limits_broken_the_earlier_check_decides() -> None:
    run = state(
        {
            "seconds": 5,
            "model_calls": 1,
            "context_bytes": 1,
            "total_output_tokens": 1,
            "model_budget_cents": 1,
            "tool_calls": 1,
        },
        stop=Stop(),
        model_calls=2,
        output_tokens=2,
        exposure=20_000,
        tool_calls=2,
    )
    order = []
    mends: list[dict[str, Any]] = [
        {"seconds": 60},
        {"model_calls": 9},
        {"context_bytes": 999},
        {"total_output_tokens": 9},
        {"model_budget_cents": 9},
        {"tool_calls": 9},
    ]
    order.append(status(run))
    run.stop = None
    for mend in mends:
        order.append(status(run))
        run.limits = run.limits.changed(mend)
    assert order == [
        Status.STOP_REQUESTED,
        Status.TIME_LIMIT,
        Status.MODEL_CALL_LIMIT,
        Status.CONTEXT_LIMIT,
        Status.TOKEN_LIMIT,
        Status.MODEL_COST_LIMIT,
        Status.TOOL_LIMIT,
    ]
    assert status(run) is None, "raising each limit helped"


def test_a_pause_comes_before_the_limits_and_after_the_deadline() -> None:
    run = state({"model_calls": 1}, paused=True, model_calls=1)
    assert before_model_call(run, NOW) == Hold("resume", "paused", "resume it, or stop it")
    assert before_tool_call(run, NOW) == Hold("resume", "paused", "resume it, or stop it")
    assert isinstance(before_model_call(run, START + 60), End)


def test_admission_changes_nothing() -> None:
    run = state({"wrap_up": True, "model_calls": 1}, tells=["And?"])
    before = run.model_copy(deep=True)
    before_model_call(run, NOW)
    before_tool_call(run, NOW)
    assert run == before


@pytest.mark.parametrize(("used", "allowed"), [(0, 100), (899, 100), (900, 100), (901, 99), (999, 1)])
def test_output_tokens_are_the_smaller_of_the_turns_and_the_rest_of_the_runs(used: int, allowed: int) -> None:
    verdict = before_model_call(state({"output_tokens": 100, "total_output_tokens": 1000}, output_tokens=used), NOW)
    assert isinstance(verdict, Allowance)
    assert verdict.output_tokens == allowed


@pytest.mark.parametrize(
    ("limits", "worked", "seconds"),
    [
        ({"seconds": 60}, 0, MAX_DURATION),
        ({"seconds": 60, "working_seconds": 20}, 5000, 15),
        ({"seconds": 60, "working_seconds": 200}, 0, 200),
        ({"working_seconds": 1e308}, 0, MAX_DURATION),
    ],
)
def test_a_step_may_work_until_the_working_time_ends_and_the_deadline_may_move_meanwhile(
    limits: dict[str, Any], worked: int, seconds: float
) -> None:
    assert working_left(state(limits, working_milliseconds=worked)) == seconds


@pytest.mark.parametrize(
    ("used", "count", "admitted"), [(1, 1, True), (2, 1, True), (3, 1, False), (1, 2, True), (2, 2, False)]
)
def test_tool_calls_are_admitted_while_they_fit_a_limit_that_was_lowered(used: int, count: int, admitted: bool) -> None:
    verdict = before_tool_call(state({"tool_calls": 3}, tool_calls=used), NOW, count)
    if admitted:
        assert verdict is None
    else:
        assert verdict == End(Status.TOOL_LIMIT, f"{used} of 3 tool calls used, and the batch is not done")


def test_a_tool_call_is_not_begun_after_a_stop_or_the_deadline() -> None:
    stopped = before_tool_call(state(stop=Stop(reason="enough")), NOW)
    assert stopped == End(Status.STOP_REQUESTED, "a stop (graceful) was requested: enough")
    late = before_tool_call(state(), START + 60)
    assert late == End(Status.TIME_LIMIT, "60.0 of 60 seconds passed")


@pytest.mark.parametrize("seconds", ["1209600", "100000.5", "0.001"])
def test_the_deadline_is_named_with_every_digit(seconds: str) -> None:
    late = before_model_call(state({"seconds": float(seconds)}), START + 1_500_000)
    assert late == End(Status.TIME_LIMIT, f"1500000.0 of {seconds} seconds passed")


def test_a_cancellation_is_told_as_one() -> None:
    verdict = before_model_call(state(stop=Stop(mode="now", reason="by hand", cancelled=True)), NOW)
    assert verdict == End(Status.STOP_REQUESTED, "the workflow was cancelled: by hand")


@pytest.mark.parametrize(
    ("limit", "fields"),
    [
        ({"model_calls": 1}, {"model_calls": 1}),
        ({"tool_calls": 1}, {"tool_calls": 2}),
        ({"context_bytes": 1}, {}),
        ({"total_output_tokens": 1}, {"output_tokens": 1}),
        ({"model_budget_cents": 1, "estimated_call_cents": 2}, {}),
    ],
)
def test_with_on_limit_wait_a_limit_holds_the_run_and_wrap_up_does_not_apply(
    limit: dict[str, Any], fields: dict[str, Any]
) -> None:
    ends = before_model_call(state(limit, **fields), NOW)
    holds = before_model_call(state(limit | {"on_limit": "wait", "wrap_up": True}, **fields), NOW)
    assert isinstance(ends, End)
    assert holds == Hold("limit", f"{ends.status}: {ends.detail}", "raise the limit, or stop it", ends.status)


def test_time_is_never_waited_for() -> None:
    assert status(state({"on_limit": "wait", "seconds": 10})) is Status.TIME_LIMIT


@pytest.mark.parametrize(
    ("limits", "fields", "wraps_up"),
    [
        ({"model_calls": 2}, {"model_calls": 1}, Status.MODEL_CALL_LIMIT),
        ({"model_calls": 3}, {"model_calls": 1}, None),
        ({"tool_calls": 2}, {"tool_calls": 2}, None),
        ({"total_output_tokens": 2000}, {"model_calls": 1, "output_tokens": 976}, Status.TOKEN_LIMIT),
        ({"total_output_tokens": 2000}, {"model_calls": 1, "output_tokens": 975}, None),
        ({"total_output_tokens": 5}, {"model_calls": 0}, None),
        ({"estimated_call_cents": 2, "model_budget_cents": 5}, {"exposure": 10_001}, Status.MODEL_COST_LIMIT),
        ({"estimated_call_cents": 2, "model_budget_cents": 5}, {"exposure": 10_000}, None),
    ],
)
def test_the_last_call_that_the_limits_leave_is_a_wrap_up(
    limits: dict[str, Any], fields: dict[str, Any], wraps_up: Status | None
) -> None:
    verdict = before_model_call(state(limits | {"wrap_up": True}, **fields), NOW)
    assert isinstance(verdict, Allowance)
    assert verdict.wrap_up == wraps_up
    assert len(verdict.appending) == (wraps_up is not None)


def test_a_notice_that_stands_already_is_not_given_again() -> None:
    verdict = before_model_call(state({"wrap_up": True, "model_calls": 1}, wrapped_up=True), NOW)
    assert isinstance(verdict, Allowance)
    assert (verdict.wrap_up, verdict.appending) == (Status.MODEL_CALL_LIMIT, ())


def test_messages_that_no_model_call_took_are_those_taken_in_without_a_notice_and_those_that_wait() -> None:
    run = state({"model_calls": 1, "wrap_up": True}, tells=["a", "b"])
    allowance = before_model_call(run, NOW)
    assert isinstance(allowance, Allowance)
    run.take_in(allowance.appending, None)
    run.tells.append("c")
    assert untaken(run) == ["a", "b", "c"]
    run.journaled(3, 0)
    assert untaken(run) == ["c"]


def test_messages_that_wait_are_appended_first_and_count_to_the_context() -> None:
    waiting = UserMessage(content="And the vanilla, é?")
    run = state({"context_bytes": 4 + jsontext.size(text_of(waiting))}, tells=[waiting.content])
    verdict = before_model_call(run, NOW)
    assert isinstance(verdict, Allowance)
    assert verdict.appending == (waiting,)
    run.limits = run.limits.changed({"context_bytes": run.limits.context_bytes - 1})
    assert status(run) is Status.CONTEXT_LIMIT


def test_context_is_the_bytes_of_the_json_of_transcript_and_schemas() -> None:
    run = state()
    messages = [UserMessage(content=text) for text in ("One.", "Zwei, é.", '"three"\n')]
    for message in messages:
        run.append_message(message)
    whole = jsontext.canonical([message.model_dump(mode="json", exclude_none=True) for message in messages])
    assert run.context_bytes == jsontext.size(whole) + len("[]")
    assert run.context_bytes_with([]) == run.context_bytes
