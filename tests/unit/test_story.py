"""The story of a run, line by line, from decoded events; no server is needed."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.happenings import Failure, Happening
from client.inert import inert, short
from client.story import Story
from longshift import contracts
from longshift.agent import AgentSpec
from longshift.chain import Head
from longshift.context import Excerpt, Summary
from longshift.contracts import (
    CalledModel,
    CallModel,
    CloseRun,
    EndpointFacts,
    OpenedRun,
    RanTool,
    RunResult,
    RunSpec,
    RunTool,
    SettledEffect,
    SettleEffect,
)
from longshift.messages import AssistantMessage, Payload, ToolCall, ToolMessage
from longshift.recording import record
from longshift.status import Status
from longshift.turns import ModelFailure, Turn, Usage

ECHO = ToolCall(id="one", name="echo", arguments={"text": "hi"})
RESULT = RunResult(run_id="r", status=Status.TIME_LIMIT, detail="60.1 of 60 seconds passed")


def value(model: Payload) -> tuple[Any, ...]:
    """A payload as a client decodes it."""
    return (model.model_dump(mode="json"),)


def model_call(number: int = 2, *, tools: bool = True, excerpt: Excerpt | None = None) -> tuple[Any, ...]:
    """The request of a model call."""
    request = CallModel(
        run_id="r",
        endpoint="e",
        number=number,
        reply=number,
        head=Head(),
        output_tokens=100,
        tools=tools,
        excerpt=excerpt,
    )
    return value(request)


def tool_call() -> tuple[Any, ...]:
    """The request of a tool call."""
    return value(RunTool(run_id="r", model_call=1, position=0, call=ECHO))


def observed(content: str, **more: Any) -> tuple[Any, ...]:
    """The result of a tool call."""
    return value(RanTool(observation=record(ToolMessage(call_id="one", name="echo", content=content)), **more))


def turn(content: str, *calls: ToolCall, tokens: int | None = 118) -> tuple[Any, ...]:
    """The result of a model call."""
    message = AssistantMessage(content=content, calls=calls)
    return value(CalledModel(turn=Turn(reply=record(message), usage=Usage(output_tokens=tokens), milliseconds=340)))


def told(*events: Mapping[str, Any]) -> list[str]:
    """What a story makes of events, numbered from 1."""
    story = Story()
    return [
        line.text
        for number, event in enumerate(events, start=1)
        for line in story.tell(Happening(**{"at": 1.0, "number": number, **event}))
    ]


def activity(name: str, request: tuple[Any, ...], end: str, **more: Any) -> list[str]:
    """The lines for an activity that was scheduled and ended."""
    return told(
        {"event": "ACTIVITY_TASK_SCHEDULED", "name": name, "values": request, "id": more.pop("id", "")},
        {"event": "ACTIVITY_TASK_STARTED", "about": 1, "attempt": more.pop("attempt", 1)},
        {"event": f"ACTIVITY_TASK_{end}", "about": 1, **more},
    )


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (turn("", ECHO, ECHO), "model call 2: 2 calls, 118 tokens, 0.3 s"),
        (turn("Let me see.", ECHO), "model call 2: 1 call, 118 tokens, 0.3 s: Let me see."),
        (turn("Done."), "model call 2: answer, 118 tokens, 0.3 s: Done."),
        (turn(" ", tokens=None), "model call 2: neither text nor calls, tokens not reported, 0.3 s"),
    ],
)
def test_a_model_call_tells_its_beginning_and_what_it_brought(result: tuple[Any, ...], line: str) -> None:
    assert activity("call_model", model_call(), "COMPLETED", values=result) == ["model call 2 began", line]


@pytest.mark.parametrize(
    ("end", "failure", "line"),
    [
        (
            "FAILED",
            Failure("ModelFailure", "x", value(ModelFailure(kind="status", message="local: 503", transient=True))),
            "model call 2: failed: local: 503",
        ),
        ("FAILED", Failure("WorkerShutdown", "x"), "model call 2: its worker was shut down"),
        ("TIMED_OUT", Failure("HEARTBEAT", ""), "model call 2: its worker gives no sign of life any more"),
        ("TIMED_OUT", Failure("START_TO_CLOSE", ""), "model call 2: took longer than its time"),
        ("TIMED_OUT", Failure("SCHEDULE_TO_CLOSE", ""), "model call 2: no worker did it in time"),
        ("TIMED_OUT", Failure("SCHEDULE_TO_CLOSE", "away"), "model call 2: no worker did it in time: away"),
        ("CANCELED", None, "model call 2: cancelled"),
    ],
)
def test_a_model_call_that_brings_nothing_tells_why(end: str, failure: Failure | None, line: str) -> None:
    assert activity("call_model", model_call(), end, failure=failure)[1:] == [line]


def test_a_call_that_is_handed_out_again_and_a_wrap_up_are_told_as_such() -> None:
    scheduled = {"event": "ACTIVITY_TASK_SCHEDULED", "name": "call_model"}
    assert told(
        {**scheduled, "values": model_call(), "id": "model-2-again-1"},
        {**scheduled, "values": model_call(3, tools=False)},
    ) == ["model call 2 was handed out again", "model call 3 began, a wrap-up"]


def test_what_has_left_the_context_is_told_when_it_changes_and_a_summary_as_such() -> None:
    scheduled = {"event": "ACTIVITY_TASK_SCHEDULED", "name": "call_model"}
    moved = Excerpt(kept=Head(length=2), start=8, exchanges=3)
    asking = moved.model_copy(update={"until": 12})
    told_of = moved.model_copy(update={"start": 12, "exchanges": 5})
    told_of = told_of.model_copy(update={"summary": Summary(call=5, sha256="", exchanges=5, bytes=9)})
    assert told(
        {**scheduled, "values": model_call(2)},
        {**scheduled, "values": model_call(3, excerpt=moved)},
        {**scheduled, "values": model_call(4, excerpt=moved)},
        {**scheduled, "values": model_call(5, tools=False, excerpt=asking)},
        {"event": "ACTIVITY_TASK_COMPLETED", "about": 4, "values": turn("So far.")},
        {**scheduled, "values": model_call(6, tools=False, excerpt=told_of)},
    ) == [
        "model call 2 began",
        "model call 3 began; 3 earlier exchanges left out",
        "model call 4 began",
        "model call 5 began, a summary of what is to leave the context",
        "model call 5: summary, 118 tokens, 0.3 s: So far.",
        "model call 6 began, a wrap-up; 5 earlier exchanges left out, 5 of them told by the summary of model call 5",
    ]


@pytest.mark.parametrize(
    ("content", "more", "line"),
    [
        ('{"ok":true,"value":"hi"}', {}, 'echo {"text":"hi"}: ok'),
        ('{"ok":false,"error":{"kind":"refused","message":"no"}}', {}, 'echo {"text":"hi"}: error refused: no'),
        ("not JSON", {}, 'echo {"text":"hi"}: an observation that cannot be read'),
        (
            '{"ok":false,"error":{"kind":"fatal","message":"locked"}}',
            {"fatal": True},
            'echo {"text":"hi"}: error fatal: locked; the tool says that nothing can help, and the run ends',
        ),
    ],
)
def test_a_tool_call_tells_what_it_returned(content: str, more: dict[str, Any], line: str) -> None:
    assert activity("run_tool", tool_call(), "COMPLETED", values=observed(content, **more)) == [line]


OF_ECHO = RunTool(run_id="r", model_call=1, position=0, call=ECHO)
RAN = RanTool(observation=record(ToolMessage(call_id="one", name="echo", content='{"ok":true,"value":"hi"}')))


@pytest.mark.parametrize(
    ("resolution", "settled", "lines"),
    [
        (None, SettledEffect(ran=RAN), ["finding out what came of it", "ok"]),
        (None, SettledEffect(fence=1), ["finding out what came of it", "it was surely not run"]),
        (
            None,
            SettledEffect(fence=0, unknown="its worker died"),
            ["finding out what came of it", "it may or may not have happened: its worker died"],
        ),
        ('{"ok":true,"value":"hi"}', SettledEffect(ran=RAN), ["entering what a person says of it", "ok"]),
    ],
)
def test_an_effect_whose_outcome_did_not_come_tells_what_is_found_out(
    resolution: str | None, settled: SettledEffect, lines: list[str]
) -> None:
    request = value(SettleEffect(call=OF_ECHO, resolution=resolution))
    told = activity("settle_effect", request, "COMPLETED", values=value(settled))
    assert told == [f'echo {{"text":"hi"}}: {line}' for line in lines]


def test_a_dispatch_that_cannot_say_what_came_of_it_tells_that_it_may_have_happened() -> None:
    lines = activity("run_tool", tool_call(), "FAILED", failure=Failure("OutcomeUnknown", "the bank is silent"))
    assert lines == ['echo {"text":"hi"}: may or may not have happened: the bank is silent']


def test_a_read_that_was_tried_again_says_at_which_attempt_it_came() -> None:
    lines = activity("run_tool", tool_call(), "COMPLETED", values=observed('{"ok":true,"value":1}'), attempt=3)
    assert lines == ['echo {"text":"hi"}: ok, at attempt 3']


def test_an_opened_run_tells_its_endpoint_and_its_notes_and_a_recorded_end_tells_nothing() -> None:
    facts = EndpointFacts(name="local", kind="openai", model="qwen", timeout_seconds=5)
    spec = RunSpec(agent=AgentSpec(name="shop"), endpoint=facts, heartbeat_seconds=2, notes=("no price",))
    opened = value(OpenedRun(spec=spec, opening=()))
    assert activity("open_run", (), "COMPLETED", values=opened) == [
        "opened: endpoint local (qwen), 0 tools",
        "no price",
    ]
    closing = value(CloseRun(run_id="r", head=Head(), result=RESULT))
    assert activity("close_run", closing, "COMPLETED") == []


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"event": "WORKFLOW_EXECUTION_STARTED", "values": ({"agent": "a", "task": "t"},)}, "started: agent a: t"),
        ({"event": "WORKFLOW_EXECUTION_STARTED"}, "started, with an input that is not a run's"),
        (
            {"event": "WORKFLOW_TASK_FAILED", "failure": Failure("ValueError", "boom")},
            "workflow code failed: boom; the run waits for workers that are mended",
        ),
        (
            {"event": "WORKFLOW_TASK_TIMED_OUT", "reason": "SCHEDULE_TO_START"},
            "the worker did not answer; the step is handed out again",
        ),
        (
            {"event": "WORKFLOW_EXECUTION_SIGNALED", "name": "stop", "values": ({"mode": "now", "reason": "late"},)},
            "stop (now): late",
        ),
        (
            {"event": "WORKFLOW_EXECUTION_SIGNALED", "name": "stop", "values": (None, 2)},
            "stop (graceful): no reason given",
        ),
        ({"event": "WORKFLOW_EXECUTION_SIGNALED", "name": "pause"}, "pause"),
        (
            {"event": "WORKFLOW_EXECUTION_SIGNALED", "name": "x\ny"},
            "a signal of no known name, which changes nothing: x y",
        ),
        (
            {
                "event": "WORKFLOW_EXECUTION_UPDATE_ACCEPTED",
                "name": "set_limits",
                "values": ({"seconds": 600, "request_id": "r"},),
            },
            "limits changed: seconds 600",
        ),
        ({"event": "WORKFLOW_EXECUTION_UPDATE_ACCEPTED", "name": "tell", "values": ("hi",)}, "tell: hi"),
        (
            {"event": "WORKFLOW_EXECUTION_UPDATE_ACCEPTED", "name": "approve", "values": ({"call_id": "c\x1b1"},)},
            "approved c\\x1b1",
        ),
        (
            {"event": "WORKFLOW_EXECUTION_SIGNALED", "name": "deny", "values": ({"call_id": "c1", "reason": "no"},)},
            "denied c1, since: no, by a message that waits for a worker",
        ),
        (
            {
                "event": "WORKFLOW_EXECUTION_UPDATE_ACCEPTED",
                "name": "resolve",
                "values": ({"call_id": "c1", "outcome": "happened", "result": {"id": 7}, "reason": "seen"},),
            },
            'resolved c1: happened with {"id":7}, since: seen',
        ),
        (
            {"event": "WORKFLOW_EXECUTION_SIGNALED", "name": "approve", "values": (7,)},
            "approved no call, by a message that waits for a worker",
        ),
        (
            {
                "event": "WORKFLOW_EXECUTION_FAILED",
                "failure": Failure("OUTCOME_UNKNOWN", "", value(RESULT.model_copy(update={"unknown_calls": ("c1",)}))),
            },
            "ended: TIME_LIMIT: 60.1 of 60 seconds passed; may have happened: c1",
        ),
        ({"event": "WORKFLOW_EXECUTION_CANCEL_REQUESTED", "reason": "UI"}, "cancel: UI"),
        ({"event": "TIMER_STARTED", "summary": "back-off", "seconds": 2.0}, "waiting 2.0 s: back-off"),
        (
            {"event": "WORKFLOW_EXECUTION_FAILED", "failure": Failure("TIME_LIMIT", "", value(RESULT))},
            "ended: TIME_LIMIT: 60.1 of 60 seconds passed",
        ),
        (
            {"event": "WORKFLOW_EXECUTION_FAILED", "failure": Failure("InputRefused", "task: is blank")},
            "ended: InputRefused: task: is blank",
        ),
        (
            {"event": "WORKFLOW_EXECUTION_TERMINATED", "who": "ann", "reason": "no"},
            "ended: TERMINATED: by ann: no",
        ),
    ],
)
def test_an_event_tells_its_line(event: dict[str, Any], line: str) -> None:
    assert told(event) == [line]


def nested(levels: int) -> Any:
    """Lists in lists."""
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (float("inf"), "inf"),
        ({"paid": float("nan")}, "{'paid': nan}"),
        (["\ud800"], '["\\ud800"]'),
        (b"\x1b[2J", "b'\\x1b[2J'"),
        (nested(5_000), "[[[[[[...]]]]]]"),
    ],
    ids=["infinite", "not a number", "surrogate", "bytes", "deep"],
)
@pytest.mark.parametrize("name", ["resolve", "deny", "set_limits", "tell"])
def test_what_no_json_can_hold_is_told_as_what_it_is(name: str, sent: Any, shown: str) -> None:
    """The Temporal UI and command send such values; a run goes on, and so does its story."""
    given = {
        "resolve": {"call_id": "c1", "outcome": "happened", "result": sent},
        "deny": {"call_id": "c1", "reason": sent},
        "set_limits": {"seconds": sent},
        "tell": {"text": sent},
    }[name]
    for event in ("WORKFLOW_EXECUTION_SIGNALED", "WORKFLOW_EXECUTION_UPDATE_ACCEPTED"):
        (line,) = told({"event": event, "name": name, "values": (given,)})
        assert shown in line


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("call_id", "outcome", "result", "reason", "text", "mode", "unknown_calls", "status", "detail", "task", "call")
OBJECTS = st.dictionaries(st.sampled_from(NAMES), ANY_JSON)


@given(
    event=st.sampled_from(
        [
            "WORKFLOW_EXECUTION_STARTED",
            "WORKFLOW_EXECUTION_COMPLETED",
            "WORKFLOW_EXECUTION_SIGNALED",
            "WORKFLOW_EXECUTION_UPDATE_ACCEPTED",
            "WORKFLOW_PROPERTIES_MODIFIED",
            "ACTIVITY_TASK_SCHEDULED",
        ]
    ),
    name=st.sampled_from(["stop", "tell", "set_limits", "approve", "deny", "resolve", "run_tool", "call_model"])
    | st.text(st.characters()),
    values=st.lists(OBJECTS | ANY_JSON, max_size=2),
    memo=OBJECTS,
)
def test_whatever_a_history_holds_its_lines_can_be_written(
    event: str, name: str, values: list[Any], memo: dict[str, Any]
) -> None:
    for line in told({"event": event, "name": name, "values": tuple(values), "memo": memo}):
        line.encode()


@pytest.mark.parametrize(
    "event",
    [
        {"event": "WORKFLOW_TASK_COMPLETED"},
        {"event": "WORKFLOW_TASK_FAILED", "reason": "UNHANDLED_COMMAND"},
        {"event": "WORKFLOW_EXECUTION_STARTED", "again": True},
        {"event": "ACTIVITY_TASK_COMPLETED", "about": 7},
        {"event": "TIMER_STARTED"},
    ],
)
def test_temporals_own_book_keeping_tells_nothing(event: dict[str, Any]) -> None:
    assert told(event) == []


def test_a_wait_for_a_person_is_told_once_with_what_would_end_it() -> None:
    waits = {"status": "WAITING", "detail": "paused: resume the run"}
    assert told(
        {"event": "WORKFLOW_PROPERTIES_MODIFIED", "memo": {"status": "RUNNING", "detail": ""}},
        {"event": "WORKFLOW_PROPERTIES_MODIFIED", "memo": waits},
        {"event": "TIMER_STARTED", "summary": contracts.DEADLINE, "seconds": 60},
        {"event": "WORKFLOW_PROPERTIES_MODIFIED", "memo": {"status": "RUNNING", "detail": ""}},
    ) == ["waiting: paused: resume the run", "goes on"]


def test_a_cancelled_run_ends_with_what_it_wrote_into_its_memo() -> None:
    assert told(
        {"event": "WORKFLOW_PROPERTIES_MODIFIED", "memo": {"status": "STOP_REQUESTED", "detail": "cancelled: UI"}},
        {"event": "WORKFLOW_EXECUTION_CANCELED"},
    ) == ["ended: STOP_REQUESTED: cancelled: UI"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb\nc\td", "a\\rb\\nc\\td"),
        ("\u202edlrow", "\\u202edlrow"),
        ("\u2066x\u2069\ufeff\u200b", "\\u2066x\\u2069\\ufeff\\u200b"),
        ("\U000e0041", "\\U000e0041"),
        ("\u2028\ud800\x00\x7f", "\\u2028\\ud800\\x00\\x7f"),
        (
            "na\u200cme \u4f60\u597d \U0001f468\u200d\U0001f4bb \u00e9",
            "na\u200cme \u4f60\u597d \U0001f468\u200d\U0001f4bb \u00e9",
        ),
    ],
)
def test_what_acts_on_a_terminal_is_shown_as_what_it_is(text: str, shown: str) -> None:
    assert inert(text) == shown


def test_lines_and_tabs_can_be_kept() -> None:
    assert inert("a\n\tb\r\x1b", multiline=True) == "a\n\tb\\r\\x1b"


@given(st.text(alphabet=st.characters()), st.booleans())
def test_an_inert_text_stays_as_it_is(text: str, multiline: bool) -> None:
    once = inert(text, multiline=multiline)
    assert inert(once, multiline=multiline) == once


@given(st.text(alphabet=st.characters()))
def test_a_short_text_is_one_line(text: str) -> None:
    assert len(short(text).splitlines()) <= 1
