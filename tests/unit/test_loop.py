"""Whole runs of the pure loop: each status, limits that change, and what messages do to a run."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from longshift import Status
from longshift.chain import Head, extend
from longshift.contracts import RunResult
from longshift.messages import AssistantMessage, ToolMessage, UserMessage, weigh
from longshift.observations import error, kind_of, ok, read
from longshift.turns import ModelFailure, Turn
from tests.unit.authored import agent, call, failure, turn
from tests.unit.loop_driver import Driver, Hook, Moment, Ran, checked


def play(*turns: Turn | ModelFailure, hook: Hook | None = None, **changes: Any) -> tuple[Driver, RunResult]:
    """A run of these turns, with the limits and the agent's fields given; its transcript is checked."""
    handlers = changes.pop("handlers", {})
    fields = {name: changes.pop(name) for name in ("unknown_tool", "malformed_calls") if name in changes}
    driver = Driver(agent(limits=changes, **fields), turns, handlers, hook=hook or _nothing)
    return driver, checked(driver)


def _nothing(driver: Driver, moment: Moment) -> None:
    pass


def once(moment: Moment, act: Callable[[Driver], None], number: int = 1) -> Hook:
    """Do something the `number`-th time that a moment comes."""
    times = 0

    def hook(driver: Driver, at: Moment) -> None:
        nonlocal times
        times += at == moment
        if at == moment and times == number:
            act(driver)

    return hook


ANSWER = turn("Done.")


# Each status that the loop ends with, but for OUTCOME_UNKNOWN, which only a lost dispatch brings.
@pytest.mark.parametrize(
    ("turns", "changes", "status", "detail"),
    [
        ([ANSWER], {}, Status.COMPLETED, "answered with model call 1"),
        ([turn(" \n")], {}, Status.EMPTY_REPLY, "model call 1 brought neither text nor calls"),
        ([turn("", call("a"))], {"model_calls": 1}, Status.MODEL_CALL_LIMIT, "1 of 1 model calls used"),
        (
            [turn("", call("a"), call("b"))],
            {"tool_calls": 1},
            Status.TOOL_LIMIT,
            "0 of 1 tool calls used, .* 2 more",
        ),
        ([turn("Late.", milliseconds=9000)], {"seconds": 5}, Status.TIME_LIMIT, "5.0 of 5 seconds passed"),
        (
            [turn("", call("a"), milliseconds=9000)],
            {"working_seconds": 5},
            Status.TIME_LIMIT,
            "5.0 of 5 working seconds used",
        ),
        ([ANSWER], {"context_bytes": 60}, Status.CONTEXT_LIMIT, r"needs \d+ of 60 context bytes"),
        (
            [turn("", call("a"), tokens=5)],
            {"total_output_tokens": 5},
            Status.TOKEN_LIMIT,
            "5 of 5 output tokens used",
        ),
        (
            [turn("", call("a"))],
            {"estimated_call_cents": 3, "model_budget_cents": 5},
            Status.MODEL_COST_LIMIT,
            "exposure to 6 of 5 cents",
        ),
        ([failure("no key", transient=False)], {}, Status.MODEL_FAILED, "no key"),
        (
            [turn("", invalid="true")],
            {},
            Status.INVALID_USAGE,
            "reports true output tokens where 0 to 1024",
        ),
        ([turn("x", tokens=1025)], {}, Status.INVALID_USAGE, "reports 1025 output tokens where 0 to 1024"),
        ([turn("", call("a"), call("a"))], {}, Status.REPEATED_CALL_ID, "a stands twice in one batch"),
        ([turn("", call(str(i))) for i in range(9)], {}, Status.LOOP_DETECTED, "look was asked for again, unchanged"),
        ([turn("", call("a", "fly"))], {"unknown_tool": "fatal"}, Status.TOOL_FATAL, None),
    ],
)
def test_a_run_ends_with_its_status_and_a_detail_that_names_the_figures(
    turns: list[Turn], changes: dict[str, Any], status: Status, detail: str | None
) -> None:
    driver, result = play(*turns, **changes)
    assert result.status is status
    if detail:
        assert re.search(detail, result.detail)
    assert (result.answer is not None) == (status is Status.COMPLETED)
    assert driver.state.model_calls <= driver.state.limits.model_calls


