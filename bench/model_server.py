"""A server of OpenAI-compatible chat completions that gives the authored turns, for `longshift_http`."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from bench import script

OBSERVATION = re.compile(rb'"role":\s*"tool"')


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = re.search(rb"Read the \d+ parts", body)
        assert asked is not None
        number = sum(1 for _ in OBSERVATION.finditer(body)) + 1  # parsing a long transcript would take longer
        answer = json.dumps(_completion(number, script.asked(asked.group().decode()))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _completion(number: int, steps: int) -> dict[str, object]:
    call = {
        "id": script.call_id(number),
        "type": "function",
        "function": {"name": script.TOOL, "arguments": json.dumps({"number": number})},
    }
    message: dict[str, object] = {"role": "assistant", "content": script.remark(number), "tool_calls": [call]}
    if number > steps:
        message = {"role": "assistant", "content": script.ANSWER}
    choice = {"index": 0, "finish_reason": "stop" if number > steps else "tool_calls", "message": message}
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": script.OUTPUT_TOKENS, "total_tokens": 121},
    }


@contextlib.contextmanager
def model_server() -> Iterator[str]:
    """The server, up inside `with`, on a thread of ours; its base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
