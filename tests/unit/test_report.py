"""Reports as pages: of every kept history's journal, of hostile texts, of long runs."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import client.report
from client.ending import charged
from client.report import budgets, steps
from client.report.overview import NO_END, overview
from client.report.page import overview_page, run_page
from client.report.records import Records, records_of
from client.report.sources import Sources
from client.snapshots import Snapshot
from longshift import admission, observations
from longshift.agent import AgentSpec
from longshift.audit.checks import audit
from longshift.contracts import EndpointFacts, RunResult, RunSpec
from longshift.jsontext import canonical
from longshift.limits import Limits, cents
from longshift.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage, text_of
from longshift.questions import question
from longshift.state import RunState
from longshift.status import Status
from longshift.turns import ModelFailure, Usage
from longshift.view import StateView
from store.runs import RunFigures
from tests.unit.test_audit import OPENED, history, journal


class Page(HTMLParser):
    """A page as a browser reads it: its elements with their texts, and no element left open."""

    VOID = ("meta", "br", "path", "rect")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        """All that is read on it, on one line."""
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of the elements of a kind."""
        return [attributes for name, attributes in self.tags if name == tag]


def kept(name: str) -> Records:
    """The records of a kept history's journal."""
    found = records_of(journal(name))
    assert found is not None
    return found


def sources(name: str, rows: Any = None) -> Sources:
    """What a report is made of where no server answers; the audit has the kept history."""
    rows = journal(name) if rows is None else rows
    checks = audit(name, history(name), rows, {})
    return Sources(name, 2_000_000_000.0, records_of(rows), checks, None, "no server answers here")


@pytest.mark.parametrize("name", OPENED)
def test_the_report_of_every_kept_history_is_a_whole_page_that_tells_its_steps(name: str) -> None:
    records, page = kept(name), Page(run_page(sources(name)))
    result = records.result
    assert result is not None
    assert f"{result.status} : {result.detail}" in page.text
    assert "All that was checked held." in page.text
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    assert {f"step-{call.row.number}" for call in records.model_calls} <= set(ids)
    for call in records.tool_calls:
        assert call.call_id in page.text
        if call.kind == "effect":
            assert f"{name}/{call.model_call}/{call.position}/{call.call_id}" in page.text
    for message in records.messages:
        if message.role in ("system", "user") and message.message is not None:
            assert " ".join(message.message.content.split()) in page.text
    assert len(page.all("svg")) == len(page.all("title")) - 1, "each picture has words"


@pytest.mark.parametrize("name", OPENED)
def test_what_the_pictures_end_with_is_what_the_run_counted(name: str) -> None:
    records = kept(name)
    ends = {one.name: one.used[-1][1] if one.used else 0 for one in budgets.over_time(records)}
    result = records.result
    assert result is not None
    assert ends["model calls"] == result.model_calls
    assert ends["tool calls"] == result.tool_calls
    assert ends["output tokens"] == result.output_tokens
    assert ends["US cents"] == cents(result.exposure)


def test_a_call_is_charged_as_the_loop_charges_it() -> None:
    rows = made(4, "fine")
    rows["model_calls"][0]["output_tokens"] = None  # not reported: all that it was allowed
    rows["model_calls"][3]["output_tokens"] = 9999  # no turn can have so many: it ended the run, and counts nothing
    failure = ModelFailure(kind="invalid_turn", message="cut", transient=False, usage=Usage(output_tokens=9999))
    failed = {"state": "failed", "failure": failure.model_dump_json(), "output_tokens": 9999}
    rows["model_calls"][1] |= {**failed, "body": None}
    rows["model_calls"][2] |= {"state": "sent", "body": None, "ended_at": None, "output_tokens": None}
    found = records_of(rows)
    assert found is not None
    assert [charged(call.row) for call in found.model_calls] == [100, 100, 0, 0]
    assert "Failed (invalid_turn): cut" in run_page(Sources("made", 2e9, found, [], None, ""))


