"""The ledger of effects: what each state allows, and that no order of events runs an effect twice."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longshift.contracts import Entry, RunTool
from longshift.messages import ToolCall
from store.errors import JournalMismatch, JournalUnavailable
from store.journal import Begun, Fenced, Fresh, Journal, Observed
from tests.store.shift import Shift, call, tool_message

pytestmark = pytest.mark.asyncio

ORDER = call("a", "place_order", sku="SKU-VANILLA")
FIRST, OTHER = (Observed(tool_message(ORDER, text), 5, False) for text in ("first", "other"))


def effect(dispatch: int, position: int = 0, run_id: str = "shift-1") -> RunTool:
    """A dispatch of the order at a place of its own."""
    return RunTool(run_id=run_id, model_call=1, position=position, call=ORDER, dispatch=dispatch)


@pytest_asyncio.fixture(autouse=True)
async def opened(shift: Shift) -> None:
    """The run of these effects stands in the journal."""


async def settle(journal: Journal, request: RunTool, observed: Observed) -> Observed:
    return await journal.settle_tool_call(request, "effect", "worker-2", observed, 2000.0, 2000.0)


async def bring(journal: Journal, state: str, request: RunTool) -> None:
    """Bring an effect's row into a state, under the request's dispatch."""
    if state == "fenced":
        await journal.settle_effect(request, 1000.0)
    elif state != "none":
        assert await journal.begin_effect(request, "worker-1", 1000.0, again=False)
    if state == "unknown":
        await journal.leave_unknown(request, 1001.0, "it took too long")
    if state == "settled":
        await settle(journal, request, FIRST)


OPERATIONS: dict[str, Callable[[Journal, RunTool], Awaitable[Any]]] = {
    "begin": lambda journal, request: journal.begin_effect(request, "worker-2", 2000.0, again=False),
    "begin again": lambda journal, request: journal.begin_effect(request, "worker-2", 2000.0, again=True),
    "settle": lambda journal, request: settle(journal, request, OTHER),
    "leave": lambda journal, request: journal.leave_unknown(request, 2000.0, "it took too long"),
    "ask": lambda journal, request: journal.settle_effect(request, 2000.0),
    "resolve": lambda journal, request: journal.resolve_effect(request, OTHER, 2000.0),
    "look": lambda journal, request: journal.effect(request),
}
# What each operation, of dispatch 1, 2 and 3, returns and leaves, by the state that it finds under dispatch 2.
TABLE = {
    "begin": {
        "none": ("yes, started 1", "yes, started 2", "yes, started 3"),
        "fenced": ("no, fenced 2", "no, fenced 2", "yes, started 3"),
        "started": ("no, started 2", "no, started 2", "no, started 2"),
        "unknown": ("no, unknown 2", "no, unknown 2", "no, unknown 2"),
        "settled": ("no, settled 2", "no, settled 2", "no, settled 2"),
    },
    "begin again": {
        "none": ("yes, started 1", "yes, started 2", "yes, started 3"),
        "fenced": ("no, fenced 2", "no, fenced 2", "yes, started 3"),
        "started": ("no, started 2", "no, started 2", "yes, started 3"),
        "unknown": ("no, unknown 2", "no, unknown 2", "yes, started 3"),
        "settled": ("no, settled 2", "no, settled 2", "no, settled 2"),
    },
    "settle": {
        "none": ("other, settled 1", "other, settled 2", "other, settled 3"),
        "fenced": ("mismatch, fenced 2", "mismatch, fenced 2", "mismatch, fenced 2"),
        "started": ("other, settled 2", "other, settled 2", "other, settled 2"),
        "unknown": ("other, settled 2", "other, settled 2", "other, settled 2"),
        "settled": ("first, settled 2", "first, settled 2", "first, settled 2"),
    },
    "leave": {
        "none": ("-, none", "-, none", "-, none"),
        "fenced": ("-, fenced 2", "-, fenced 2", "-, fenced 2"),
        "started": ("-, started 2", "-, unknown 2", "-, started 2"),
        "unknown": ("-, unknown 2", "-, unknown 2", "-, unknown 2"),
        "settled": ("-, settled 2", "-, settled 2", "-, settled 2"),
    },
    "ask": {
        "none": ("below 1, fenced 1", "below 2, fenced 2", "below 3, fenced 3"),
        "fenced": ("below 2, fenced 2", "below 2, fenced 2", "below 3, fenced 3"),
        "started": ("running 2, started 2", "running 2, started 2", "running 3, started 3"),
        "unknown": ("over 2, unknown 2", "over 2, unknown 2", "over 3, unknown 3"),
        "settled": ("first, settled 2", "first, settled 2", "first, settled 2"),
    },
    "resolve": {
        "none": ("other, settled 1", "other, settled 2", "other, settled 3"),
        "fenced": ("mismatch, fenced 2", "mismatch, fenced 2", "mismatch, fenced 2"),
        "started": ("other, settled 2", "other, settled 2", "other, settled 2"),
        "unknown": ("other, settled 2", "other, settled 2", "other, settled 2"),
        "settled": ("first, settled 2", "first, settled 2", "first, settled 2"),
    },
    "look": {
        "none": ("-, none", "-, none", "-, none"),
        "fenced": ("below 2, fenced 2", "below 2, fenced 2", "below 2, fenced 2"),
        "started": ("running 2, started 2", "running 2, started 2", "running 2, started 2"),
        "unknown": ("over 2, unknown 2", "over 2, unknown 2", "over 2, unknown 2"),
        "settled": ("first, settled 2", "first, settled 2", "first, settled 2"),
    },
}


def said(answer: object) -> str:
    """An operation's answer in the words of TABLE."""
    match answer:
        case bool():
            return "yes" if answer else "no"
        case Observed():
            return answer.observation.content
        case Fenced():
            return f"below {answer.dispatch}"
        case Begun():
            assert answer.started_at == 1000.0
            assert answer.why == ("it took too long" if answer.over else None)
            return f"{'over' if answer.over else 'running'} {answer.dispatch}"
        case JournalMismatch():
            return "mismatch"
        case _:
            return "-"


