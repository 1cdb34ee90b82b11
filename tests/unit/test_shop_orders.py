"""The shop's orders: what `place_order` makes of a supplier's answers, and the supplier itself."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from examples import shop
from examples.shop import tools
from examples.shop.agent import buyer, buyer_next_door
from examples.shop.supplier import Book, Supplier
from examples.shop.tools import SUPPLIER, place_order
from longshift import Agent
from longshift.testing import CONTEXT, call

pytestmark = pytest.mark.asyncio

VANILLA, STRAWBERRY = {"sku": "SKU-VANILLA", "quantity": 6}, {"sku": "SKU-STRAWBERRY", "quantity": 4}


@contextmanager
def supplier(book: Book) -> Iterator[Supplier]:
    """A supplier that serves while the body runs."""
    with Supplier(book) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def orders_of(url: str) -> Any:
    """What a supplier lists."""
    with urlopen(f"{url}/orders") as answer:
        return json.load(answer)


@contextmanager
def answering(reply: bytes) -> Iterator[str]:
    """The URL of a supplier that takes one request, whole, and answers with these bytes."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            request = b""
            while not request.endswith(b"}"):
                request += connection.recv(65_536)
            connection.sendall(reply)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


async def test_the_buyer_orders_with_approval_and_has_a_day_for_it() -> None:
    kinds = {tool.spec.name: (tool.spec.kind, tool.spec.needs_approval) for tool in buyer.tools}
    assert kinds == {
        "list_stock": ("read", False),
        "draft_order": ("read", False),
        "place_order": ("effect", True),
    }
    assert (buyer.name, buyer.unknown_outcome, buyer.limits.seconds) == ("buyer", "ask", 86_400)


async def test_the_authored_shift_of_the_buyer_orders_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    authored = json.loads(Path(str(shop.__file__)).with_name("buyer_turns.json").read_text("utf-8"))
    tools = {tool.spec.name: tool for tool in buyer.tools}
    book = Book()
    with supplier(book) as server:
        monkeypatch.setenv(SUPPLIER, server.url)
        for turn in authored["turns"]:
            for item in turn["calls"]:
                assert (await call(tools[item["name"]], item["arguments"]))["ok"]
    ordered = [{"sku": order["sku"], "quantity": order["quantity"]} for order in book.listed()["orders"]]
    assert ordered == [VANILLA, STRAWBERRY]


async def test_an_order_is_placed_under_its_operation_and_comes_back_with_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with supplier(Book()) as server:
        monkeypatch.setenv(SUPPLIER, server.url)
        placed = await call(place_order, VANILLA)
        listed = await asyncio.to_thread(orders_of, server.url)
    priced = {"total_cents": 1500, "currency": "USD"}
    assert placed == {"ok": True, "value": {"order": "PO-1", **VANILLA, **priced}}
    assert listed == {"orders": [{"order": "PO-1", **VANILLA, "key": CONTEXT.operation_id}], "requests": 1}


@pytest.mark.parametrize(("honours", "orders"), [(True, ["PO-1", "PO-1"]), (False, ["PO-1", "PO-2"])])
async def test_only_a_supplier_that_honours_keys_takes_one_order_for_an_operation_asked_twice(
    monkeypatch: pytest.MonkeyPatch, honours: bool, orders: list[str]
) -> None:
    with supplier(Book(honour_keys=honours)) as server:
        monkeypatch.setenv(SUPPLIER, server.url)
        placed: list[Any] = [(await call(place_order, VANILLA))["value"] for _ in range(2)]
    assert [value["order"] for value in placed] == orders
    assert (len(server.book.listed()["orders"]), server.book.listed()["requests"]) == (len(set(orders)), 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sku": "SKU-VANILLA", "quantity": 8}, "6 tubs are needed, not 8; order 6"),
        ({"sku": "SKU-CHOCOLATE", "quantity": 1}, "0 tubs are needed, not 1; order none"),
        ({"sku": "SKU-MINT", "quantity": 1}, "there is no product SKU-MINT"),
    ],
)
async def test_an_order_that_is_not_needed_never_reaches_the_supplier(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], words: str
) -> None:
    with supplier(Book()) as server:
        monkeypatch.setenv(SUPPLIER, server.url)
        failure: Any = (await call(place_order, arguments))["error"]
    assert words in failure["message"]
    assert server.book.listed()["requests"] == 0


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, '{"error": "no such sku"}', "refused"),
        (404, "not JSON", "refused"),
        (422, '{"error": ["a", "list"]}', "refused"),
        (401, '{"error": "who are you?"}', "fatal"),
        (403, "{}", "fatal"),
        (429, "{}", "transient"),
        (201, '{"order": "PO-1"', "outcome_unknown"),
        (200, '{"order": ""}', "outcome_unknown"),
        (204, "", "outcome_unknown"),
        (302, "{}", "outcome_unknown"),
        (408, "{}", "outcome_unknown"),
        (409, "{}", "outcome_unknown"),
        (500, "{}", "outcome_unknown"),
        (503, "[1]", "outcome_unknown"),
    ],
)
async def test_what_a_suppliers_answer_says_of_the_order(
    monkeypatch: pytest.MonkeyPatch, status: int, body: str, kind: str
) -> None:
    reply = f"HTTP/1.1 {status} Status\r\nContent-Length: {len(body)}\r\nLocation: /elsewhere\r\n\r\n{body}"
    with answering(reply.encode()) as url:
        monkeypatch.setenv(SUPPLIER, url)
        failure: Any = (await call(place_order, VANILLA))["error"]
    assert failure["kind"] == kind


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 201 Cr", b'HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{"or'])
async def test_an_order_whose_reply_breaks_off_may_have_been_placed(
    monkeypatch: pytest.MonkeyPatch, reply: bytes
) -> None:
    with answering(reply) as url:
        monkeypatch.setenv(SUPPLIER, url)
        failure: Any = (await call(place_order, VANILLA))["error"]
    assert failure["kind"] == "outcome_unknown"