def test_a_tool_that_says_fatal_ends_the_run_with_its_observation_in_place() -> None:
    denied = Ran(error("fatal", "permission denied"), fatal=True)
    driver, result = play(turn("", call("a", "send"), call("b")), ANSWER, handlers={"send": lambda _: denied})
    assert result.status is Status.TOOL_FATAL
    assert result.unrun_calls == ("b",)
    assert isinstance(driver.transcript[-1], ToolMessage)


def test_a_stop_between_two_calls_leaves_the_rest_unrun_and_named() -> None:
    batch = turn("", call("a", "send", n=1), call("b", "send", n=2), call("c"))
    driver, result = play(batch, ANSWER, hook=once("tool", lambda run: run.stop("closing")))
    assert (result.status, result.unrun_calls, result.tool_calls) == (Status.STOP_REQUESTED, ("b", "c"), 1)
    assert result.detail == "a stop (graceful) was requested: closing"
    assert [made.id for made in driver.dispatched] == ["a"]


def test_a_stop_that_arrives_with_the_answer_does_not_take_it_back() -> None:
    _, result = play(ANSWER, hook=once("model", lambda run: run.stop()))
    assert (result.status, result.answer) == (Status.COMPLETED, "Done.")


def test_a_stop_that_arrives_with_a_batch_too_large_ends_a_run_that_would_wait_for_its_limit() -> None:
    def hook(driver: Driver, moment: Moment) -> None:
        assert moment != "hold"
        if moment == "model":
            driver.stop("enough")

    _, result = play(turn("", call("a"), call("b")), hook=hook, on_limit="wait", tool_calls=1)
    assert (result.status, result.detail) == (Status.STOP_REQUESTED, "a stop (graceful) was requested: enough")


def test_a_stop_now_drops_the_call_that_is_out_and_leaves_its_exposure() -> None:
    stop = once("model", lambda run: run.stop({"mode": "now"}))
    _, result = play(turn("Late.", cost=7), hook=stop, estimated_call_cents=1)
    assert (result.status, result.exposure) == (Status.STOP_REQUESTED, 10_000)


def test_a_stop_is_heard_during_back_off() -> None:
    _, result = play(failure(), ANSWER, hook=once("back-off", lambda run: run.stop()))
    assert (result.status, result.model_calls) == (Status.STOP_REQUESTED, 1)


def test_a_paused_run_admits_nothing_until_it_is_resumed() -> None:
    def hook(driver: Driver, moment: Moment) -> None:
        if moment == "start":
            driver.pause()
        if moment == "hold":
            assert driver.state.model_calls == 0
            driver.pause(False)

    assert play(ANSWER, hook=hook)[1].status is Status.COMPLETED


def test_the_deadline_runs_on_while_the_run_is_paused() -> None:
    _, result = play(ANSWER, hook=once("start", Driver.pause), seconds=30)
    assert (result.status, result.model_calls) == (Status.TIME_LIMIT, 0)


def test_a_message_that_arrives_before_the_answer_is_answered_first() -> None:
    driver, result = play(ANSWER, turn("Also."), hook=once("model", lambda run: run.tell("And?")))
    assert (result.answer, result.model_calls) == ("Also.", 2)
    assert driver.transcript[2] == UserMessage(content="And?")


def test_a_tool_limit_lowered_in_mid_batch_leaves_the_rest_unrun() -> None:
    batch = turn("", *(call(str(n), "send", n=n) for n in range(5)))
    _, result = play(batch, ANSWER, hook=once("tool", lambda run: run.set_limits({"tool_calls": 3}), number=2))
    assert (result.status, result.tool_calls, result.unrun_calls) == (Status.TOOL_LIMIT, 3, ("3", "4"))
    assert result.detail == "3 of 3 tool calls used, and the batch is not done"


