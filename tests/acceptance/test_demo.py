"""`longshift demo`, end to end: it needs nothing but the installed command."""

import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from client.demo import HELD_BACK_MS
from tests.acceptance.commands import LONGSHIFT, PATIENCE, clean_environment, longshift
from worker.settings import SHOP_TURNS

pytestmark = pytest.mark.slow

DRAFTS = [
    {"sku": "SKU-VANILLA", "quantity": 6, "total_cents": 1500, "currency": "USD"},
    {"sku": "SKU-STRAWBERRY", "quantity": 4, "total_cents": 1100, "currency": "USD"},
]


def test_the_demo_shows_each_step_the_drafts_and_the_proof(tmp_path: Path) -> None:
    shown = longshift("demo", env=clean_environment(TMPDIR=str(tmp_path)), cwd=tmp_path)

    assert shown.code == 0, shown
    steps = re.findall(r"^\d\d:\d\d:\d\d  (.*)$", shown.out, re.MULTILINE)
    assert [step for step in steps if step.endswith("began")] == [f"model call {n} began" for n in (1, 2, 3)]
    assert "list_stock {}: ok" in steps
    assert steps[-1] == "ended: COMPLETED: answered with model call 3"
    assert "used      3 model calls, 3 tool calls, 0 output tokens, 0 cents, 8 messages\n" in shown.out
    assert "draft     SKU-VANILLA x 6: 1500 cents\ndraft     SKU-STRAWBERRY x 4: 1100 cents\n" in shown.out
    assert "drafts    2600 cents in all\nevidence  holds: both drafts were made, once each" in shown.out
    assert list(tmp_path.iterdir()) == []


def test_the_demo_heeds_no_configuration_and_leaves_its_page_up_on_request(tmp_path: Path) -> None:
    (tmp_path / "longshift.toml").write_text('task_queue = "elsewhere"\ndefault_agent = "nobody"\n', encoding="utf-8")
    env = clean_environment(TEMPORAL_ADDRESS="127.0.0.1:1", LONGSHIFT_TASK_QUEUE="elsewhere")

    with subprocess.Popen(
        [LONGSHIFT, "demo", "--keep", "--json"], env=env, cwd=tmp_path, stdout=subprocess.PIPE
    ) as demo:
        assert demo.stdout
        document = json.loads(demo.stdout.readline())
        with urlopen(document["page"]) as page:
            assert page.status == 200
        api = document["page"].replace("/namespaces/", "/api/v1/namespaces/").removesuffix("/history")
        workflow, run = api.rsplit("/", 2)[1:]
        with urlopen(f"{api.rsplit('/', 1)[0]}?execution.runId={run}") as answer:
            assert json.load(answer)["workflowExecutionInfo"]["execution"] == {"workflowId": workflow, "runId": run}
        demo.send_signal(signal.SIGINT)
        rest, _ = demo.communicate(timeout=PATIENCE)

    assert (demo.returncode, rest) == (0, b"")
    assert (document["run_id"], document["drafts"], document["drafts_cents"]) == (workflow, DRAFTS, 2600)
    assert document["evidence"] is True


def test_a_worker_killed_in_the_middle_of_a_model_call_does_not_hurt_the_shift() -> None:
    shown = longshift("demo", "--crash", "--json", env=clean_environment())

    document = shown.document
    assert (shown.code, document["status"], document["evidence"]) == (0, "COMPLETED", True)
    assert (document["drafts"], document["tool_calls"], document["messages"]) == (DRAFTS, 3, 8)
    assert "kill -9" in shown.err
    assert "was killed by signal 9 and is started again" in shown.err
    assert "its worker gives no sign of life any more" in shown.err
    assert document["working_seconds"] >= HELD_BACK_MS / 1000


