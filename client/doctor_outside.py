"""Whether model endpoints and MCP servers answer, and their keys are there."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from client.findings import Finding
from client.inert import short
from endpoints.base import Request
from endpoints.config import EndpointConfig, ReplayConfig, ServerConfig
from endpoints.factory import open_endpoint
from endpoints.server import Listing, ServerEndpoint
from endpoints.transport import key_problem
from longshift.limits import cents
from longshift.messages import Message, UserMessage
from longshift.turns import CallFailed
from toolsets.mcp.errors import ServerAway, ServerUnfit
from worker.settings import Settings

LIVE_TOKENS = 64
"""Output tokens allowed to the one call that `live` sends."""
LIVE_TEXT = "Reply with the word ok."
NOT_ALLOWED = (401, 403)
NO_LIST = (404, 405, 501)
"""Statuses of a server that has no list of its models."""
SHOWN_MODELS = 5
SHOWN_LINES = 3
"""Lines shown of what an MCP server said before it failed."""


async def endpoint(
    settings: Settings, name: str, config: EndpointConfig, environ: Mapping[str, str], *, live: bool
) -> Sequence[Finding]:
    """An endpoint and its key."""
    found = partial(Finding, "endpoint", name)
    try:
        opened = open_endpoint(name, config)
    except ValueError as error:
        return [found("wrong", settings.sources.line(("endpoints", name), str(error)))]
    try:
        if isinstance(config, ReplayConfig):
            return [found("ok", "authored turns")]
        assert isinstance(opened, ServerEndpoint)
        key = _key(settings, name, config, environ)
        if key and key[0].state == "wrong":
            return [*key, found("skipped", "its key cannot be sent")]
        answered = _judged(found, config, await opened.models())
        if live and answered.state != "wrong":
            answered = await _live(found, opened)
        return [*key, answered]
    finally:
        await opened.close()


def _key(settings: Settings, name: str, config: ServerConfig, environ: Mapping[str, str]) -> list[Finding]:
    """Whether the variable that is to hold the key holds one; none where no key is sent."""
    if config.api_key_env is None:
        return []
    problem = key_problem(environ.get(config.api_key_env, ""))
    if problem is None:
        return [Finding("key", name, "ok", f"{config.api_key_env} is set")]
    line = settings.sources.line(("endpoints", name, "api_key_env"), f"{config.api_key_env} {problem}")
    return [Finding("key", name, "wrong", line)]


def _judged(found: "partial[Finding]", config: ServerConfig, listing: Listing) -> Finding:
    """What the answer to the question for its models says of an endpoint."""
    asked = f"GET {config.url}{config.models_path}"
    status, models = listing.status, listing.models
    if status is None or 300 <= status < 400 or status in NOT_ALLOWED or (status >= 500 and status not in NO_LIST):
        why = listing.failure.message if listing.failure else "it did not answer"
        return found("wrong", f"{why} ({asked})")
    if models is None:
        what = f"answers with HTTP {status} and no list of models"
        return found("note", f"{what} ({asked}), so its key and model were not checked; --live checks them")
    if not any(model == config.model or model.startswith(f"{config.model}:") for model in models):
        known = ", ".join(map(short, models[:SHOWN_MODELS])) + (", ..." if len(models) > SHOWN_MODELS else "")
        text = f"answers, and does not list the model {config.model} ({asked}); it lists: {known or 'none'}"
        return found("note", f"{text}; mend `model` where it is misspelt, or check it with --live")
    return found("ok", f"answers, and has the model {config.model} ({asked}; no model call was sent)")


async def _live(found: "partial[Finding]", opened: ServerEndpoint[ServerConfig]) -> Finding:
    """One short model call."""

    async def messages() -> Sequence[Message]:
        return [UserMessage(content=LIVE_TEXT)]

    request = Request(1, LIVE_TOKENS, (), messages, lambda position: f"doctor-{position}")
    try:
        reply = await opened.send(request)
    except CallFailed as failed:
        failure = failed.failure
        if failure.kind == "invalid_turn":  # such as a model that thinks longer than it may say
            return found("note", f"answered one model call, though with no whole turn: {failure.message}")
        return found("wrong", failure.message)
    usage = reply.usage
    cost = "" if reply.cost is None else f", {cents(reply.cost)} cents"
    return found("ok", f"answered one model call: {usage.input_tokens} + {usage.output_tokens} tokens{cost}")


async def mcp_server(settings: Settings, name: str, environ: Mapping[str, str], seconds: float) -> Sequence[Finding]:
    """An MCP server, started or connected to as for a run; it has at most so many seconds to answer."""
    from toolsets.mcp.server import McpServer

    found = partial(Finding, "mcp server", name)
    config = settings.mcp_servers[name]
    hasty = config.model_copy(update={"timeout_seconds": min(config.timeout_seconds, seconds)})
    try:
        server = McpServer(name, hasty, environ)
    except ValueError as error:
        return [found("wrong", settings.sources.line(("mcp_servers", name), str(error)))]
    said = _Said(name)
    try:
        offered = await server.offered()
    except ServerAway as error:
        remedy = "start it, or mend its section; what it is asked for is its list of tools"
        return [found("wrong", f"{error}; {said.last()}{remedy}")]
    except ServerUnfit as error:
        return [found("wrong", settings.sources.line(("mcp_servers", name), text)) for text in error.problems]
    finally:
        said.close()
        await server.close()
    text = f"{short(offered.server.version)}: {len(offered.tools)} tools can be used"
    notes = [found("note", short(note)) for note in offered.notes]
    return [found("ok", text), *notes]


class _Said(logging.Handler):
    """What one server says meanwhile, which otherwise nobody would see; the SDK's own log is left out."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.INFO)
        self._start = f"{name}: "
        self._lines: list[str] = []
        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # as in a worker: what it has to say is said in words
        self._log = logging.getLogger("longshift.mcp")
        self._log.setLevel(logging.INFO)
        self._log.propagate = False
        self._log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line of this server."""
        if (line := record.getMessage()).startswith(self._start):
            self._lines = [*self._lines, line.removeprefix(self._start)][-SHOWN_LINES:]

    def last(self) -> str:
        """The last of it, as a part of a sentence."""
        return f"it said: {' / '.join(map(short, self._lines))}; " if self._lines else ""

    def close(self) -> None:
        """Listen no more."""
        self._log.removeHandler(self)
        super().close()
