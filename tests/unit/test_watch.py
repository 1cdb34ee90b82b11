"""The pictures of a watch: what is seen in any width and height, without colours too."""

import asyncio
import builtins
import io
import json
import os
import pty
import signal
import sys
import termios
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from pydantic import JsonValue
from rich.console import Console

from client import show, watching
from client.shifts import Listed, Shifts, Snapshot
from client.story import StoryLine
from client.watch import looks, picture
from client.watch.picture import ANSWERS, KEYS, Foot
from client.watch.screen import Screen, one_key
from longshift.contracts import RunResult
from longshift.limits import Limits
from longshift.messages import ToolCall
from longshift.questions import question
from longshift.remedies import commands
from longshift.status import Status
from longshift.view import StateView
from worker.connection import NoServer

RUN_ID = "shop-20300101-090000-1f2e"
STEPS = [StoryLine(60.0 * number, "turn", f"model call {number} began " + "and on " * 9) for number in range(1, 31)]
LIMITS = Limits(model_calls=10, seconds=600, total_output_tokens=4000, model_budget_cents=200, working_seconds=60)
VIEW = StateView(
    run_id=RUN_ID,
    status="RUNNING",
    phase="calls the model",
    model_calls=5,
    tool_calls=16,
    output_tokens=3900,
    exposure=123_450,
    context_bytes=12_345,
    working_seconds=30.0,
    limits=LIMITS,
)


def standing(status: str = "RUNNING", **given: object) -> Snapshot:
    """A run that stands so."""
    view = VIEW.model_copy(update={"started_at": time.time()})
    at_work = Snapshot(RUN_ID, status, "", "shop", "Prepare drafts.", time.time(), None, None, view=view)
    return replace(at_work, **given)  # type: ignore[arg-type]


def drawn(shown: object, width: int) -> list[str]:
    """The lines of a picture on a terminal without colours."""
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=True, no_color=True, color_system=None, legacy_windows=False
    )
    console.print(shown)
    lines = file.getvalue().split("\n")
    assert lines.pop() == ""
    assert all(len(line) <= width for line in lines)
    return [line.rstrip() for line in lines]


def asking(arguments: JsonValue) -> Snapshot:
    """A run that asks for approval."""
    call = ToolCall(id="call-7", name="place_order", arguments={"sku": arguments})
    asked = question("approval", call, "place_order always needs approval", 0.0)
    return standing("WAITING", detail=f"asked: longshift approve or deny {RUN_ID} call-7", question=asked)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_budgets_are_bars_with_used_and_limit_at_any_width(width: int) -> None:
    lines = drawn(picture.one(standing(), (), Foot(), width), width)

    bars = {line.split(" [")[0].strip(): line for line in lines if " [" in line}
    assert [*bars] == [
        "model calls",
        "tool calls",
        "seconds",
        "context bytes",
        "output tokens",
        "US cents",
        "working seconds",
    ]
    assert bars["model calls"].endswith("5 / 10")
    assert bars["US cents"].endswith("12.345 / 200")
    insides = {name: line[line.index("[") + 1 : line.index("]")] for name, line in bars.items()}
    half, whole = insides["model calls"], insides["tool calls"]
    assert set(whole) == {"━"}
    assert half.rstrip(" ╸") == "━" * (len(whole) // 2)
    assert len(whole) == len(half) >= show.SHORTEST_BAR


def test_where_figures_leave_no_room_there_are_figures_without_bars() -> None:
    lines = drawn(picture.one(standing(), (), Foot(), 33), 33)

    assert not any("[" in line for line in lines)
    assert any(line.split() == ["model", "calls", "5", "/", "10"] for line in lines)


def test_a_budget_of_zero_is_full_once_it_is_used_and_one_without_limit_has_no_bar() -> None:
    limits = LIMITS.model_copy(update={"model_budget_cents": 0, "tool_calls": 0, "working_seconds": None})
    none_used = VIEW.model_copy(update={"limits": limits, "exposure": 0})
    lines = drawn(picture.one(standing(view=none_used), (), Foot(), 80), 80)

    bars = {line.split(" [")[0].strip(): line for line in lines if " [" in line}
    assert "━" in bars["tool calls"]
    assert "━" not in bars["US cents"]
    assert "working seconds" not in bars


def test_the_latest_steps_fill_what_height_there_is_and_the_keys_stand_at_the_bottom() -> None:
    lines = drawn(picture.one(standing(), STEPS, Foot(keys=KEYS), 40, 24), 40)

    assert len(lines) == 24
    assert lines[-1] == KEYS
    told = [line for line in lines if "model call" in line and "began" in line]
    assert 3 <= len(told) < len(STEPS)
    assert "model call 30 began" in told[-1]
    assert all(line.endswith("…") for line in told)


@pytest.mark.parametrize("height", [1, 2, 5, 10, 17])
def test_a_terminal_that_is_too_low_keeps_its_foot_and_begins_with_the_run(height: int) -> None:
    lines = drawn(picture.one(standing(), STEPS, Foot(keys=KEYS), 40, height), 40)

    assert len(lines) == height
    assert lines[-1] == KEYS
    if height > 2:
        assert lines[0].split() == ["run", RUN_ID]
        assert lines[1].split() == ["status", "RUNNING"]


@pytest.mark.parametrize("width", [40, 100])
def test_what_a_run_waits_for_stands_whole_with_the_commands_that_answer_it(width: int) -> None:
    found = asking("SKU-VANILLA\x1b[2J")
    assert found.question is not None
    lines = drawn(picture.one(found, STEPS, Foot(keys=ANSWERS + KEYS), width, 40), width)

    text = "".join("".join(line.split()) for line in lines)
    for command in commands(RUN_ID, found.question):
        assert "".join(command.split()) in text
    assert "approveplace_order{" in text
    assert "\\u001b[2J" in text
    assert "\x1b" not in text
    assert "a:approved:denyp:pauser:resume" in text


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (standing("NO_WORKER", view=None), ["NO_WORKER", "no worker answers", "longshift worker"]),
        (standing("STUCK", view=None, stuck="workflow code failed 3 times"), ["STUCK", "workflow code failed 3 times"]),
        (
            standing(
                "WAITING",
                detail="paused: resume it, or stop it",
                view=VIEW.model_copy(update={"commands": (f"longshift resume {RUN_ID}",)}),
            ),
            ["paused: resume it, or stop it", f"go on with longshift resume {RUN_ID}"],
        ),
        (standing(view=VIEW.model_copy(update={"stop": "graceful: enough"})), ["stop", "graceful: enough"]),
        (
            standing(
                "COMPLETED",
                detail="a final answer",
                view=None,
                closed_at=1.0,
                result=RunResult(run_id=RUN_ID, status=Status.COMPLETED, detail="", model_calls=3, exposure=50_000),
            ),
            ["COMPLETED", "a final answer", "3 model calls", "5 cents"],
        ),
        (standing("INPUT_REFUSED", detail="task: is blank", view=None, closed_at=1.0), ["task: is blank"]),
    ],
)
@pytest.mark.parametrize("width", [40, 120])
def test_every_state_says_what_it_is_in_any_width(found: Snapshot, words: list[str], width: int) -> None:
    lines = drawn(picture.one(found, STEPS[:2], Foot(), width), width)

    text = "".join("".join(line.split()) for line in lines)
    for word in words:
        assert "".join(word.split()) in text