async def attempted(operation: Awaitable[Any]) -> object:
    try:
        return await operation
    except JournalMismatch as error:
        return error


@pytest.mark.parametrize("operation", TABLE)
async def test_every_operation_does_in_every_state_what_the_table_says(journal: Journal, operation: str) -> None:
    seen: dict[str, tuple[str, ...]] = {}
    places = count()
    for state in TABLE[operation]:
        cells = []
        for dispatch in (1, 2, 3):
            position = next(places)
            await bring(journal, state, effect(2, position))
            answer = await attempted(OPERATIONS[operation](journal, effect(dispatch, position)))
            rows = {row.position: f"{row.state} {row.dispatch}" for row in await journal.tool_calls("shift-1")}
            cells.append(f"{said(answer)}, {rows.get(position, 'none')}")
        seen[state] = tuple(cells)
    assert seen == TABLE[operation]


@pytest.mark.parametrize("state", ["fenced", "started", "unknown", "settled"])
@pytest.mark.parametrize("dispatch", [2, 3])
@pytest.mark.parametrize(
    "stranger", [call("a", "cancel_order", sku="SKU-VANILLA"), call("a", "place_order", sku="SKU-MANGO")]
)
async def test_no_operation_touches_the_row_of_another_call(
    journal: Journal, state: str, dispatch: int, stranger: ToolCall
) -> None:
    await bring(journal, state, effect(2))
    (before,) = await journal.tool_calls("shift-1")
    request = effect(dispatch).model_copy(update={"call": stranger})
    answers = {name: said(await attempted(run(journal, request))) for name, run in OPERATIONS.items()}
    assert answers == {
        "begin": "no",
        "begin again": "no",
        "settle": "mismatch",
        "leave": "-",
        "ask": "mismatch",
        "resolve": "mismatch",
        "look": "-",
    }
    assert await journal.stored_observation(request) is None
    assert await journal.tool_calls("shift-1") == [before]


