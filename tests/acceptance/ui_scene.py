"""Shifts to look at in the Temporal UI, and the ways of a person to what it shows of them.

`python -m tests.acceptance.ui_scene` makes the pictures of docs/ anew.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Browser, FrameLocator, Locator, Page

from client.demo_orders import serving
from examples.shop.supplier import Book
from examples.shop.tools import SUPPLIER
from tests.acceptance.browser import launched
from tests.acceptance.commands import HUNG, PATIENCE, Up, kept_up

ANSWERED, STOPPED, LIMITED, ASKING = "drafts-monday", "drafts-tuesday", "drafts-wednesday", "orders-monday"
"""The shifts: one that completed, one that was stopped, one that a limit ended, one that waits for an approval."""
TASK = "Prepare replenishment drafts from current stock. State USD amounts."
ORDERS = "Order what the shop needs for Monday."
CONFIG = (
    HUNG
    + """
[endpoints.ordering]
kind = "replay"
[[endpoints.ordering.turns]]
output_tokens = 24
calls = [{ id = "stock", name = "list_stock", arguments = {} }]
[[endpoints.ordering.turns]]
output_tokens = 61
calls = [
    { id = "draft-v", name = "draft_order", arguments = { sku = "SKU-VANILLA", quantity = 60 } },
    { id = "draft-s", name = "draft_order", arguments = { sku = "SKU-STRAWBERRY", quantity = 4 } },
]
[[endpoints.ordering.turns]]
output_tokens = 58
calls = [
    { id = "order-v", name = "place_order", arguments = { sku = "SKU-VANILLA", quantity = 6 } },
    { id = "order-s", name = "place_order", arguments = { sku = "SKU-STRAWBERRY", quantity = 4 } },
]
[[endpoints.ordering.turns]]
content = "Ordered: vanilla 6 tubs, strawberry 4 tubs."
output_tokens = 19
"""
)
COLUMNS = ("LongshiftStatus", "LongshiftWaitsFor", "LongshiftSpentCents")
"""Search attributes that a person adds to the list's columns."""
WIDTH, HEIGHT = 1456, 1400
"""Pixels of the window. Beside the UI's own menu it has room for a picture that is 1,200 wide."""
MARGIN = 16
"""Pixels around what a picture shows."""
COLOURS = 128
"""Colours of a picture: more are not told apart, and cost bytes in the repository."""
IMAGES = Path(__file__).parents[2] / "docs" / "images"


@contextmanager
def shifts_kept_up(folder: Path) -> Iterator[Up]:
    """Server, UI and worker, with the shifts as they stand in the end."""
    with serving(Book()) as supplier, kept_up(folder, CONFIG, **{SUPPLIER: supplier.url}) as up:
        _start(up, ASKING, ORDERS, "--agent", "buyer", "--endpoint", "ordering", "--limit", "estimated_call_cents=4")
        _start(up, STOPPED, TASK, "--endpoint", "hung")
        _start(up, LIMITED, TASK, "--limit", "model_calls=2")
        _start(up, ANSWERED, TASK)
        up.until("order-v", "approvals")
        assert up("approve", ASKING, "order-v", "--yes").code == 0
        up.until("order-s", "approvals")
        assert up("stop", STOPPED, "--now", "--reason", "enough for today").code == 0
        for run_id, status in ((ANSWERED, "COMPLETED"), (STOPPED, "STOP_REQUESTED"), (LIMITED, "MODEL_CALL_LIMIT")):
            assert up("result", run_id, "--json").document["status"] == status
        yield up


def _start(up: Up, run_id: str, task: str, *words: str) -> None:
    assert up("start", task, "--id", run_id, *words).code == 0


