"""A small supplier that takes orders over HTTP, for the shop to order from: `python -m examples.shop.supplier`.

    POST /orders {"sku": "SKU-VANILLA", "quantity": 6}    201 {"order": "PO-1", "sku": ..., "quantity": ..., "key": ...}
    GET /orders                                           200 {"orders": [...], "requests": 1}

It notes the `Idempotency-Key` of every order. With `--honour-keys` it takes one order for a key: asked again, it
answers 200 with the order that stands. Without, it is like most services: each request is an order.
"""

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
MAX_BODY_BYTES = 65_536
"""Bytes of a request's body that are read."""
MAX_QUANTITY = 1_000
"""Tubs in one order."""


@dataclass(frozen=True)
class Order:
    """An order that the supplier took."""

    order: str
    """Its number."""
    sku: str
    quantity: int
    key: str | None
    """The Idempotency-Key it came with."""


class Refused(Exception):
    """The supplier does not take it: the HTTP status and why."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        self.status = status
        super().__init__(why)


class Book:
    """The orders, in memory and, where a file is given, in it: one JSON object a line, written before the answer."""

    def __init__(self, file: Path | None = None, *, honour_keys: bool = False) -> None:
        """Begin with the orders in `file`, if it is there.

        Raises OSError where it cannot be read, ValueError where it holds something else.
        """
        self._file = file
        self._honour_keys = honour_keys
        self._lock = threading.Lock()
        self._orders = [_stored(line) for line in _lines(file)]
        self._requests = len(self._orders)

    def place(self, sku: str, quantity: int, key: str | None) -> tuple[Order, bool]:
        """Take an order. Returns it, and whether it is new.

        Raises Refused where its key is honoured and stands for another order.
        """
        with self._lock:
            self._requests += 1
            known = self._known(key)
            if known is None:
                order = Order(f"PO-{len(self._orders) + 1}", sku, quantity, key)
                self._write(order)
                self._orders.append(order)
                return order, True
        if (known.sku, known.quantity) != (sku, quantity):
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"the key was used for {known.quantity} x {known.sku}")
        return known, False

    def listed(self) -> dict[str, Any]:
        """All orders, and how many requests for one there were."""
        with self._lock:
            return {"orders": [asdict(order) for order in self._orders], "requests": self._requests}

    def honours(self, key: str) -> bool:
        """Whether one order is taken for this key, however often it is asked for."""
        return self._honour_keys

    def _known(self, key: str | None) -> Order | None:
        if key is None or not self.honours(key):
            return None
        return next((order for order in self._orders if order.key == key), None)

    def _write(self, order: Order) -> None:
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(order)) + "\n")
                lines.flush()
                os.fsync(lines.fileno())


class Supplier(ThreadingHTTPServer):
    """The server. Use it as a context manager around `serve_forever`."""

    daemon_threads = True

    def __init__(self, book: Book, port: int = 0, say: Callable[[str], object] = lambda line: None) -> None:
        """Listen on 127.0.0.1.

        Args:
            book: the orders.
            port: 0 for a free one.
            say: is given a line for each order.

        Raises OSError where the port is taken.
        """
        super().__init__((HOST, port), _Requests)
        self.book = book
        self.say = say

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A shop that is killed leaves its connection; that is no fault of ours."""
        if isinstance(sys.exception(), ConnectionError):
            self.say("a shop left before it had its answer")
        else:
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Requests(BaseHTTPRequestHandler):
    server: Supplier

    def do_GET(self) -> None:
        """List the orders."""
        if self.path == "/orders":
            self._answer(HTTPStatus.OK, self.server.book.listed())
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "there is only /orders"})

    def do_POST(self) -> None:
        """Take an order."""
        key = self.headers.get("Idempotency-Key")
        try:
            order, new = self.server.book.place(*self._read(), key)
        except Refused as refused:
            self._answer(refused.status, {"error": str(refused)})
            return
        for_key = f" for {key}" if key else ""
        self.server.say(f"{'took' if new else 'again'} {order.order}: {order.quantity} x {order.sku}{for_key}")
        self._answer(HTTPStatus.CREATED if new else HTTPStatus.OK, asdict(order))

    def _read(self) -> tuple[str, int]:
        """The sku and the quantity asked for. Raises Refused."""
        if self.path != "/orders":
            raise Refused(HTTPStatus.NOT_FOUND, "there is only /orders")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            raise Refused(HTTPStatus.BAD_REQUEST, f"give a Content-Length of at most {MAX_BODY_BYTES}")
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict) or set(body) != {"sku", "quantity"}:
            raise Refused(HTTPStatus.BAD_REQUEST, 'give {"sku": ..., "quantity": ...} as JSON')
        sku, quantity = body["sku"], body["quantity"]
        if not isinstance(sku, str) or not sku.strip() or len(sku) > 100:
            raise Refused(HTTPStatus.BAD_REQUEST, "sku must be a text of 1 to 100 characters")
        if type(quantity) is not int or not 0 < quantity <= MAX_QUANTITY:
            raise Refused(HTTPStatus.BAD_REQUEST, f"quantity must be a whole number from 1 to {MAX_QUANTITY}")
        return sku, quantity

    def _answer(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Only orders are printed."""


def _lines(file: Path | None) -> list[str]:
    return file.read_text("utf-8").splitlines() if file is not None and file.exists() else []


def _stored(line: str) -> Order:
    try:
        return Order(**json.loads(line))
    except (ValueError, TypeError):
        raise ValueError(f"the line {line[:60]!r} is no order") from None


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Serve until Ctrl-C. Returns the exit code: 0, or 2 for a port or a file that cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.shop.supplier", description="A supplier that takes orders over HTTP and prints each."
    )
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--file", type=Path, help="file that keeps the orders (default: in memory only)")
    parser.add_argument("--honour-keys", action="store_true", help="take one order for an Idempotency-Key")
    given = parser.parse_args()
    try:
        supplier = Supplier(Book(given.file, honour_keys=given.honour_keys), given.port, _say)
    except (OSError, OverflowError, ValueError) as error:
        what = f"--file {given.file} or --port {given.port}" if given.file else f"--port {given.port}"
        sys.stderr.write(f"{what} cannot be used: {error}; choose another\n")
        return 2
    with supplier:
        _say(f"supplier at {supplier.url}")
        try:
            supplier.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
