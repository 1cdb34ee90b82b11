"""What a person sees of shifts in the Temporal UI: a real server, worker and browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.acceptance.commands import PATIENCE
from tests.acceptance.ui_scene import (
    ANSWERED,
    ASKING,
    LIMITED,
    ORDERS,
    STOPPED,
    TASK,
    Window,
    shifts_kept_up,
    window,
)

pytestmark = [pytest.mark.slow, pytest.mark.browser]

STORY = (
    "open the run of agent buyer",
    "#1 model call",
    "#1.0 list_stock {}",
    "#2 model call after 1 ok; 24 tokens so far",
    '#2.0 draft_order {"quantity":60,"sku":"SKU-VANILLA"}',
    '#2.1 draft_order {"quantity":4,"sku":"SKU-STRAWBERRY"}',
    "#3 model call after 1 ok, draft_order refused; 85 tokens so far",
    '#3.0 effect place_order {"quantity":6,"sku":"SKU-VANILLA"}',
)
"""The summaries of the shift that asks, in their order."""
COUNTERS = {
    "model calls": ("3", "8", "37 %"),
    "tool calls": ("4", "16", "25 %"),
    "output tokens": ("143", "4,096", "3 %"),
    "money, US cents": ("12", "100", "12 %"),
}
"""What it has used, what it may, and how much that is."""


@pytest.fixture(scope="module")
def seen(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    """A window on the UI, behind which the shifts stand as they are."""
    expect.set_options(timeout=PATIENCE * 1000)
    with shifts_kept_up(tmp_path_factory.mktemp("up")) as up, window(chromium, up) as seen:
        yield seen


def test_the_list_tells_how_shifts_ended_and_what_they_wait_for(seen: Window) -> None:
    rows = seen.list()
    seen.add_columns()
    stands = {
        ANSWERED: ("Completed", "COMPLETED"),
        STOPPED: ("Completed", "STOP_REQUESTED"),
        LIMITED: ("Failed", "MODEL_CALL_LIMIT"),
        ASKING: ("Running", "WAITING", "approval", "12"),
    }
    expect(rows).to_have_count(len(stands))
    for run_id, shown in stands.items():
        row = rows.filter(has_text=run_id)
        for text in shown:
            expect(row.get_by_text(text, exact=True).first).to_be_visible()


@pytest.mark.parametrize(
    ("query", "run_id"),
    [
        ('LongshiftStatus="STOP_REQUESTED"', STOPPED),
        ('LongshiftWaitsFor="approval" AND LongshiftSpentCents>=12', ASKING),
    ],
)
def test_a_query_finds_shifts_by_how_they_stand(query: str, run_id: str, seen: Window) -> None:
    rows = seen.list(query)
    expect(rows).to_have_count(1)
    expect(rows.get_by_role("link", name=run_id)).to_be_visible()


def test_timeline_and_history_read_as_the_story_of_the_shift(seen: Window) -> None:
    seen.open(ASKING)
    graph = seen.timeline()
    for line in STORY:
        expect(graph.get_by_text(line, exact=False).first).to_be_visible()
    expect(graph.get_by_text("approve", exact=True)).to_be_visible()
    expect(graph.get_by_text("deadline of the run")).to_be_visible()

    rows = seen.history()
    told = rows.filter(has=seen.page.get_by_text("Summary", exact=True)).filter(has_text="run_tool")
    expect(told).to_have_count(4)
    shown = [row for row in rows.all_inner_texts() if "check_attributes" not in row]
    places = [next(place for place, row in enumerate(shown) if line in row.split("\n")) for line in STORY]
    assert places == sorted(places)


def test_the_metadata_of_a_waiting_shift_say_what_it_uses_and_which_command_answers_it(seen: Window) -> None:
    seen.open(ASKING)
    details = seen.metadata("Current Details")
    expect(details.get_by_text("WAITING", exact=True)).to_be_visible()
    asked = 'approval of place_order {"quantity":4,"sku":"SKU-STRAWBERRY"} (place_order always needs approval)'
    expect(details.get_by_text(asked)).to_be_visible()
    expect(details.get_by_text(f"longshift approve {ASKING} order-s")).to_be_visible()
    expect(details.get_by_text(f"longshift deny {ASKING} order-s --reason TEXT")).to_be_visible()
    for name, shown in COUNTERS.items():
        cells = details.get_by_role("row", name=name).get_by_role("cell").all_inner_texts()
        used, limit, bar = (cell.strip() for cell in cells[1:])
        assert (cells[0], used, limit, bar.partition(" ")[2]) == (name, *shown)

    expect(seen.metadata("Summary").get_by_text(ORDERS, exact=True)).to_be_visible()
    differs = seen.metadata("Details")
    expect(differs.get_by_text("Agent buyer, endpoint ordering.")).to_be_visible()
    expect(differs.get_by_text("Limits that differ: estimated_call_cents = 4.")).to_be_visible()

    memo = seen.memo()
    for text in (f'"goal": "{ORDERS}"', '"status": "WAITING"', '"call_id": "order-s"'):
        expect(memo).to_contain_text(text)


@pytest.mark.parametrize(
    ("run_id", "end", "told"),
    [
        (
            ANSWERED,
            "end: COMPLETED; 3 model calls, 3 tool calls, 0 tokens",
            "Vanilla 6 tubs, strawberry 4 tubs, 2600 cents USD in all. Nothing was bought.",
        ),
        (
            STOPPED,
            "end: STOP_REQUESTED; 1 model calls, 0 tool calls, 0 tokens",
            "a stop (now) was requested: enough for today",
        ),
        (LIMITED, "end: MODEL_CALL_LIMIT; 2 model calls, 3 tool calls, 0 tokens", "2 of 2 model calls used"),
    ],
)
def test_the_pages_of_an_ended_shift_say_how_it_ended(run_id: str, end: str, told: str, seen: Window) -> None:
    seen.open(run_id)
    expect(seen.timeline().get_by_text(end)).to_be_visible()
    details = seen.metadata("Current Details")
    expect(details.get_by_text(end.split()[1].rstrip(";"), exact=True)).to_be_visible()
    expect(details.get_by_text(told)).to_be_visible()
    expect(seen.metadata("Summary").get_by_text(TASK, exact=True)).to_be_visible()