def test_the_foot_tells_of_a_server_that_is_away_of_the_latest_key_and_of_what_is_asked() -> None:
    foot = Foot(0.0, "told to pause\x1b[2J", "Stop it? y yes, any other key no", KEYS)
    lines = drawn(picture.one(standing(), (), foot, 100, 30), 100)

    assert lines[-4].startswith("the Temporal server has not answered since ")
    assert lines[-3:] == ["told to pause\\x1b[2J", "Stop it? y yes, any other key no", KEYS]


def listed(run_id: str, status: str, **given: object) -> Listed:
    """A run of a list."""
    return replace(Listed(run_id, status, "", "shop", "Prepare drafts.", 0.0, None, None), **given)  # type: ignore[arg-type]


ALL = [listed(RUN_ID, "RUNNING"), listed("b", "WAITING", detail="paused: resume it, or stop it\x1b[2J")]
ENDED = [listed("c", "TIME_LIMIT", closed_at=1.0, detail="the deadline passed")]


@pytest.mark.parametrize("width", [40, 75, 76, 120])
def test_all_runs_stand_whole_with_what_they_do_and_those_that_ended_below_them(width: int) -> None:
    lines = drawn(picture.every(ALL, ENDED, Foot(keys="q:leave"), width, 20), width)

    assert lines[0] == "2 shifts, 1 waiting"
    assert lines[-1] == "q:leave"
    text = "\n".join(lines)
    places = [text.index(word) for word in ("WAITING", RUN_ID, "ended: TIME_LIMIT")]
    assert places == sorted(places)
    assert "paused: resume" in text
    assert "\x1b" not in text
    assert ("what it does" in text) == (width >= 76)


class Interrupted(Shifts):
    """Runs on a server that is away after each line of a story but the last."""

    def __init__(self) -> None:
        self.left = list(range(1, len(STEPS) + 1))

    async def follow(self, run_id: str) -> AsyncIterator[StoryLine]:
        """So many lines more each time."""
        until = self.left.pop(0)
        for line in STEPS[:until]:
            yield line
        if until < len(STEPS):
            raise NoServer("away")

    async def state(self, run_id: str) -> Snapshot:
        """Away as often."""
        if self.left.pop(0) < len(STEPS):
            raise NoServer("away")
        return standing("COMPLETED")


