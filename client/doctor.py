"""Whether all that shifts need is there: each check by itself, bounded in time, its text with the remedy.

Nothing is changed, and nothing is paid unless it is asked for. The checks see what this machine and this environment
see, so they are run where a worker runs.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError

from activities.attributes import lacking
from client import doctor_outside
from client.findings import Finding
from store.errors import JournalUnavailable
from store.examining import examine
from worker import telemetry
from worker.agents import load_agents
from worker.connection import NoServer, connect
from worker.problems import SettingsRefused
from worker.settings import Settings

T = TypeVar("T")

REGISTER = "register them with: longshift search-attributes"
"""What helps where the server lacks some."""
CHECK_SECONDS = 20.0
"""Seconds for one check, and for an MCP server to answer; a model call has its endpoint's own time-out."""
CLOSE_SECONDS = 10.0
"""Seconds for an MCP server to end again."""

Check = Coroutine[Any, Any, Sequence[Finding]]


def well(findings: Sequence[Finding]) -> bool:
    """Whether none of them says that something is wrong."""
    return all(found.state != "wrong" for found in findings)


async def findings(
    settings: Settings, *, live: bool = False, environ: Mapping[str, str] = os.environ
) -> AsyncIterator[Finding]:
    """Check everything at once; what was found comes in a fixed order, as soon as all before it is there.

    Args:
        settings: the configuration.
        live: whether to send each endpoint one short model call, which may be billed.
        environ: the environment, for keys.
    """
    checks = [
        _bounded("server", None, _server(settings), "see what holds it up"),
        _bounded("journal", None, _journal(settings.journal.url), "see what holds it up"),
        _bounded("telemetry", None, _telemetry(settings), f"install {telemetry.EXTRA} anew"),
        _bounded("agents", None, _agents(settings), "mend what their modules do while they are imported"),
    ]
    for name, config in settings.endpoints.items():
        check = doctor_outside.endpoint(settings, name, config, environ, live=live)
        further = (config.timeout_seconds or 0.0) * live
        checks.append(_bounded("endpoint", name, check, "see whether its server is up, and not overloaded", further))
    for name in settings.mcp_servers:
        check = doctor_outside.mcp_server(settings, name, environ, CHECK_SECONDS)
        checks.append(_bounded("mcp server", name, check, "see why it does not end", CLOSE_SECONDS))
    tasks = [asyncio.create_task(check) for check in checks]
    for task in tasks:
        for found in await task:
            yield found


async def _bounded(
    check: str, name: str | None, work: Check, remedy: str, further_seconds: float = 0.0
) -> Sequence[Finding]:
    """What `work` found; that it took too long, or failed in a way that nobody thought of, is a finding too."""
    seconds = CHECK_SECONDS + further_seconds
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        return [Finding(check, name, "wrong", f"not done within {seconds:g} s; {remedy}")]
    except Exception as error:  # its text might hold what must not be shown
        text = f"the check itself failed with {type(error).__name__}; please report it"
        return [Finding(check, name, "wrong", text)]


async def _server(settings: Settings) -> Sequence[Finding]:
    """The server, and what only it can tell."""
    found = partial(Finding, "server", None)
    try:
        client = await connect(settings)
    except (NoServer, SettingsRefused) as error:
        why = "the server could not be asked"
        asked = [Finding(check, None, "skipped", why) for check in ("search attributes", "worker")]
        return [found("wrong", str(error)), *asked]
    address = client.service_client.config.target_host
    return [
        found("ok", f"answers at {address}, namespace {client.namespace}{await _version(client)}"),
        await _search_attributes(client),
        await _worker(client, settings.task_queue),
    ]


async def _version(client: Client) -> str:
    try:
        return f", Temporal {(await client.workflow_service.get_system_info(GetSystemInfoRequest())).server_version}"
    except RPCError:
        return ""


async def _search_attributes(client: Client) -> Finding:
    found = partial(Finding, "search attributes", None)
    try:
        missing = await lacking(client)
    except RPCError as error:
        return found("note", f"the server does not tell which it has ({error.status.name}); runs do without them")
    if not missing:
        return found("ok", "the server has all that runs set")
    names = ", ".join(sorted(missing))
    return found("wrong", f"the server does not have {names}, or not with their types; {REGISTER}")


async def _worker(client: Client, queue: str) -> Finding:
    """Whether a worker polls. None is no fault: a worker may be about to start where this is asked."""
    found = partial(Finding, "worker", None)
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )
    try:
        pollers = (await client.workflow_service.describe_task_queue(request)).pollers
    except RPCError as error:
        return found("note", f"the server does not tell who polls the queue {queue} ({error.status.name})")
    if not pollers:
        return found("note", f"none was seen on the queue {queue} in the last minutes; start one: longshift worker")
    return found("ok", f"{len(pollers)} on the queue {queue}: {', '.join(sorted(p.identity for p in pollers))}")


async def _journal(url: str) -> Sequence[Finding]:
    found = partial(Finding, "journal", None)
    try:
        journal = await examine(url)
    except JournalUnavailable as error:
        return [found("wrong", str(error))]
    has, wants = journal.revision, journal.expected
    if has is None:
        return [found("note", f"{journal.shown} has no tables yet; the first worker or client makes them")]
    if has < wants:
        text = f"has the schema {has}; the next worker or client brings it to {wants}, which older workers cannot use"
        return [found("note", f"{journal.shown} {text}")]
    if has > wants:
        text = f"has the schema {has}, newer than this version's {wants}; install the version that its workers have"
        return [found("wrong", f"{journal.shown} {text}")]
    return [found("ok", f"{journal.shown} can be written, schema {has}")]


async def _telemetry(settings: Settings) -> Sequence[Finding]:
    on = settings.telemetry
    if problem := telemetry.missing(settings):
        return [Finding("telemetry", None, "wrong", problem)]
    told = [f"metrics at {on.prometheus}"] if on.prometheus else []
    told += ["traces with content" if on.content else "traces"] if on.traces else []
    told += ["a log in JSON"] if on.log_format == "json" else []
    return [Finding("telemetry", None, "ok", ", ".join(told) or "off")]


async def _agents(settings: Settings) -> Sequence[Finding]:
    """Whether their modules, and those of their tools, can be imported."""
    try:
        agents = await in_thread(partial(load_agents, settings))
    except SettingsRefused as error:
        return [Finding("agents", None, "wrong", problem) for problem in error.problems]
    told = [f"{name} ({len(agent.tools)} tools of its own)" for name, agent in sorted(agents.items())]
    return [Finding("agents", None, "ok", ", ".join(told))]


async def in_thread(function: Callable[[], T]) -> T:
    """What `function` returns, in a thread that nothing waits for: a user's module may take for ever."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_it: Callable[[Any], None], value: object) -> None:
        if not done.done():
            set_it(value)

    def run() -> None:
        try:
            value = function()
        except BaseException as error:
            outcome = partial(settle, done.set_exception, error)
        else:
            outcome = partial(settle, done.set_result, value)
        if not loop.is_closed():
            loop.call_soon_threadsafe(outcome)

    threading.Thread(target=run, name="doctor", daemon=True).start()
    return await done