@pytest.mark.parametrize(
    ("change", "status", "detail"),
    [
        ({"model_calls": 1}, Status.MODEL_CALL_LIMIT, "2 of 1 model calls used"),
        ({"tool_calls": 1}, Status.TOOL_LIMIT, "2 of 1 tool calls used"),
        ({"total_output_tokens": 1}, Status.TOKEN_LIMIT, "2 of 1 output tokens used"),
        ({"context_bytes": 9}, Status.CONTEXT_LIMIT, "of 9 context bytes"),
        ({"seconds": 0.001}, Status.TIME_LIMIT, "of 0.001 seconds passed"),
        ({"working_seconds": 0.001}, Status.TIME_LIMIT, "of 0.001 working seconds used"),
        ({"model_budget_cents": 1}, Status.MODEL_COST_LIMIT, "of 1 cents"),
    ],
)
def test_a_limit_lowered_below_what_is_used_ends_the_run_with_that_limits_status(
    change: dict[str, Any], status: Status, detail: str
) -> None:
    turns = [turn("", call("a"), milliseconds=10), turn("", call("b", n=1), milliseconds=10), ANSWER]
    lower = once("tool", lambda run: run.set_limits(change), number=2)
    _, result = play(*turns, hook=lower, estimated_call_cents=1)
    assert (result.status, result.model_calls, result.tool_calls) == (status, 2, 2)
    assert detail in result.detail


@pytest.mark.parametrize(
    ("limits", "raised", "turns"),
    [
        ({"model_calls": 1}, {"model_calls": 2}, [turn("", call("a")), ANSWER]),
        ({"tool_calls": 1}, {"tool_calls": 2}, [turn("", call("a"), call("b")), ANSWER]),
        ({"total_output_tokens": 1}, {"total_output_tokens": 2}, [turn("", call("a")), ANSWER]),
        ({"context_bytes": 60}, {"context_bytes": 9999}, [ANSWER]),
        (
            {"estimated_call_cents": 3, "model_budget_cents": 5},
            {"model_budget_cents": 6},
            [turn("", call("a")), ANSWER],
        ),
    ],
)
def test_with_on_limit_wait_the_run_holds_until_the_limit_is_raised_and_then_completes(
    limits: dict[str, Any], raised: dict[str, Any], turns: list[Turn]
) -> None:
    held = once("hold", lambda run: run.set_limits(raised))
    assert play(*turns, hook=held, on_limit="wait", **limits)[1].status is Status.COMPLETED
    assert play(*turns, on_limit="wait", wrap_up=True, **limits)[1].status is Status.TIME_LIMIT
    assert play(*turns, on_limit="wait", hook=once("hold", Driver.stop), **limits)[1].status is Status.STOP_REQUESTED
    ended = once("hold", lambda run: run.set_limits({"on_limit": "end"}))
    assert play(*turns, on_limit="wait", hook=ended, **limits)[1].status not in (Status.COMPLETED, Status.TIME_LIMIT)


@pytest.mark.parametrize(
    ("limits", "status", "figure"),
    [
        ({"model_calls": 2}, Status.MODEL_CALL_LIMIT, "1 of 2 model calls are used"),
        ({"total_output_tokens": 1025}, Status.TOKEN_LIMIT, "1 of 1025 output tokens are used"),
        ({"estimated_call_cents": 2, "model_budget_cents": 4}, Status.MODEL_COST_LIMIT, "2 of 4 cents are reserved"),
    ],
)
def test_a_wrap_up_reports_in_the_last_call_that_the_limits_leave(
    limits: dict[str, Any], status: Status, figure: str
) -> None:
    driver, result = play(turn("", call("a")), turn("So far."), ANSWER, wrap_up=True, **limits)
    assert (result.status, result.partial, result.answer) == (status, "So far.", None)
    assert [offered.wrap_up for offered in driver.offered] == [None, status]
    notice = driver.transcript[-2]
    assert isinstance(notice, UserMessage)
    assert figure in notice.content


@pytest.mark.parametrize(
    ("limits", "raised", "detail"),
    [
        ({"model_calls": 1}, {"model_calls": 20}, "1 of 1 model calls used"),
        (
            {"estimated_call_cents": 3, "model_budget_cents": 5},
            {"model_budget_cents": 50},
            "no further call fits the budget",
        ),
    ],
)
def test_a_limit_that_is_raised_while_a_wrap_up_is_out_is_told_to_have_come_too_late(
    limits: dict[str, Any], raised: dict[str, Any], detail: str
) -> None:
    _, result = play(turn("So far."), hook=once("model", lambda run: run.set_limits(raised)), wrap_up=True, **limits)
    assert result.detail == f"{detail}; the last reply was a wrap-up, and the limit was raised after it was asked for"
    _, result = play(turn("So far."), wrap_up=True, **limits)
    assert result.detail == f"{detail}; the last reply was a wrap-up"