@pytest.mark.asyncio
async def test_a_story_and_a_look_go_on_after_a_server_was_away_and_no_line_is_told_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looks, "EVERY_SECONDS", 0.0)
    shifts = Interrupted()

    assert [line async for line in looks.story(shifts, RUN_ID)] == STEPS
    shifts = Interrupted()
    looking = looks.Looks(lambda: shifts.state(RUN_ID), standing())
    monkeypatch.setattr(looks, "LATE_SECONDS", 0.0)
    assert looking.away_since is None
    assert (await looking.once()).status == looking.latest.status == "COMPLETED"
    assert looking.away_since is None


@pytest.mark.asyncio
async def test_a_look_that_has_no_answer_is_told_with_the_time_it_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "LATE_SECONDS", 0.0)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def look() -> str:
        asked.set()
        await answer.wait()
        return "seen"

    looking = looks.Looks(look, "first")
    before = time.time()
    once = asyncio.create_task(looking.once())
    await asked.wait()
    assert before <= (looking.away_since or 0) <= time.time()
    answer.set()
    assert await once == "seen"
    assert looking.away_since is None


@pytest.mark.asyncio
async def test_a_watch_that_fails_gives_the_terminal_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, its_end = pty.openpty()
    modes = termios.tcgetattr(its_end)
    with os.fdopen(its_end) as its:
        monkeypatch.setattr(sys, "stdin", its)
        console = Console(file=io.StringIO(), force_terminal=True, width=40, height=10)

        async def fail() -> None:
            with Screen(console) as screen:
                screen.draw("something")
                assert termios.tcgetattr(its_end) != modes
                os.write(ours, b"p")
                assert await screen.key() == "p"
                raise LookupError

        with pytest.raises(LookupError):
            await fail()
        assert termios.tcgetattr(its_end) == modes
        assert signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL
    os.close(ours)


class Over(Exception):
    """Nothing more is to be seen."""


class Changing(Shifts):
    """A server on which one run begins to wait and another ends."""

    def __init__(self) -> None:
        before = [listed("a", "RUNNING"), listed("b", "RUNNING")]
        after = [listed("a", "WAITING", detail="paused: resume it, or stop it")]
        self.seen = [before, before, after, after]

    async def list(self, limit: int = 50, *, open_only: bool = False) -> builtins.list[Listed]:
        """The next of them."""
        assert open_only
        if not self.seen:
            raise Over
        return self.seen.pop(0)

    async def state(self, run_id: str) -> Snapshot:
        """How the run stands that is listed no longer."""
        assert run_id == "b"
        return standing("TIME_LIMIT", run_id="b", view=None, closed_at=1.0, detail="the deadline passed")


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.asyncio
async def test_without_a_terminal_all_runs_are_told_when_they_change_and_how_they_ended(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(looks, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(watching, "PACE_SECONDS", 0.0)

    with pytest.raises(Over):
        await watching.watch_all(Changing(), as_json)

    told = capsys.readouterr().out.splitlines()
    if as_json:
        stands = [[(run["run_id"], run["status"]) for run in json.loads(line)] for line in told]
        assert stands == [[("a", "RUNNING"), ("b", "RUNNING")], [("a", "WAITING"), ("b", "TIME_LIMIT")]]
        return
    assert sorted(told[:2]) == ["a  RUNNING: Prepare drafts.", "b  RUNNING: Prepare drafts."]
    assert told[2:] == ["a  WAITING: paused: resume it, or stop it", "b  ended: TIME_LIMIT: the deadline passed"]


class Passing(Shifts):
    """A server on which one run waits for the time of one look."""

    def __init__(self) -> None:
        over = standing("COMPLETED", view=None, closed_at=1.0)
        self.seen = [standing(), standing("WAITING", detail="paused: resume it, or stop it"), over]

    async def state(self, run_id: str) -> Snapshot:
        """The next of them."""
        return self.seen.pop(0)


@pytest.mark.asyncio
async def test_a_run_has_a_document_for_each_look_at_which_it_has_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(looks, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(watching, "EVERY_SECONDS", 0.0)

    assert await watching.watch(Passing(), RUN_ID, as_json=True) == "COMPLETED"

    told = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["status"] for line in told] == ["RUNNING", "WAITING", "COMPLETED"]


def test_where_no_run_is_left_the_list_says_so() -> None:
    assert drawn(picture.every([], [], Foot(), 80), 80) == ["no shift is at work or waits; this goes on looking"]


def test_more_runs_than_lines_leave_the_foot() -> None:
    lines = drawn(picture.every(ALL * 20, ENDED, Foot(keys="q:leave"), 40, 12), 40)

    assert (len(lines), lines[-1]) == (12, "q:leave")


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (b"p", "p"),
        (b"P", "p"),
        (b"yy", "y"),  # a key that is held down
        (b"\x1b", "\x1b"),
        (b"sy", None),  # pasted, or typed before it was asked
        (b"\x1bOp", None),  # a keypad's
        (b"\x1b[A", None),
        (b"\xff", None),
        ("é".encode(), "é"),
    ],
)
def test_a_key_is_what_comes_alone(data: bytes, key: str | None) -> None:
    assert one_key(data) == key
