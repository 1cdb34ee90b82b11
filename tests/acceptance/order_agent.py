"""The agents of the kill tests: they order from a supplier with the shop's own tool, and time-outs of seconds."""

from dataclasses import replace
from typing import Any

from examples.shop import tools
from longshift import Agent, ToolContext, tool

ORDER_SECONDS = 8.0
"""Seconds one order may take: as long as the runs of a round need to come to their points, and no longer."""


def replied(context: ToolContext) -> None:
    """The supplier's reply is read, and the handler has not returned."""


@tool(name="place_order", kind="effect", timeout_seconds=ORDER_SECONDS)
def order(sku: str, quantity: int, context: ToolContext) -> dict[str, Any]:
    """Order one product from the supplier."""
    tools.SUPPLIER_SECONDS = ORDER_SECONDS
    placed: dict[str, Any] = tools.place_order.handler(sku, quantity, context)
    replied(context)
    return placed


def _agent(name: str, **options: Any) -> Agent:
    ordering = replace(order, spec=order.spec.model_copy(update=options))
    return Agent(name=name, system="Order what is needed.", endpoint="ordering", tools=(ordering,))


plain = _agent("plain")
keyed = _agent("keyed", idempotent=True)
"""Orders where a key stands for one order, and says so."""
asking = _agent("asking", needs_approval=True)
