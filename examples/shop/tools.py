"""What the shop's agent can do. Prices are in US cents; a draft is computed and changes nothing."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from longshift import ToolNotFound, ToolRefused, tool


@dataclass(frozen=True)
class Product:
    """One product of the shop."""

    sku: str
    name: str
    price_cents: int
    """US cents a tub."""
    stock: int
    """Tubs in the freezer."""
    target: int
    """Tubs there should be."""

    @property
    def needed(self) -> int:
        """Tubs to order to reach the target."""
        return max(0, self.target - self.stock)

    def row(self) -> dict[str, Any]:
        """The product as the tools tell of it."""
        return {
            "sku": self.sku,
            "name": self.name,
            "price_cents": self.price_cents,
            "stock": self.stock,
            "target": self.target,
            "needed": self.needed,
        }


PRODUCTS = (
    Product("SKU-VANILLA", "Vanilla", price_cents=250, stock=2, target=8),
    Product("SKU-STRAWBERRY", "Strawberry", price_cents=275, stock=4, target=8),
    Product("SKU-CHOCOLATE", "Chocolate", price_cents=300, stock=8, target=8),
)

Sku = Annotated[str, Field(description="The product's sku, as list_stock gives it.")]


@tool(kind="read", timeout_seconds=10)
def list_stock() -> dict[str, Any]:
    """List every product with its price in US cents, its stock, its target stock and how many tubs are needed."""
    return {"products": [product.row() for product in PRODUCTS]}


@tool(kind="read", timeout_seconds=10)
def product(sku: Sku) -> dict[str, Any]:
    """Look up one product by its sku."""
    return _find(sku).row()


@tool(kind="read", timeout_seconds=10)
def draft_order(
    sku: Sku, quantity: Annotated[int, Field(ge=1, description="Tubs to order: exactly what is needed.")]
) -> dict[str, Any]:
    """Draft a replenishment order for one product. A draft is a proposal: nothing is bought."""
    found = _find(sku)
    if quantity != found.needed:
        advice = f"draft {found.needed}" if found.needed else "draft none"
        raise ToolRefused(f"{sku}: {found.needed} tubs are needed, not {quantity}; {advice}")
    return {"sku": sku, "quantity": quantity, "total_cents": quantity * found.price_cents, "currency": "USD"}


def _find(sku: str) -> Product:
    for found in PRODUCTS:
        if found.sku == sku:
            return found
    known = ", ".join(found.sku for found in PRODUCTS)
    raise ToolNotFound(f"there is no product {sku}; the products are {known}")
