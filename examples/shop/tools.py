"""What the shop's agents can do. Prices are in US cents; a draft is computed and changes nothing, an order buys."""

import http.client
import json
import os
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field

from longshift import ToolContext, ToolFatal, ToolNotFound, ToolOutcomeUnknown, ToolRefused, ToolTransient, tool

SUPPLIER = "SHOP_SUPPLIER_URL"
"""Names the variable that holds the supplier's address, such as http://127.0.0.1:8750."""
SUPPLIER_SECONDS = 5.0
"""Seconds that the supplier may take to accept a connection, and then to answer."""
MAX_REPLY_BYTES = 65_536
"""Bytes of the supplier's reply that are read."""


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
Quantity = Annotated[int, Field(ge=1, description="Tubs to order: exactly what is needed.")]


@tool(kind="read", timeout_seconds=10)
def list_stock() -> dict[str, Any]:
    """List every product with its price in US cents, its stock, its target stock and how many tubs are needed."""
    return {"products": [product.row() for product in PRODUCTS]}


@tool(kind="read", timeout_seconds=10)
def product(sku: Sku) -> dict[str, Any]:
    """Look up one product by its sku."""
    return _find(sku).row()


@tool(kind="read", timeout_seconds=10)
def draft_order(sku: Sku, quantity: Quantity) -> dict[str, Any]:
    """Draft a replenishment order for one product. A draft is a proposal: nothing is bought."""
    return _priced(_needed(sku, quantity, "draft"), quantity)


@tool(kind="effect", timeout_seconds=20, needs_approval=True)
def place_order(sku: Sku, quantity: Quantity, context: ToolContext) -> dict[str, Any]:
    """Order one product from the supplier. This buys: a person approves it first."""
    found = _needed(sku, quantity, "order")
    connection = _connected()
    try:
        body = json.dumps({"sku": sku, "quantity": quantity})
        headers = {"Content-Type": "application/json", "Idempotency-Key": context.operation_id}
        connection.request("POST", "/orders", body, headers)
        reply = connection.getresponse()
        text = reply.read(MAX_REPLY_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise ToolOutcomeUnknown(f"the order was sent and no reply came ({type(error).__name__})") from None
    finally:
        connection.close()
    return {"order": _order_number(reply.status, text), **_priced(found, quantity)}


def _connected() -> http.client.HTTPConnection:
    """A connection to the supplier. Nothing was sent yet: whatever fails here, no order was placed.

    Not urllib.request, which follows redirects and proxies, and does not say whether a request was sent.
    """
    try:
        url = urlsplit(os.environ.get(SUPPLIER, ""))
        host, port = url.hostname, url.port
    except ValueError:  # a port or a host that can be none
        host, port = None, None
    if not host or url.scheme not in ("http", "https"):
        raise ToolFatal(f"the shop has no supplier; set {SUPPLIER} to its URL where the worker runs")
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, port, timeout=SUPPLIER_SECONDS)
    try:
        connection.connect()
    except OSError as error:
        raise ToolTransient(f"the supplier cannot be reached ({type(error).__name__}); nothing was ordered") from None
    return connection


def _order_number(status: int, text: bytes) -> str:
    """The number of the order that a reply confirms. Raises what the reply says instead."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    said = body if isinstance(body, dict) else {}
    number, why = said.get("order"), str(said.get("error", "it gave no reason"))[:300]
    if 200 <= status < 300 and isinstance(number, str) and number:
        return number
    if status in (401, 403):
        raise ToolFatal(f"the supplier refuses the shop itself ({status}): {why}")
    if status == 429:
        raise ToolTransient("the supplier is busy (429); nothing was ordered")
    if 400 <= status < 500 and status not in (408, 409):  # these two may speak of a request that is still at work
        raise ToolRefused(f"the supplier refused the order ({status}): {why}")
    raise ToolOutcomeUnknown(f"the supplier answered with status {status} and no order number")


def _needed(sku: str, quantity: int, verb: str) -> Product:
    """The product, where `quantity` is exactly what is needed of it."""
    found = _find(sku)
    if quantity != found.needed:
        advice = f"{verb} {found.needed}" if found.needed else f"{verb} none"
        raise ToolRefused(f"{sku}: {found.needed} tubs are needed, not {quantity}; {advice}")
    return found


def _priced(found: Product, quantity: int) -> dict[str, Any]:
    return {"sku": found.sku, "quantity": quantity, "total_cents": quantity * found.price_cents, "currency": "USD"}


def _find(sku: str) -> Product:
    for found in PRODUCTS:
        if found.sku == sku:
            return found
    known = ", ".join(found.sku for found in PRODUCTS)
    raise ToolNotFound(f"there is no product {sku}; the products are {known}")