async def test_an_order_that_found_no_supplier_was_surely_not_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv(SUPPLIER, f"http://127.0.0.1:{port}")
    failure: Any = (await call(place_order, VANILLA))["error"]
    assert (failure["kind"], "nothing was ordered" in failure["message"]) == ("transient", True)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8750", "ftp://127.0.0.1", "http://", "http://127.0.0.1:99999", "http://[::"]
)
async def test_a_shop_without_a_supplier_says_which_variable_to_set(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(SUPPLIER, url)
    failure: Any = (await call(place_order, VANILLA))["error"]
    assert (failure["kind"], SUPPLIER in failure["message"]) == ("fatal", True)


@pytest.mark.parametrize("more", ["/shop", "?shop=1", "#shop", "/orders/"])
@pytest.mark.parametrize("who", ["", "me:planted@"])
async def test_a_suppliers_url_says_where_it_is_and_no_more(
    monkeypatch: pytest.MonkeyPatch, who: str, more: str
) -> None:
    monkeypatch.setenv(SUPPLIER, f"http://{who}127.0.0.1:8750{more}")
    failure: Any = (await call(place_order, VANILLA))["error"]
    assert (failure["kind"], f"{SUPPLIER} has more than a host and a port" in failure["message"]) == ("fatal", True)
    assert "planted" not in failure["message"]


@pytest.mark.parametrize("agent", [buyer, buyer_next_door])
async def test_an_order_ends_before_the_run_gives_it_up(agent: Agent) -> None:
    (order,) = [tool.spec for tool in agent.tools if tool.spec.kind == "effect"]
    assert order.timeout_seconds > tools.SUPPLIER_SECONDS


async def test_an_order_whose_time_is_over_before_it_can_be_sent_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing bounds how long a name is looked up, and a process can stand still."""
    look_up = socket.getaddrinfo

    def slowly(*args: Any, **options: Any) -> Any:
        time.sleep(2 * tools.SUPPLIER_SECONDS)
        return look_up(*args, **options)

    monkeypatch.setattr(tools, "SUPPLIER_SECONDS", 0.1)
    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    with supplier(Book()) as server:
        monkeypatch.setenv(SUPPLIER, server.url)
        failure: Any = (await call(place_order, VANILLA))["error"]
    assert (failure["kind"], "nothing was ordered" in failure["message"]) == ("transient", True)
    assert server.book.listed()["requests"] == 0


@pytest.mark.parametrize(
    ("begins", "drop"),
    [
        (b"HTTP/1.1 201 Created\r\n", b"X-More: 1\r\n"),
        (b"HTTP/1.1 201 Created\r\nContent-Length: 60000\r\n\r\n", b" "),
        (b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
    ids=["head", "body", "chunks"],
)
async def test_an_order_whose_reply_never_ends_may_have_been_placed(
    monkeypatch: pytest.MonkeyPatch, begins: bytes, drop: bytes
) -> None:
    monkeypatch.setattr(tools, "SUPPLIER_SECONDS", 0.5)
    gone = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(begins)
            while not gone.wait(0.02):
                connection.sendall(drop)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip)
        thread.start()
        monkeypatch.setenv(SUPPLIER, f"http://127.0.0.1:{listener.getsockname()[1]}")
        failure: Any = (await call(place_order, VANILLA))["error"]
        gone.set()
        thread.join()
    assert failure["kind"] == "outcome_unknown"


async def test_a_supplier_that_starts_again_with_its_file_knows_its_orders(tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    Book(file, honour_keys=True).place("SKU-VANILLA", 6, "key")
    again = Book(file, honour_keys=True)
    order, new = again.place("SKU-VANILLA", 6, "key")
    assert (order.order, new, len(again.listed()["orders"])) == ("PO-1", False, 1)


async def test_anyone_can_run_the_supplier_and_a_bad_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text("none\n")
    command = [sys.executable, "-m", "examples.shop.supplier"]
    refused = await asyncio.create_subprocess_exec(
        *command, "--file", file, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await refused.communicate()
    assert (refused.returncode, out) == (2, b"")
    assert str(file) in err.decode()
    running = await asyncio.create_subprocess_exec(*command, "--honour-keys", stdout=subprocess.PIPE)
    assert running.stdout
    url = (await running.stdout.readline()).decode().removeprefix("supplier at ").strip()
    try:
        assert await asyncio.to_thread(orders_of, url) == {"orders": [], "requests": 0}
    finally:
        running.terminate()
        await running.wait()
