"""The bench's own arithmetic: what is made of what was measured."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

from bench import document, script, series, table
from bench.histories import Chain, Weighed
from bench.samples import Crowd, Gauge, Results, Resume, Sample, together
from bench.stores import used_bytes


def sample(
    subject: str = "floor",
    steps: int = 4,
    *,
    round_: int = 1,
    wall: float = 1.0,
    began: Sequence[float] | None = None,
    gauges: Sequence[Gauge] = (),
    history: Weighed | None = None,
    failure: str | None = None,
) -> Sample:
    """A shift whose steps take a second each, where nothing else is said."""
    return Sample(
        subject=subject,
        steps=steps,
        round=round_,
        wall=wall,
        cpu=wall / 2,
        peak=10**8,
        stored=0,
        began=list(range(steps + 1) if began is None else began),
        gauges=list(gauges),
        history=history,
        failure=failure,
    )


def gauge(at: float, stored: int) -> Gauge:
    return Gauge(at=at, resident=10**8, files=20, stored=stored)


def test_the_script_is_of_the_sizes_it_says_and_knows_its_task_again() -> None:
    assert [len(script.remark(7)), len(script.part(7))] == [script.REMARK_BYTES, script.OBSERVATION_BYTES]
    assert script.asked(script.task(5000)) == 5000
    with pytest.raises(ValueError, match="no task of ours"):
        script.asked("Say what you found.")


def test_windows_of_steps_follow_on_each_other_and_widen() -> None:
    windows = series.windows(1000)
    assert [end for _, end in windows[:-1]] == [start for start, _ in windows[1:]]
    widths = [end - start for start, end in windows]
    assert widths[0] == series.NARROWEST
    assert widths[:-1] == sorted(widths[:-1])
    assert max(widths) > 100


def test_a_step_lasts_until_the_next_model_call_and_what_follows_the_last_step_is_none() -> None:
    answered = sample(steps=2, began=[10, 11, 14])
    assert series.step_seconds(answered) == [1, 3]
    assert series.step_seconds(sample(steps=2, began=[10, 11])) == [1]


def test_a_shift_that_ended_early_reached_the_steps_it_began() -> None:
    assert sample(steps=10, began=[1, 2, 3], failure="gone").reached == 3
    assert sample(steps=2, began=[1, 2, 3]).reached == 2  # the third was for the answer


def test_a_database_grew_from_the_last_look_before_a_step_to_that_before_another() -> None:
    own = sample(steps=10, gauges=[gauge(1.5, 100), gauge(5.5, 500), gauge(9.5, 1000)])
    assert series.stored_between(own, 2, 6) == 100  # from 100 bytes to 500 in four steps
    assert series.stored_between(own, 0, 6) == 0  # nobody looked before the first
    assert series.gauge_at(own, 0) is None


def test_the_bytes_of_a_step_are_those_of_history_and_database_together() -> None:
    history = Weighed(events=0, bytes=0, runs=1, largest_run=0, longest_run=0, by_step=[3000] * 10)
    looks = [gauge(step - 0.5, 1000 * step) for step in range(12)]
    own = sample(steps=10, gauges=looks, history=history)
    assert series.bytes_by_step(own) == [(3, 4000), (8, 4000)]
    drawn = series.panels([own], {"floor": "the floor"})
    assert [list(panel["series"]) for panel in drawn] == [["the floor"]] * 2  # type: ignore[call-overload]


def test_the_furthest_shift_of_each_subject_tells_the_cost_by_step() -> None:
    short, long, other = sample(steps=4), sample(steps=9), sample("longshift", 2)
    assert series.longest([short, long, other]) == {"floor": long, "longshift": other}


def test_a_ratio_is_to_the_floor_of_the_same_round() -> None:
    floors = {1: sample(wall=1), 2: sample(round_=2, wall=4)}
    ours = [sample("longshift", wall=1.5), sample("longshift", round_=2, wall=5), sample("longshift", round_=3, wall=9)]
    assert table.ratio(ours, floors, lambda s: s.wall) == "1.38 (1.25 to 1.50)"
    assert table.ratio(ours[2:], floors, lambda s: s.wall) == ""


def test_a_failure_is_told_with_its_step_and_cannot_break_the_table() -> None:
    good, bad = sample(steps=10), sample(steps=10, began=[1, 2, 3], failure="a | b")
    assert table.ended([good]) == "well"
    assert table.ended([good, bad]) == "**step 3**: a / b"


def test_the_table_is_the_same_of_figures_read_again() -> None:
    history = Weighed(events=50, bytes=12_000, runs=1, largest_run=12_000, longest_run=50, by_step=[3000] * 4)
    crowd = Crowd(
        subject="longshift", workers=2, shifts=50, steps=10, round=1, wall=10, cpu=5, peak=10**8, slowest=9, failed=0
    )
    results = Results(
        machine={"Python": "3.11.7"},
        shifts=[sample(history=history), sample("longshift", wall=1.2, history=history), sample("dbos", wall=0.5)],
        crowds=[crowd],
        resumes=[Resume(subject="longshift", steps=50, round=1, seconds=12.5, heartbeat=10)],
    )
    lines = list(table.lines(results))
    assert lines == list(table.lines(Results.model_validate_json(results.model_dump_json())))
    parts = [
        results.model_copy(update={"shifts": results.shifts[:1], "resumes": []}),
        Results(shifts=results.shifts[1:]),
    ]
    parts.append(Results(resumes=results.resumes))
    assert lines == list(table.lines(together(parts)))
    commits = [Results(machine={"commit": commit}) for commit in ("a1", "b2", "a1")]
    assert together([results, *commits]).machine == {"Python": "3.11.7", "commit": "a1, b2"}
    ours = next(line for line in lines if line.startswith("| Longshift |"))
    assert ours.startswith("| Longshift | 300.0 | 1.20 | 150.0 | 1.20 | 3,000 | 1.00 | 12.5 |")
    assert "| Longshift | 2 | 50 | 50 | 10.0 | 100 | 9.0 | 0 |" in lines
    assert "| Longshift | 12.5 (12.5 to 12.5) | 10 | 2.5 |" in lines


def test_figures_are_written_between_their_marks_and_replace_those_before() -> None:
    page = f"# Cost\n\n{document.BEGIN}\n\nold\n\n{document.END}\n\nEnd.\n"
    once = document.filled(page, ["new"])
    assert once == page.replace("old", "new")
    assert document.filled(once, ["new"]) == once
    with pytest.raises(ValueError, match="no place for figures"):
        document.filled("# Cost\n", ["new"])


def test_the_page_has_a_place_for_the_figures() -> None:
    assert "| new |" in document.filled(document.PAGE.read_text(encoding="utf-8"), ["| new |"])


def test_a_history_is_weighed_from_one_model_call_to_the_next_over_all_runs() -> None:
    def scheduled(name: str) -> HistoryEvent:
        event = HistoryEvent(event_type=EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
        event.activity_task_scheduled_event_attributes.activity_type.name = name
        return event

    opening, model, tool = scheduled("open_run"), scheduled("call_model"), scheduled("run_tool")
    first = WorkflowHistory("w", [opening, model, tool, tool])
    second = WorkflowHistory("w", [opening, model, tool])
    weighed = Chain([first, second], "call_model").weigh(2)
    sizes = [event.ByteSize() for event in (opening, model, tool)]
    assert weighed.by_step == [sizes[1] + 2 * sizes[2] + sizes[0], sizes[1] + sizes[2]]
    assert (weighed.runs, weighed.events, weighed.longest_run) == (2, 7, 4)
    assert weighed.bytes == sum(event.ByteSize() for event in (*first.events, *second.events))


def test_a_database_weighs_what_is_in_use_while_it_is_open_and_in_its_log(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "one.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE bodies (body BLOB)")
        empty = used_bytes(tmp_path)
        connection.execute("INSERT INTO bodies VALUES (zeroblob(1000000))")
        assert 990_000 < used_bytes(tmp_path) - empty < 1_100_000  # in whole pages
        connection.execute("DELETE FROM bodies")
        assert used_bytes(tmp_path) == empty
