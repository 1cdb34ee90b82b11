"""What the shop's agents can do. Prices are in US cents; a draft is computed and changes nothing, an order buys."""

import http.client
import json
import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field

from longshift import ToolContext, ToolFatal, ToolNotFound, ToolOutcomeUnknown, ToolRefused, ToolTransient, tool

SUPPLIER = "SHOP_SUPPLIER_URL"
"""Names the variable that holds the supplier's address, such as http://127.0.0.1:8750."""
SUPPLIER_SECONDS = 2.5
"""Seconds that one order may take altogether: fewer than any tool that orders has, so that none leaves after the run
has given it up."""
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
    time_left = _Countdown(SUPPLIER_SECONDS)
    found = _needed(sku, quantity, "order")
    connection = _connected(time_left())
    # A time-out of a socket is for one read of many; this one ends them all.
    ending = threading.Timer(time_left(), _end, (connection.sock,))
    ending.start()
    try:
        body = json.dumps({"sku": sku, "quantity": quantity})
        headers = {"Content-Type": "application/json", "Idempotency-Key": context.operation_id}
        if not time_left():  # to find the address takes as long as it takes, and this process may have stood still
            raise ToolTransient("the supplier was not reached in time; nothing was ordered")
        connection.request("POST", "/orders", body, headers)
        reply = connection.getresponse()
        text = reply.read(MAX_REPLY_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise ToolOutcomeUnknown(f"the order was sent and no reply came ({type(error).__name__})") from None
    finally:
        ending.cancel()
        connection.close()
    return {"order": _order_number(reply.status, text), **_priced(found, quantity)}


class _Countdown:
    """Tells how many seconds are left; 0 once there are none."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._started, self._began = seconds, time.time(), time.monotonic()

    def __call__(self) -> float:
        # Two clocks, since one stands still while the machine sleeps, and the other can be set.
        return max(0.0, self._seconds - max(time.time() - self._started, time.monotonic() - self._began))


def _end(connected: socket.socket) -> None:
    """End whatever waits for the socket, in another thread."""
    with suppress(OSError):  # it has ended
        connected.shutdown(socket.SHUT_RDWR)


def _connected(seconds: float) -> http.client.HTTPConnection:
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
    if url.path.strip("/") or url.query or url.fragment or "@" in url.netloc:
        raise ToolFatal(f"{SUPPLIER} has more than a host and a port, which are all that is used; leave the rest out")
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, port, timeout=seconds)
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