@pytest.mark.parametrize("operation", ["begin", "begin again", "ask", "look"])
async def test_a_journal_that_a_run_was_not_opened_in_says_nothing_of_its_effects(
    journal: Journal, operation: str
) -> None:
    """It may have been made anew since, and the effect made before."""
    with pytest.raises(JournalUnavailable, match="is empty or another one, and holds nothing of run 'elsewhere'"):
        await OPERATIONS[operation](journal, effect(1, run_id="elsewhere"))
    assert await journal.tool_calls("elsewhere") == []


async def test_an_outcome_of_a_fenced_effect_is_refused_with_its_reason(journal: Journal) -> None:
    await journal.settle_effect(effect(2), 1000.0)
    with pytest.raises(JournalMismatch, match="of 'place_order', was given up before it began, up to dispatch 2: "):
        await settle(journal, effect(2), FIRST)


async def test_a_row_tells_of_its_latest_dispatch(journal: Journal) -> None:
    await journal.settle_effect(effect(0), 1000.0)
    (row,) = await journal.tool_calls("shift-1")
    assert (row.kind, row.attempt, row.started_at, row.settled_at, row.note) == ("effect", "", 1000.0, None, None)
    assert await journal.begin_effect(effect(1), "worker-1", 1001.0, again=True)
    await journal.leave_unknown(effect(1), 1002.0, "its time\0ran out")
    (row,) = await journal.tool_calls("shift-1")
    assert (row.attempt, row.started_at, row.settled_at, row.note) == (
        "worker-1",
        1001.0,
        1002.0,
        "its time\ufffdran out",
    )
    assert await journal.begin_effect(effect(2), "worker-2", 1003.0, again=True)
    (row,) = await journal.tool_calls("shift-1")
    assert (row.attempt, row.started_at, row.settled_at, row.note) == ("worker-2", 1003.0, None, None)
    await journal.leave_unknown(effect(2), 1004.0, "its time ran out")
    assert await journal.resolve_effect(effect(2), FIRST, 1005.0) == FIRST
    (row,) = await journal.tool_calls("shift-1")
    assert (row.attempt, row.started_at, row.settled_at, row.note) == ("a person", 1003.0, 1005.0, "its time ran out")
    assert await journal.stored_observation(effect(2)) == FIRST


async def test_an_effect_that_was_fenced_and_begun_afresh_gets_into_the_transcript(
    shift: Shift, journal: Journal
) -> None:
    await shift.turn("I order.", ORDER)
    lost = shift.dispatch(0, ORDER)
    assert await journal.settle_effect(lost, 1010.0) == Fenced(0)
    afresh = lost.model_copy(update={"dispatch": 1})
    assert await journal.begin_effect(afresh, "worker-1", 1011.0, again=False)
    assert not await journal.begin_effect(lost, "worker-2", 1012.0, again=False)
    await settle(journal, afresh, FIRST)
    shift.add(FIRST.observation, Entry(call=(1, 0)))
    await shift.turn("It is ordered.")
    await shift.close()
    assert await journal.transcript("shift-1", shift.head) == shift.messages
    assert await journal.verify_chain("shift-1") is None


async def test_effects_without_an_outcome_outlive_a_reset_and_are_in_no_transcript(
    shift: Shift, journal: Journal
) -> None:
    reset = shift.fork()
    calls = [call("a", "place_order"), call("b", "place_order"), call("c", "list_stock")]
    await shift.turn("I order.", *calls)
    fenced, begun, _ = (shift.dispatch(position, asked) for position, asked in enumerate(calls))
    await journal.settle_effect(fenced, 1010.0)
    assert await journal.begin_effect(begun, "worker-1", 1010.0, again=False)
    await journal.leave_unknown(begun, 1011.0, "it took too long")
    for asked in calls[:2]:
        told = tool_message(asked, "not known")
        shift.add(told, Entry(message=told))
    await shift.observe(2, calls[2], "[]")
    await shift.turn("I do not know.")
    await shift.close()
    assert await journal.transcript("shift-1", shift.head) == shift.messages

    reset.say("Order some.")
    await reset.turn("I order.", *calls)
    assert [(row.call_id, row.state) for row in await journal.tool_calls("shift-1")] == [
        ("a", "fenced"),
        ("b", "unknown"),
    ]
    for request in (fenced, begun):
        assert not await journal.begin_effect(request, "worker-3", 2000.0, again=False)
    assert await journal.settle_effect(fenced, 2000.0) == Fenced(0)
    assert await journal.settle_effect(begun, 2000.0) == Begun(0, 1010.0, True, "it took too long")
    again = calls[0].model_copy(update={"arguments": {"sku": "SKU-MANGO"}})  # an id that repeats after the reset
    with pytest.raises(JournalMismatch, match="held by another call, of 'place_order', made before the run was reset"):
        await journal.settle_effect(reset.dispatch(0, again), 2000.0)
    not_run = tool_message(calls[0], "not run")
    reset.add(not_run, Entry(message=not_run))
    happened = Observed(tool_message(calls[1], "it happened"), 0, False)
    assert await journal.resolve_effect(begun, happened, 2001.0) == happened
    reset.add(happened.observation, Entry(call=(1, 1)))
    assert await reset.begin(reset.request()) == Fresh()
    assert await journal.transcript("shift-1", reset.head) == reset.messages