@pytest.mark.parametrize("name", ["windowed", "summarized"])
def test_what_a_window_leaves_is_drawn_within_the_limit(name: str) -> None:
    records = kept(name)
    found = next(one for one in budgets.over_time(records) if one.name == "context bytes")
    drawn = [value for _, value in found.used]
    assert max(drawn) <= records.agent.limits.context_bytes
    assert sorted(drawn) != drawn, "it falls where exchanges leave"
    assert "oldest exchanges were left out" in run_page(sources(name))


def test_limits_are_drawn_as_they_were_raised() -> None:
    records = kept("limits-raised-while-waiting")
    found = budgets.limits_over_time(records)
    assert len(found) > 1
    before, after = found[0][1], found[-1][1]
    changed = {name for name in Limits.model_fields if getattr(before, name) != getattr(after, name)}
    assert changed
    page = Page(run_page(sources("limits-raised-while-waiting")))
    assert "set limits" in page.text
    waits = next(words for words in page.texts if "waits: " in words)
    assert "waits: 0 times" not in waits


def test_a_stop_within_a_batch_names_what_never_ran_and_what_may_have_happened() -> None:
    stopped = Page(run_page(sources("stopped-inside-its-batch")))
    result = kept("stopped-inside-its-batch").result
    assert result is not None
    assert result.unrun_calls
    assert f"Asked for and never run: {', '.join(result.unrun_calls)}" in stopped.text
    lost = Page(run_page(sources("effect-lost-and-ended")))
    assert "May have happened, find out before it is done again: c2 Asked for and never run: c3" in lost.text
    assert "unknown whether it happened" in lost.text or "its outcome is lost" in lost.text


def test_a_changed_row_is_told_by_the_verdict_and_the_rest_is_shown() -> None:
    rows = journal("opening-shift")
    rows["model_calls"][0]["body"] = '{"role": "assistant", "content": 7'
    page = Page(run_page(sources("opening-shift", rows)))
    assert "differs . Something differs, first the chain: message" in page.text
    assert "(the reply is not in the journal)" in page.text
    assert "Model call 3" in page.text


def test_a_run_of_which_nothing_is_in_the_journal_has_a_page_that_says_so() -> None:
    rows: dict[str, list[Any]] = {table: [] for table in journal("told")}
    page = Page(run_page(replace(sources("told", rows), records=None)))
    assert "The journal holds nothing of this shift" in page.text
    assert "UNKNOWN" in page.text
    assert "longshift journal rebuild" in page.text


# Runs that are made here, row by row.

NASTY = "</pre><script>document.title='owned'</script><img src=x onerror=alert(1)>\x1b[2J\u202e&lt;"


