"""The audit of kept histories: the journal that follows from one holds, and whatever is changed in it is found."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter

from client.audit import Evidence
from client.audit_reading import Recording, TemporalRun, decoded, history_in
from client.errors import Unreadable
from client.happenings import Happening
from longshift.audit.checks import Check, audit
from longshift.audit.columns import written
from longshift.audit.history import History
from longshift.audit.rebuilding import rebuilt
from longshift.audit.sides import REBUILT, TABLES, Sides
from worker.plugin import PayloadConverter

HISTORIES = Path(__file__).parents[1] / "histories"
NAMES = sorted(
    {file.stem.partition("-1")[0] if "chain" in file.stem else file.stem for file in HISTORIES.glob("*.json")}
)
NAMES = [name for name in NAMES if not name.startswith("chain-")]
OPENED = [name for name in NAMES if name != "refused"]
"""Those of runs that a journal holds something of."""
CONVERTER = DataConverter(payload_converter_class=PayloadConverter)
Journal = dict[str, list[dict[str, Any]]]


async def _each(history: WorkflowHistory) -> AsyncIterator[HistoryEvent]:
    for event in history.events:
        yield event


@cache
def recording(name: str) -> Recording:
    """A kept history, as a server would have it."""
    files = sorted(HISTORIES.glob("chain-?.json")) if name == "chain" else [HISTORIES / f"{name}.json"]
    runs: list[TemporalRun] = []
    for file in files:
        history = WorkflowHistory.from_json(name, file.read_text(encoding="utf-8"))
        started = history.events[0].workflow_execution_started_event_attributes
        runs.append(asyncio.run(decoded(started.original_execution_run_id, _each(history), CONVERTER)))
    return Recording(runs[-1].run, tuple(runs))


@cache
def history(name: str) -> History:
    """Its facts."""
    return history_in(recording(name))


@cache
def _journal(name: str) -> Journal:
    return rebuilt(Sides(name, history(name), None), now=1.0).rows


def journal(name: str) -> Journal:
    """The journal that follows from it; yours to change."""
    return copy.deepcopy(_journal(name))


def differing(checks: list[Check]) -> list[str]:
    """The names of the checks that did not hold."""
    return [check.name for check in checks if check.verdict == "differs"]


def texts(checks: list[Check]) -> str:
    """All that differs, in words."""
    return "; ".join(f"{check.name}: {check.text}" for check in checks if check.verdict == "differs")


@pytest.mark.parametrize("name", NAMES)
def test_the_journal_that_follows_from_a_history_holds(name: str) -> None:
    checks = audit(name, history(name), journal(name), {})
    assert texts(checks) == ""
    assert {check.name for check in checks} >= {"history", "chain", "episode", "counters", "effects"}


@pytest.mark.parametrize("name", OPENED)
def test_a_journal_without_a_row_of_the_run_is_found_where_the_run_was_opened(name: str) -> None:
    checks = audit(name, history(name), {table: [] for table in TABLES}, {})
    assert "chain" in differing(checks)
    assert "longshift journal rebuild" in texts(checks)


def test_a_run_that_never_began_has_no_row() -> None:
    assert differing(audit("refused", history("refused"), {table: [] for table in TABLES}, {})) == []
    foreign = journal("told") | {"messages": []}
    assert "runs" in differing(audit("refused", history("refused"), foreign, {}))


# What is changed in a journal.

FREE: Mapping[tuple[str, str], str] = {
    ("runs", "closed_at"): "a worker's clock",
    ("model_calls", "started_at"): "a worker's clock",
    ("model_calls", "ended_at"): "a worker's clock",
    ("model_calls", "reserved"): "what a fund holds follows from the operator's price, which is in no history",
    ("tool_calls", "started_at"): "a worker's clock",
    ("tool_calls", "settled_at"): "a worker's clock",
    ("decisions of the journal's own", "at"): "the clock of who rebuilt it",
    ("tool_calls without an outcome", "note"): "a worker that was lost may have said why to the journal alone",
    ("tool_calls without an outcome", "dispatch"): "of several dispatches the workflow does not know which began",
}
"""What may be changed, to another value of its kind, without being found, and why."""


def is_free(table: str, row: Mapping[str, Any], column: str) -> bool:
    """Whether nothing but the journal says it."""
    of = [table]
    if table == "decisions" and row["ordinal"] is None:
        of = ["decisions of the journal's own"]
    if table == "tool_calls" and row["state"] in ("unknown", "started"):
        of.append("tool_calls without an outcome")
    return any((one, column) in FREE for one in of)


def changed(value: Any, draw: st.DataObject) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.draw(st.integers(0, 2**40).filter(lambda other: other != value))
    if isinstance(value, float):
        return draw.draw(st.floats(0, 2**31).filter(lambda other: other != value))
    if value is None:
        return draw.draw(st.sampled_from([1, "x", "{}", True]))
    if isinstance(value, str):
        return draw.draw(st.one_of(st.just(value + " "), st.just(value[:-1]), _inside(value), st.text())).__str__()
    raise AssertionError(f"{value!r} is no value of a column")


def _inside(text: str) -> st.SearchStrategy[str]:
    """The same JSON with one of its values changed."""
    try:
        leaves = list(_leaves(json.loads(text)))
    except ValueError:
        return st.nothing()
    if not leaves or not isinstance(json.loads(text), (dict, list)):
        return st.nothing()
    return st.sampled_from(leaves).map(lambda path: _with_other(text, path))


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not isinstance(value, (dict, list)):
        yield path
    for key, one in inner:
        yield from _leaves(one, (*path, key))


def _other(value: Any) -> Any:
    return not value if isinstance(value, bool) else value + 1 if isinstance(value, (int, float)) else f"{value or ''}x"


def _with_other(text: str, path: tuple[Any, ...]) -> str:
    document = json.loads(text)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = _other(place[path[-1]])
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


FIELDS = [
    (name, table, number, column)
    for name in OPENED
    for table, rows in _journal(name).items()
    for number, row in enumerate(rows)
    for column in row
    if not is_free(table, row, column)
]


@settings(max_examples=150, deadline=None)
@given(draw=st.data())
def test_any_changed_field_of_any_row_is_found(draw: st.DataObject) -> None:
    name, table, number, column = draw.draw(st.sampled_from(FIELDS))
    rows = journal(name)
    before = rows[table][number][column]
    after = changed(before, draw)
    if after == before and isinstance(after, bool) == isinstance(before, bool):
        return
    rows[table][number][column] = after
    found = differing(audit(name, history(name), rows, {}))
    assert found, f"{name}: {table} {number} {column}: {before!r} became {after!r}"


RICH = ["opening-shift", "chain", "outcomes-resolved", "fund-used-up", "retries-after-failures"]
"""Histories that between them have a row of each kind."""


@pytest.mark.parametrize("name", RICH)
def test_a_row_that_is_missing_or_stands_twice_is_found(name: str) -> None:
    for table, rows in journal(name).items():
        for number, row in enumerate(rows):
            own = table == "decisions" and row["ordinal"] is None
            without, twice = journal(name), journal(name)
            del without[table][number]
            twice[table].append(dict(row))
            assert own or differing(audit(name, history(name), without, {})), (table, row)
            assert differing(audit(name, history(name), twice, {})), (table, row)


def test_a_row_may_be_missing_of_which_nobody_told_the_workflow_that_it_was_written() -> None:
    rows = journal("stopped-now")
    assert [row["state"] for row in rows["model_calls"]] == ["sent"]
    rows["model_calls"].clear()
    assert texts(audit("stopped-now", history("stopped-now"), rows, {})) == ""


@pytest.mark.parametrize("name", RICH)
def test_a_row_that_follows_from_nothing_is_found(name: str) -> None:
    for table, keys in TABLES.items():
        rows = journal(name)
        if not rows[table] or not keys:
            continue
        made_up = dict(rows[table][-1])
        for key in keys:
            made_up[key] = f"{made_up[key]}x" if isinstance(made_up[key], str) else (made_up[key] or 0) + 7
        rows[table].append(made_up)
        assert table.replace("_", " ") in differing(audit(name, history(name), rows, {}))


# What is changed in a history.

RESULTS = "ACTIVITY_TASK_COMPLETED"
NOT_OF_THE_JOURNAL: Mapping[str, str] = {
    "recalled": "the journal's memory as it was told, which the turn that repeats a call was judged by",
    "refused": "why a call needs no person, which its observation tells",
    "unknown": "words on an outcome that is settled since",
}
"""Fields of results that no row holds."""


def tampered(name: str, run: int, event: int, path: tuple[Any, ...]) -> Recording:
    """A recording with one value of one event changed."""
    recorded = recording(name)
    old = recorded.runs[run].events[event]
    text = _with_other(json.dumps(old.values), path)
    events = list(recorded.runs[run].events)
    events[event] = replace(old, values=tuple(json.loads(text)))
    runs = list(recorded.runs)
    runs[run] = replace(runs[run], events=tuple(events))
    return replace(recorded, runs=tuple(runs))


def found_in(name: str, changed: Recording) -> bool:
    """Whether an audit of a changed history finds something. What is no value of ours any more cannot be read."""
    try:
        return bool(differing(audit(name, history_in(changed), journal(name), {})))
    except Unreadable:
        return True


def _told(event: Happening) -> list[tuple[Any, ...]]:
    return [
        path for path in _leaves(list(event.values)) if path and path[1:2] != () and path[1] not in NOT_OF_THE_JOURNAL
    ]


TOLD = [
    (name, run, number, path)
    for name in OPENED
    for run, events in enumerate(one.events for one in recording(name).runs)
    for number, event in enumerate(events)
    if event.event == RESULTS
    for path in _told(event)
]


@settings(max_examples=100, deadline=None)
@given(place=st.sampled_from(TOLD))
def test_any_changed_value_of_what_an_activity_brought_is_found(place: tuple[str, int, int, tuple[Any, ...]]) -> None:
    assert found_in(place[0], tampered(*place)), place


@pytest.mark.parametrize("name", ["opening-shift", "chain", "outcomes-resolved"])
def test_an_event_that_is_missing_is_found(name: str) -> None:
    recorded = recording(name)
    for number in range(len(recorded.runs[0].events) - 1):
        events = recorded.runs[0].events[:number] + recorded.runs[0].events[number + 1 :]
        cut = replace(recorded, runs=(replace(recorded.runs[0], events=events), *recorded.runs[1:]))
        assert found_in(name, cut), number


def test_a_part_of_a_chain_that_is_gone_is_said_and_the_rest_still_checked() -> None:
    recorded = recording("chain")
    short = Recording(recorded.latest, recorded.runs[1:], (recorded.runs[0].run,))
    checks = audit("chain", history_in(short), journal("chain"), {})
    assert texts(checks) == ""
    assert "not checked: 1 part that the server keeps no longer" in checks[0].text
    rows = journal("chain")
    rows["messages"][-1]["digest"] = "0" * 64
    assert "messages" in differing(audit("chain", history_in(short), rows, {}))


def test_without_a_history_the_journal_alone_is_checked() -> None:
    checks = audit("told", None, journal("told"), {"history": "the server keeps it no longer"})
    assert texts(checks) == ""
    assert {check.name for check in checks if check.verdict == "not checked"} == {
        "history", "runs", "messages", "model calls", "tool calls", "decisions", "remembered", "counters",
    }  # fmt: skip
    rows = journal("told")
    rows["messages"][1]["body"] = rows["messages"][1]["body"].replace("Begin", "Begun")
    assert differing(audit("told", None, rows, {})) == ["chain"]


def test_without_a_journal_the_history_alone_is_checked() -> None:
    checks = audit("told", history("told"), None, {"journal": "there is none"})
    assert texts(checks) == ""
    held = {check.name for check in checks if check.verdict == "held"}
    assert held == {"history", "episode", "counters"}


@pytest.mark.parametrize("name", ["opening-shift", "outcomes-resolved", "retries-after-failures", "stopped-now"])
def test_a_run_that_goes_on_while_it_is_audited_holds_at_every_moment(name: str) -> None:
    """Its journal is read once `known` events are there and before `read`; its history afterwards, to the end."""
    whole = recording(name)
    (run,) = whole.runs
    for known in range(2, len(run.events) + 1):
        for read in {known, min(known + 7, len(run.events))}:
            there = Recording(run.run, (replace(run, events=run.events[:read]),))
            rows = rebuilt(Sides(name, history_in(there), None), now=1.0).rows
            checks = Evidence(name, whole, {run.run: known}, rows).checks()
            assert texts(checks) == "", (known, read)


def test_what_is_made_of_a_history_says_so() -> None:
    made = rebuilt(Sides("told", history("told"), None), now=5.0)
    last = made.rows["decisions"][-1]
    assert (last["kind"], last["at"], last["detail"]) == (REBUILT, 5.0, '{"lost":{}}')
    again = rebuilt(Sides("told", history("told"), made.rows), now=6.0)
    assert not again.changed


def test_what_a_worker_wrote_that_was_given_up_is_no_difference() -> None:
    """Its reply stands in the journal, and never became a message; what it cannot be is found all the same."""
    rows = journal("stopped-now")
    late = rows["model_calls"][0]
    late |= {
        "state": "answered",
        "body": '{"calls":[],"content":"Too late.","role":"assistant"}',
        "stop_reason": "stop",
        "output_tokens": 3,
        "usage": '{"output_tokens":3}',
        "milliseconds": 12,
        "ended_at": 99.0,
    }
    checks = audit("stopped-now", history("stopped-now"), rows, {})
    assert texts(checks) == ""
    assert "of 1 the workflow never heard what came of it" in next(c.text for c in checks if c.name == "model calls")
    for column, value in (
        ("body", "no message"),
        ("allowed", 1),
        ("sender", "nobody"),
        ("failure", "{}"),
        ("cost", "1"),
    ):
        assert differing(
            audit("stopped-now", history("stopped-now"), rows | {"model_calls": [late | {column: value}]}, {})
        )


def test_an_attempt_stands_with_the_time_at_which_it_began() -> None:
    """Rows of earlier versions have another one or none; neither row may be another attempt's."""
    rows = journal("opening-shift")
    for table, column in (("model_calls", "sender"), ("tool_calls", "attempt")):
        known = rows[table][0][column]  # as an earlier version wrote it
        run, activity_id = known.split("/")
        this = f"{run[-12:]}/{activity_id}"
        for held, differs in (
            (known, False),
            (f"{known}/2026-12-01T02:30:55.123456+00:00", False),
            (f"{this}/1796096055123456", False),
            (f"{this[1:]}/1796096055123456", True),
            (f"{this}0/1796096055123456", True),
            (f"{this}/-1", True),
            (f"{known}/soon", True),
            (f"{known}/2026-12-01T02:30:55", True),
            (f"nobody/{known}", True),
            ("a person/2026-12-01T02:30:55+00:00", True),
        ):
            changed = [rows[table][0] | {column: held}, *rows[table][1:]]
            checks = audit("opening-shift", history("opening-shift"), rows | {table: changed}, {})
            assert bool(differing(checks)) is differs, (column, held)


def test_a_detail_is_another_once_true_is_1_and_one_that_no_parser_takes_is_only_another() -> None:
    assert written('{"a":true,"b":1}').fits('{"b":1,"a":true}')
    assert not written('{"a":true}').fits('{"a":1   }')
    assert not written(json.dumps("x" * 100_000)).fits("[" * 100_002)