async def test_a_begin_whose_commit_was_lost_with_the_connection_is_repeated_by_its_own_attempt(
    journal: Journal,
) -> None:
    request = effect(0)
    assert [await journal.begin_effect(request, "run/tool-1", 1.0, again=False) for _ in range(2)] == [True, True]
    assert not await journal.begin_effect(request, "run/tool-1-again-1", 2.0, again=False)


async def test_a_worker_that_stood_still_takes_its_own_dispatch_back(journal: Journal) -> None:
    assert await journal.begin_effect(effect(0), "worker-1", 1.0, again=False)
    await journal.withdraw_effect(effect(1))  # of another dispatch: nothing happens
    assert isinstance(await journal.settle_effect(effect(0), 2.0), Begun)
    await journal.withdraw_effect(effect(0))
    assert await journal.settle_effect(effect(0), 3.0) == Fenced(0)
    assert not await journal.begin_effect(effect(0), "worker-2", 4.0, again=False)
    assert await journal.begin_effect(effect(1), "worker-2", 5.0, again=False)


RUNS = count()
EVENTS = st.lists(
    st.tuples(st.sampled_from(["begin", "settle", "leave", "ask", "resolve"]), st.integers(0, 3)), max_size=12
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS, st.booleans())
async def test_no_order_of_events_runs_an_effect_twice_or_changes_what_was_told(
    journal: Journal, events: list[tuple[str, int]], again: bool
) -> None:
    run_id = f"run-{next(RUNS)}"
    await Shift(journal, run_id).open()
    began: list[int] = []
    given_up, over = -1, False
    told: Observed | None = None
    for number, (event, dispatch) in enumerate(events):
        request, now = effect(dispatch, run_id=run_id), float(number)
        observed = Observed(tool_message(ORDER, f"{event} {number}"), number, False)
        barred = max([given_up, *began])
        match event:
            case "begin":  # a worker has the task in hand, early or late
                may = told is None and dispatch > barred and (again or not began)
                assert await journal.begin_effect(request, f"worker-{number}", now, again=again) == may
                if may:
                    began.append(dispatch)
                    over = False
            case "settle" if dispatch in began:  # only a handler that ran can report
                told = told or observed
                assert await settle(journal, request, observed) == told
            case "leave" if dispatch in began:
                await journal.leave_unknown(request, now, "it took too long")
                over = over or dispatch == barred
            case "ask":
                given_up = max(given_up, dispatch)
                standing = await journal.settle_effect(request, now)
                if told:
                    assert standing == told
                elif began:
                    assert isinstance(standing, Begun)
                    assert (standing.dispatch, standing.over) == (max([given_up, *began]), over)
                else:
                    assert standing == Fenced(given_up)
            case "resolve" if told is None and not began and given_up >= 0:
                with pytest.raises(JournalMismatch, match="was given up before it began"):
                    await journal.resolve_effect(request, observed, now)
            case "resolve":
                told = told or observed
                assert await journal.resolve_effect(request, observed, now) == told
        assert await journal.stored_observation(request) == told
    assert again or len(began) <= 1
    assert len(await journal.tool_calls(run_id)) <= 1