@dataclass(frozen=True)
class Window:
    """A window of a browser on the Temporal UI."""

    page: Page
    ui: str
    """Address of the UI."""

    def list(self, query: str = "") -> Locator:
        """Go to the list of workflows, filtered where a query is given. Its rows, one for each workflow."""
        self.page.goto(f"{self.ui}/namespaces/default/workflows?query={quote(query)}")
        return self.page.get_by_test_id("workflows-summary-configurable-table-row")

    def add_columns(self) -> None:
        """Have the list show search attributes, in place of what tells a person little."""
        self.page.get_by_test_id("workflows-summary-table-configuration-button").click()
        for name in COLUMNS:
            self.page.get_by_role("button", name=f"Add {name} column").click()
        for name in ("Run ID", "Type", "End"):
            self.page.get_by_role("button", name=f"Remove {name} column").click()
        self.page.get_by_role("button", name="Close Workflow", exact=False).click()

    def open(self, run_id: str) -> None:
        """Go by the list to the page of a shift; from any page of the UI, since to load it anew takes seconds."""
        if self.page.url.startswith(self.ui):
            self.page.get_by_role("link", name="Workflows", exact=True).click()
        else:
            self.list()
        self.page.get_by_role("link", name=run_id).click()

    def timeline(self) -> Locator:
        """The timeline of the shift that is open, the earliest first."""
        self.page.get_by_role("tab", name="Timeline").click()
        self._earliest_first()
        return self.page.locator("#event-history-timeline-graph")

    def history(self) -> Locator:
        """The compact history of the shift that is open, the earliest first: its rows."""
        self.page.get_by_role("tab", name="Event History").click()
        self.page.get_by_role("button", name="Compact").click()
        self._earliest_first()
        return self.page.get_by_test_id("event-summary-row")

    def _earliest_first(self) -> None:
        order = self.page.get_by_test_id("zoom-in")
        if "Descending" in order.inner_text():
            order.click()

    def metadata(self, heading: str) -> FrameLocator:
        """What stands under one of the headings of the user metadata of the shift that is open."""
        self.page.get_by_role("tab", name="User Metadata").click()
        return self.page.frame_locator(f"xpath=//h3[.='{heading}']/following::iframe[1]")

    def memo(self) -> Locator:
        """The memo of the shift that is open."""
        self.page.get_by_role("tab", name="Memo").click()
        return self.page.locator("main")

    def picture(self, name: str, top: Locator, bottom: Locator) -> None:
        """Save what a person sees from the one to the other, beside the UI's own menu."""
        boxes = [one.bounding_box() for one in (top, bottom, self.page.locator("main"))]
        first, last, content = [box for box in boxes if box]
        y, end = first["y"] - MARGIN, last["y"] + last["height"] + MARGIN
        picture = self.page.screenshot(
            clip={"x": content["x"], "y": y, "width": content["width"], "height": end - y},
        )
        with Image.open(BytesIO(picture)) as image:
            image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(IMAGES / name, optimize=True)


@contextmanager
def window(browser: Browser, up: Up) -> Iterator[Window]:
    """A window on the UI, in English and UTC."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, locale="en-US", timezone_id="UTC", color_scheme="light"
    )
    context.set_default_timeout(PATIENCE * 1000)
    try:
        yield Window(context.new_page(), up.ui)
    finally:
        context.close()


def main() -> None:
    """Make the pictures of the documentation."""
    with (
        tempfile.TemporaryDirectory() as name,
        shifts_kept_up(Path(name)) as up,
        launched() as browser,
        window(browser, up) as seen,
    ):
        rows = seen.list()
        seen.add_columns()
        rows.filter(has_text="MODEL_CALL_LIMIT").wait_for()
        seen.picture("ui-list.png", seen.page.get_by_role("heading", level=1), rows.last)
        seen.open(ASKING)
        graph = seen.timeline()
        graph.get_by_text("effect place_order").wait_for()
        seen.picture("ui-timeline.png", seen.page.get_by_role("heading", name="Timeline"), graph)
        details = seen.metadata("Current Details")
        details.get_by_text("money, US cents").wait_for()
        seen.picture("ui-details.png", seen.page.get_by_role("tab", name="Timeline"), details.owner)


if __name__ == "__main__":
    main()
