"""The tools of the labs, some of which lie or refuse, and the agents that have them."""

from typing import Annotated

from pydantic import Field

from longshift import Agent, ToolNotFound, tool

NOTE = "aisle | tubs\n4 | 12\n\n| counted twice |\n"
"""A text whose lines and pipes a careless loop would flatten, escape or take for its own marks."""
SHELF = {
    "SKU-ALMOND": 4,
    "SKU-BANANA": 11,
    "SKU-CHERRY": 7,
    "SKU-DATE": 2,
    "SKU-ESPRESSO": 9,
    "SKU-FIG": 5,
    "SKU-GINGER": 14,
    "SKU-HAZELNUT": 3,
}
"""Tubs on the shelf, by sku."""
LIE = 3
"""Tubs that the record says too many."""


@tool(kind="read")
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@tool(kind="read")
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


@tool(kind="read")
def stock_record(sku: str) -> int:
    """Tubs of a product by the stock record."""
    return _on_the_shelf(sku) + LIE


@tool(kind="read")
def count_shelf(sku: str) -> int:
    """Count the tubs of a product on the shelf."""
    return _on_the_shelf(sku)


@tool(kind="read")
def draft(sku: str, quantity: Annotated[int, Field(ge=1, le=99)]) -> str:
    """Draft an order of a product."""
    return f"{quantity} x {sku}"


@tool(kind="read")
def shelf_note() -> str:
    """Read the note on the shelf."""
    return NOTE


def _on_the_shelf(sku: str) -> int:
    if sku not in SHELF:
        raise ToolNotFound(f"there is no product {sku}; the products are {', '.join(SHELF)}")
    return SHELF[sku]


calculator = Agent(name="calculator", system="Compute with the tools.", endpoint="scripted", tools=(add, multiply))
stock_taker = Agent(
    name="stock-taker",
    system="Say how many tubs there are.",
    endpoint="scripted",
    tools=(stock_record, count_shelf),
)
drafter = Agent(name="drafter", system="Draft what is asked for.", endpoint="scripted", tools=(draft,))
reader = Agent(name="reader", system="Read what is asked for.", endpoint="scripted", tools=(shelf_note,))
