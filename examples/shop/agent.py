"""The shop's agents: one that drafts, and one that also buys."""

from dataclasses import replace

from examples.shop.evidence import drafts, orders
from examples.shop.tools import draft_order, list_stock, place_order, product
from longshift import Agent, Limits

agent = Agent(
    name="shop",
    system="Prepare replenishment drafts with the tools. Drafts are proposals, never purchases.",
    endpoint="authored",
    tools=(list_stock, product, draft_order),
    evidence=(drafts,),
)

buyer = Agent(
    name="buyer",
    system="Order what the shop needs with the tools. Each order buys, and a person approves it first.",
    endpoint="authored-orders",
    tools=(list_stock, draft_order, place_order),
    limits=Limits(seconds=86_400.0),
    evidence=(orders,),
)
"""The agent that orders from the supplier. Its shift has a day, since it waits for a person."""

NEXT_DOOR_SECONDS = 3.0
"""Seconds one order may take at a supplier on this machine: more than SUPPLIER_SECONDS."""

buyer_next_door = buyer.model_copy(
    update={
        "tools": (
            list_stock,
            draft_order,
            replace(place_order, spec=place_order.spec.model_copy(update={"timeout_seconds": NEXT_DOOR_SECONDS})),
        )
    }
)
"""The same, for the demonstration: what became of an order that was lost is asked after seconds."""