def test_a_demo_of_orders_loses_a_reply_asks_what_came_of_it_and_orders_nothing_twice(tmp_path: Path) -> None:
    shown = longshift("demo", "--orders", env=clean_environment(TMPDIR=str(tmp_path)), cwd=tmp_path)

    assert shown.code == 0, shown
    found = re.search(r"^supplier  PO-1: 6 x SKU-VANILLA, key (.*)/2/0/order-v$", shown.out, re.MULTILINE)
    assert found, shown
    run_id = found[1]
    assert f"supplier  PO-2: 4 x SKU-STRAWBERRY, key {run_id}/2/1/order-s\n" in shown.out
    assert "shift     PO-1: order-v\nshift     PO-2: order-s\n" in shown.out
    assert "evidence  holds: 2 orders at the supplier, 2 in the shift, none twice\n" in shown.out
    happened = """--happened '{"order": "PO-2", "sku": "SKU-STRAWBERRY", "quantity": 4}'"""
    assert re.findall("longshift (?:approve|resolve) .*", shown.err) == [
        f"longshift approve {run_id} order-v",
        f"longshift approve {run_id} order-s",
        f"longshift resolve {run_id} order-s {happened}",
    ]
    assert "kill -9" in shown.err
    order = 'place_order {"quantity":4,"sku":"SKU-STRAWBERRY"}'
    assert f"{order}: its worker gives no sign of life any more" in shown.out
    assert f"{order}: it may or may not have happened" in shown.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("other", [["--crash"], ["--live", "--endpoint", "http://127.0.0.1:9/v1", "--model", "m"]])
def test_a_demo_of_orders_goes_with_no_other_kind(other: Sequence[str]) -> None:
    longshift("demo", "--orders", *other, env=clean_environment()).refused(
        f"{other[0]}: does not go with --orders; leave out one of the two"
    )


@contextmanager
def chat_server(turns: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server of chat completions: its base URL, and the requests that it got. It has no turn without a transcript
    that asks for it, and refuses every key where it has none at all."""
    requests: list[dict[str, Any]] = []

    class Chat(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            done = sum(message["role"] == "assistant" for message in requests[-1]["messages"])
            body = json.dumps(completion(turns[done]) if turns else {"error": "no such key"}).encode()
            self.send_response(200 if turns else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Chat) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", requests
        finally:
            server.shutdown()
            thread.join()


def completion(turn: dict[str, Any]) -> dict[str, Any]:
    """An authored turn as a server of chat completions would say it."""
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
        }
        for call in turn["calls"]
    ]
    message = {"role": "assistant", "content": turn["content"], "tool_calls": calls or None}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"choices": [choice], "usage": {"prompt_tokens": 40, "completion_tokens": 9}}


def test_a_live_demo_runs_the_same_shift_against_a_server() -> None:
    with chat_server(json.loads(SHOP_TURNS.read_text(encoding="utf-8"))["turns"]) as (url, requests):
        key = {"LONGSHIFT_ENDPOINTS__LIVE__API_KEY_ENV": "LONGSHIFT_KEY", "LONGSHIFT_KEY": "planted-key"}
        env = clean_environment(LONGSHIFT_ENDPOINTS__LIVE__REASONING_EFFORT="none", **key)
        shown = longshift("demo", "--live", "--endpoint", url, "--model", "1", "--json", env=env)

    document = shown.document
    assert (shown.code, document["status"], document["drafts"]) == (0, "COMPLETED", DRAFTS)
    assert document["output_tokens"] == 27
    assert [(request["model"], request["reasoning_effort"]) for request in requests] == [("1", "none")] * 3


def test_a_live_demo_whose_server_refuses_ends_with_1_and_says_why() -> None:
    with chat_server(()) as (url, _):
        shown = longshift("demo", "--live", "--endpoint", url, "--model", "m", env=clean_environment())

    assert shown.code == 1
    assert "status    MODEL_FAILED: " in shown.out
    assert "401" in shown.out
    assert "evidence  fails: no draft was made" in shown.out