def made(exchanges: int, observation: str, said: str = "Looking.", calls: int = 1) -> dict[str, list[dict[str, Any]]]:
    """The rows of a run at work, with so many model calls, of so many reads each."""
    spec = RunSpec(
        agent=AgentSpec(name="long", system="Look."),
        endpoint=EndpointFacts(name="local", kind="replay", model="m", timeout_seconds=5),
        heartbeat_seconds=2,
    )
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in journal("told")}
    run = {"run_id": "made", "agent": "long", "endpoint": "local", "model": "m", "opened_at": 1000.0}
    rows["runs"].append(
        {**run, "spec": canonical(spec.model_dump(mode="json")), "length": 0, "digest": "0" * 64}
        | {"closed_at": None, "status": None, "detail": None, "result": None}
    )
    for message in (SystemMessage(content="Look."), UserMessage(content=said)):
        number, body = len(rows["messages"]), text_of(message)
        rows["messages"].append(
            {"run_id": "made", "number": number, "role": message.role, "body": body, "bytes": len(body), "digest": ""}
        )
    content = observations.ok(observation)
    for number in range(1, exchanges + 1):
        asked = [ToolCall(id=f"c{number}-{n}", name="look", arguments={"at": number}) for n in range(calls)]
        at = 1000.0 + number
        call = {"run_id": "made", "number": number, "context_length": len(rows["messages"]), "context_digest": ""}
        call |= {"tools": True, "allowed": 100, "estimate": 7, "state": "answered", "sender": "w", "started_at": at}
        body = text_of(AssistantMessage(content=said, calls=tuple(asked)))
        call |= {"body": body, "cost": 3, "output_tokens": 9, "ended_at": at + 0.4, "milliseconds": 400}
        rows["model_calls"].append(call)
        place = {"run_id": "made", "turn": number, "role": "assistant", "bytes": len(body), "digest": ""}
        rows["messages"].append({**place, "number": len(rows["messages"])})
        for position, one in enumerate(asked):
            told = text_of(ToolMessage(call_id=one.id, name=one.name, content=content))
            key = {"run_id": "made", "model_call": number, "position": position, "call_id": one.id}
            ran = {"name": "look", "arguments_sha256": "", "kind": "read", "state": "settled", "attempt": "w"}
            times = {"started_at": at + 0.5, "settled_at": at + 0.6, "milliseconds": 100}
            rows["tool_calls"].append({**key, **ran, **times, "body": told, "dispatch": 0, "whole": None})
            place = {"run_id": "made", "call_model": number, "call_position": position, "call_id": one.id}
            size = {"number": len(rows["messages"]), "role": "tool", "bytes": len(told), "digest": ""}
            rows["messages"].append(place | size)
    return rows


def records_made(exchanges: int, observation: str, said: str = "Looking.", calls: int = 1) -> Records:
    """The same, typed."""
    found = records_of(made(exchanges, observation, said, calls))
    assert found is not None
    return found