def test_a_wrap_up_that_asks_for_tools_runs_none_of_them() -> None:
    driver, result = play(turn("Only one more.", call("a")), ANSWER, wrap_up=True, model_calls=1)
    assert (result.status, result.partial) == (Status.MODEL_CALL_LIMIT, "Only one more.")
    assert driver.dispatched == []
    assert result.messages == 2  # the opening and the notice


def test_a_blank_wrap_up_has_no_partial_and_a_failed_one_is_given_one_notice() -> None:
    assert play(turn(" "), wrap_up=True, model_calls=1)[1].partial is None
    driver, result = play(turn("", call("a")), failure(), turn("So far."), wrap_up=True, total_output_tokens=1025)
    assert (result.status, result.partial) == (Status.TOKEN_LIMIT, "So far.")
    assert sum("Notice" in message.content for message in driver.transcript) == 1


def test_an_answer_of_many_blanks_is_empty_however_large() -> None:
    assert play(turn(" " * 20_000))[1].status is Status.EMPTY_REPLY


def test_a_large_answer_stands_cut_beside_the_weight_of_the_whole() -> None:
    driver = Driver(agent(), [turn("x" * 20_000)])
    result = driver.run()
    assert result.answer is not None
    assert len(result.answer) < 9_000
    assert result.answer_whole == weigh(AssistantMessage(content="x" * 20_000))
    assert result.digest == extend(extend(Head(), weigh(driver.opening[0])), result.answer_whole).digest


def test_malformed_calls_are_told_and_the_third_such_turn_in_a_row_fails() -> None:
    bad = [turn("", call(str(n), "look", f"[{n}]")) for n in range(4)]
    driver, result = play(*bad, malformed_calls="observe")
    assert (result.status, result.model_calls, result.tool_calls) == (Status.MODEL_FAILED, 3, 2)
    assert driver.dispatched == []
    good = turn("", call("g"))
    _, result = play(bad[0], bad[1], good, bad[2], bad[3], ANSWER, malformed_calls="observe")
    assert result.status is Status.COMPLETED


@pytest.mark.parametrize("name", ["fly", "", "Look", "look ", "l\u043eok", "x" * 256])
def test_an_unknown_tool_is_told_which_tools_exist_and_then_that_it_repeats_itself(name: str) -> None:
    driver, result = play(*(turn("", call(str(n), name)) for n in range(5)))
    assert (result.status, result.model_calls, result.tool_calls) == (Status.LOOP_DETECTED, 4, 3)
    told = [message.content for message in driver.transcript if isinstance(message, ToolMessage)]
    assert [kind_of(content) for content in told] == ["unknown_tool", "unknown_tool", "repeated"]
    assert all("the tools are: add, look, ring, send" in content for content in told)
    assert driver.dispatched == []


def test_a_repeat_is_told_what_the_call_returned_also_within_one_batch() -> None:
    batch = turn("", *(call(str(n)) for n in range(4)))
    driver, result = play(batch, turn("", call("again")))
    assert result.status is Status.LOOP_DETECTED
    assert driver.ran_together == [["0", "1"], ["2", "3"]]
    told = [read(message.content) for message in driver.transcript if isinstance(message, ToolMessage)]
    assert [body["ok"] for body in told] == [True, True, False, False]
    assert ok({}) in str(told[2]["error"])
    assert result.tool_calls == 4


def test_of_identical_effects_in_one_turn_the_first_runs_and_is_the_one_told_of() -> None:
    sends = [turn("", call("a", "send"), call("b", "send")), turn("", call("c", "send")), turn("", call("d", "send"))]
    driver, result = play(*sends)
    assert result.status is Status.LOOP_DETECTED
    assert [made.id for made in driver.dispatched] == ["a"]
    told = [message.content for message in driver.transcript if isinstance(message, ToolMessage)]
    assert "identical call in the same turn, not executed" in told[1]
    assert '\\"ok\\":true' in told[2]


def test_a_repeatable_effect_runs_each_time_in_one_turn() -> None:
    driver, _ = play(turn("", call("a", "ring"), call("b", "ring")), ANSWER)
    assert [made.id for made in driver.dispatched] == ["a", "b"]
    assert driver.ran_together == [["a"], ["b"]]
