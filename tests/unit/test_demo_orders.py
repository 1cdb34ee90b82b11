"""The verdict of `longshift demo --orders`: the supplier's orders against what the shift says of them."""

import json

import pytest

from client.demo_orders import Orders, compared
from examples.shop.supplier import Order
from longshift import observations
from longshift.contracts import RunResult
from longshift.messages import ToolMessage
from longshift.status import Status

VANILLA, STRAWBERRY = Order("PO-1", "SKU-VANILLA", 6, "r/2/0/v"), Order("PO-2", "SKU-STRAWBERRY", 4, "r/2/1/s")
AGAIN = Order("PO-3", "SKU-STRAWBERRY", 4, "r/2/1/s")
OTHER = Order("PO-2", "SKU-STRAWBERRY", 4, "another/2/1/s")
LOST = observations.error("outcome_unknown", "nobody knows")


def outcome(orders: tuple[Order, ...], strawberry: str, status: Status = Status.COMPLETED) -> Orders:
    """A shift that had vanilla as PO-1, and observed `strawberry`."""
    vanilla = observations.ok({"order": "PO-1", "total_cents": 1500})
    messages = [
        ToolMessage(call_id="stock", name="list_stock", content=observations.ok({"products": []})),
        ToolMessage(call_id="v", name="place_order", content=vanilla),
        ToolMessage(call_id="s", name="place_order", content=strawberry),
    ]
    return Orders(
        RunResult(run_id="r", status=status, detail=""),
        "server",
        "journal",
        "page",
        orders,
        compared(messages, "r", orders),
    )


@pytest.mark.parametrize(
    ("orders", "strawberry", "verdict", "counted"),
    [
        (
            (VANILLA, STRAWBERRY),
            observations.ok({"order": "PO-2"}),
            True,
            "2 orders at the supplier, 2 in the shift, none",
        ),
        ((VANILLA, STRAWBERRY), observations.told({"order": "PO-2"}, "found"), True, "2 orders at the supplier, 2 in"),
        ((VANILLA, STRAWBERRY), LOST, False, "2 orders at the supplier, 1 in the shift, none twice;"),
        (
            (VANILLA, STRAWBERRY),
            observations.ok({"order": "PO-7"}),
            False,
            "2 orders at the supplier, 2 in the shift, none",
        ),
        (
            (VANILLA, STRAWBERRY, AGAIN),
            observations.ok({"order": "PO-2"}),
            False,
            "3 orders at the supplier, 2 in the shift, s",
        ),
        ((VANILLA, OTHER), observations.ok({"order": "PO-2"}), False, "2 orders at the supplier, 2 in the shift, none"),
        ((VANILLA,), LOST, False, "1 orders at the supplier, 1 in the shift, none twice;"),
    ],
    ids=[
        "both",
        "both, one told by a person",
        "one lost",
        "another one",
        "one twice",
        "of another run",
        "one not placed",
    ],
)
def test_orders_are_proved_where_each_stands_once_at_the_supplier_and_the_same_in_the_shift(
    orders: tuple[Order, ...], strawberry: str, verdict: bool, counted: str
) -> None:
    found = outcome(orders, strawberry)
    assert (found.verdict, found.good) == (verdict, verdict)
    assert found.sentence.startswith(counted)
    document = json.loads(json.dumps(found.document()))
    assert (document["evidence"], len(document["orders"]), len(document["asked"])) == (verdict, len(orders), 2)


def test_a_shift_that_ended_otherwise_is_not_good_though_its_orders_are_proved() -> None:
    found = outcome((VANILLA, STRAWBERRY), observations.ok({"order": "PO-2"}), Status.STOP_REQUESTED)
    assert (found.verdict, found.good) == (True, False)