def test_what_a_tool_or_a_model_says_stays_text() -> None:
    records = records_made(2, NASTY, NASTY)
    text = run_page(Sources(NASTY, 2e9, records, [], None, NASTY))
    page = Page(text)
    assert not page.all("script")
    assert not page.all("img")
    assert "<script>document.title='owned'</script>" in page.text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[2J\\u202e&lt;" in page.text


def test_a_page_allows_no_script_and_loads_nothing() -> None:
    page = Page(run_page(sources("opening-shift")))
    policy = next(one["content"] for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    loading = {"src", "srcset", "style", "data", "poster", "background", "action", "xlink:href"}
    for _, attributes in page.tags:
        assert not loading & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in run_page(sources("opening-shift"))


def test_a_run_of_thousands_of_steps_is_folded_in_blocks_and_shown_whole() -> None:
    found = steps.transcript(records_made(4000, "fine"))
    shown = [one.number for block in found.blocks for one in block.entries if isinstance(one, steps.Step)]
    assert shown == list(range(1, 4001))
    assert found.left is None
    assert found.cut == 0
    assert found.blocks[0].title == "Steps 1 to 100"
    assert len(found.blocks) == 40


def test_of_too_long_a_run_the_middle_is_left_out_and_said() -> None:
    records = records_made(300, "fine", calls=3)
    found = steps.transcript(records, max_parts=400)
    shown = [one for block in found.blocks for one in block.entries]
    numbers = [one.number for one in shown if isinstance(one, steps.Step)]
    left = next(one for one in shown if isinstance(one, steps.Left))
    assert sorted([*numbers, *range(left.first, left.last + 1)]) == list(range(1, 301))
    assert numbers[0] == 1
    assert numbers[-1] == 300
    assert sum(1 + len(one.calls) if isinstance(one, steps.Step) else 1 for one in shown) <= 401


@pytest.mark.parametrize("text", ["x" * 50_000, "<" * 50_000, "\u202e" * 50_000])
def test_texts_are_cut_to_what_a_page_may_hold(text: str) -> None:
    records = records_made(40, text)
    found = steps.transcript(records, max_bytes=500_000)
    assert found.cut == 40
    assert steps.MIN_CHARACTERS <= found.characters < steps.MAX_CHARACTERS
    parts = [
        one for block in found.blocks for step in block.entries if isinstance(step, steps.Step) for one in step.calls
    ]
    for part in parts:
        assert part.observation is not None
        assert len(part.observation.text) == found.characters
        assert part.observation.left_out == 50_000 - found.characters


@pytest.mark.parametrize(
    ("observation", "state", "words"),
    [
        (observations.ok(1), "settled", ("ok", True)),
        (observations.error("refused", "no"), "settled", ("error refused", False)),
        (observations.ok(1), None, ("ok", True)),
        (None, None, ("no observation", False)),
        (None, "fenced", ("surely not run", False)),
        (None, "started", ("under way, or its outcome is lost", False)),
        (observations.error("outcome_unknown", "lost"), "unknown", ("unknown whether it happened", False)),
        ("no json", "settled", ("cannot be read", False)),
    ],
)
def test_an_outcome_in_words(observation: str | None, state: str | None, words: tuple[str, bool]) -> None:
    assert steps.outcome(observation, state) == words


def test_observations_are_shown_as_people_read_them() -> None:
    assert steps.readable(observations.ok("two\nlines")) == "two\nlines"
    assert steps.readable(observations.ok({"a": [1]})) == '{\n  "a": [\n    1\n  ]\n}'
    assert steps.readable(observations.error("refused", "no")) == "refused: no"
    assert steps.readable(observations.told(3, "a person said so")) == "3\n[note: a person said so]"
    assert steps.readable("no json") == "no json"


def test_arguments_are_shown_whole_also_where_they_look_like_an_observation() -> None:
    asked = ToolCall(id="c1-0", name="pay", arguments={"ok": True, "value": "harmless", "cents": 1_000_000})
    rows = made(1, "fine")
    rows["model_calls"][0]["body"] = text_of(AssistantMessage(content="", calls=(asked,)))
    records = records_of(rows)
    assert records is not None
    shown = next(
        one for block in steps.transcript(records).blocks for one in block.entries if isinstance(one, steps.Step)
    )
    assert json.loads(shown.calls[0].arguments.text) == asked.arguments


def _luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _schemes() -> Iterator[dict[str, str]]:
    style = (Path(client.report.__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")
    for block in re.findall(r":root \{([^}]*)\}", style):
        yield dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))


def test_every_text_stands_out_from_its_ground_in_light_dark_and_print() -> None:
    schemes = list(_schemes())
    assert len(schemes) == 3
    for scheme in schemes:
        for name in ("text", "quiet", "link", "well", "bad", "waiting"):
            for ground in ("page", "card"):
                lighter, darker = sorted((_luminance(scheme[name]), _luminance(scheme[ground])), reverse=True)
                assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (name, ground, scheme)  # WCAG AA


# Many runs.


def figures(run_id: str, status: str | None, model_calls: int = 3, exposure: int = 20_000, *held: str) -> RunFigures:
    """A run of the overview."""
    closed = None if status is None else 1_800_000_060.0
    return RunFigures(
        run_id=run_id,
        agent="shop",
        endpoint="local",
        model="m",
        opened_at=1_800_000_000.0,
        closed_at=closed,
        status=status,
        detail="why <b>",
        limits=Limits(),
        model_calls=model_calls,
        tool_calls=2,
        output_tokens=30,
        charged_tokens=30,
        tokens_before=20,
        exposure=exposure,
        budget_needed=exposure,
        last_at=1_800_000_050.0,
        held=held,
    )


def waiting_at_model_calls() -> str:
    """The detail of the decision that a run makes which waits at its model calls."""
    state = RunState(run_id="r", started_at=0, limits=Limits(model_calls=1, on_limit="wait"))
    state.begin_model_call()
    hold = admission.before_model_call(state, 1.0)
    assert isinstance(hold, admission.Hold)
    return canonical({"reason": hold.reason})


def test_an_overview_counts_statuses_spend_steps_and_limits() -> None:
    held = waiting_at_model_calls()
    runs = [
        figures("a", Status.COMPLETED, 3, 10_000, held, held),
        figures("b", Status.COMPLETED, 9, 30_000),
        figures("c", Status.TIME_LIMIT, 5, 0, "no json"),
        figures("d", None),
        figures("e", None),
    ]
    found = overview(runs, 1_799_999_000.0, 1_800_001_000.0, {"d": "WAITING"}, "As the server says.")
    assert dict(found.statuses) == {"COMPLETED": 2, "TIME_LIMIT": 1, "WAITING": 1, NO_END: 1}
    assert found.exposure == 80_000
    assert {one.limit: (one.ended, one.waited) for one in found.bounds} == {"seconds": (1, 0), "model_calls": (0, 1)}
    calls = next(one for one in found.spreads if one.name == "model calls")
    assert (calls.least, calls.middle, calls.nine_tenths, calls.most) == (3, 6, 9, 9)
    assert [row.figures.run_id for row in found.rows] == ["e", "d", "c", "b", "a"]
    page = Page(overview_page(found))
    assert "5 shifts, 8 US cents. As the server says." in page.text
    assert "why <b>" in page.text
    assert not page.all("b")


def test_an_overview_of_nothing_says_so() -> None:
    page = Page(overview_page(overview([], 0.0, 1.0, {}, "")))
    assert "The journal holds no shift that began since then." in page.text


def test_a_run_that_asks_a_person_shows_the_commands_that_answer_and_what_keeps_it() -> None:
    asked = question("approval", ToolCall(id="c1", name="pay", arguments={"cents": 7}), "pay needs approval", 1.0)
    found = Snapshot(
        run_id="made",
        status="WAITING",
        detail="approval of pay <now>",
        agent="long",
        goal="Look.",
        started_at=1000.0,
        closed_at=None,
        stuck="call_model failed once",
        question=asked,
    )
    page = Page(run_page(Sources("made", 1100.0, records_made(2, "fine"), [], found, None)))
    assert "It had not ended, as far as is known, when this page was made." in page.text
    assert "WAITING : approval of pay <now>" in page.text
    assert "longshift approve made c1 longshift deny made c1 --reason TEXT" in page.text
    assert "call_model failed once" in page.text
    assert "took 1 min 40 s" in page.text


def test_a_run_that_is_paused_shows_the_command_that_lets_it_go_on() -> None:
    view = StateView(run_id="made", status="WAITING", phase="waits", commands=("longshift resume made",))
    found = Snapshot("made", "WAITING", "paused", "long", "Look.", 1000.0, None, None, view=view)
    page = Page(run_page(Sources("made", 1100.0, records_made(2, "fine"), [], found, None)))
    assert "It goes on with one of: longshift resume made" in page.text


def test_a_terminated_run_is_told_by_the_server_and_its_journal() -> None:
    result = RunResult(
        run_id="made", status=Status.TERMINATED, detail="by someone", model_calls=2, tool_calls=2, unrun_calls=("c2-0",)
    )
    found = Snapshot("made", "TERMINATED", "by someone", "long", "Look.", 1000.0, 1100.0, None, result=result)
    rows = made(2, "fine")
    rows["tool_calls"][-1] |= {"state": "started", "body": None, "kind": "effect", "settled_at": None}
    page = Page(run_page(Sources("made", 1100.0, records_of(rows), [], found, None)))
    assert "TERMINATED : by someone" in page.text
    assert "May have happened, find out before it is done again: c2-0" in page.text
    assert "made/2/0/c2-0" in page.text
    assert "under way, or its outcome is lost" in page.text


def test_only_a_report_imports_the_templates_engine() -> None:
    probe = "import sys, client.commands.reporting, client.commands.looking; print('jinja2' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == "False\n"
