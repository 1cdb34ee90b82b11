"""A worker process, put together: settings, journal, endpoints, agents, client, and Temporal's worker over them."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.worker import Worker

from activities.run_activities import Activities
from endpoints.base import Endpoint
from endpoints.factory import open_endpoint
from store.errors import JournalUnavailable
from store.journal import Journal
from worker.agents import load_agents
from worker.connection import NoServer, connect
from worker.ending import CLOSE_SECONDS, StepsAtWork, end
from worker.mcp_servers import keys_in_reach, mcp_servers
from worker.problems import SettingsRefused
from worker.settings import Settings, load_settings
from worker.telemetry import Telemetry
from worker.threads import ToolThreads
from workflows.agent_run import AgentRun

READY = "worker ready"
"""Begins the line on stderr that says that this worker takes work."""
STICKY_SECONDS = 2
"""Seconds that a dead worker's runs wait for it before another one takes them; Temporal's own 10 delays the news."""
HEARTBEAT_THROTTLE_SECONDS = 1
"""Seconds between heartbeats sent: a cancellation arrives with one, and comes late with Temporal's own 60."""
RETRY_SECONDS = 2
"""Seconds between attempts to reach a server that does not answer."""

log = logging.getLogger("longshift.worker")


def main(file: Path | None = None) -> int:
    """Run a worker until it is told to end by SIGTERM or SIGINT; a second signal ends it without its grace.

    Args:
        file: the configuration file, where one is named.

    Returns:
        The exit code: 0 ended when told, 1 failed (another start may help), 2 the configuration must be mended first.
    """
    _log_to_stderr()
    try:
        settings = load_settings(file)
        logging.getLogger().setLevel(settings.worker.log_level.upper())
        asyncio.run(_work(settings, Telemetry(settings)))
    except (SettingsRefused, JournalUnavailable) as error:
        for line in str(error).splitlines():
            log.error("%s", line)
        return 2 if isinstance(error, SettingsRefused) else 1
    except Exception:
        log.exception("the worker failed; its runs go on with the next one")
        return 1
    return 0


async def _work(settings: Settings, telemetry: Telemetry) -> None:
    ending = _signals()
    agents = load_agents(settings)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(telemetry.close)
        journal = await Journal.open(settings.journal.url)
        stack.push_async_callback(journal.close)
        endpoints = _endpoints(settings)
        for endpoint in endpoints.values():
            stack.push_async_callback(endpoint.close)
        servers = mcp_servers(settings)
        if warning := keys_in_reach(settings, agents):
            log.warning("%s", warning)
        for server in servers.values():
            stack.push_async_callback(server.close)
        client = await _server(settings, telemetry, ending)
        if client is None:
            return
        config = settings.worker
        tools = ToolThreads(config.max_concurrent_activities)
        activities = Activities(
            journal,
            agents,
            telemetry.endpoints(endpoints, settings.endpoints, journal),
            settings.endpoints,
            config.heartbeat_seconds,
            tools.run,
            servers,
            config.grace_seconds,
        )
        steps = StepsAtWork()
        worker = Worker(
            client,
            task_queue=settings.task_queue,
            workflows=[AgentRun],
            activities=activities.all(),
            max_cached_workflows=config.max_cached_workflows,
            max_concurrent_activities=config.max_concurrent_activities,
            graceful_shutdown_timeout=timedelta(seconds=config.grace_seconds),
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=STICKY_SECONDS),
            max_heartbeat_throttle_interval=timedelta(seconds=HEARTBEAT_THROTTLE_SECONDS),
            interceptors=[steps, *telemetry.interceptors(journal)],
        )
        async with worker:
            address = client.service_client.config.target_host
            log.info("%s: queue %s at %s, agents %s", READY, settings.task_queue, address, ", ".join(sorted(agents)))
            await ending.wait()
            log.info("ending: steps in flight have %g s to finish", config.grace_seconds)
            if not await end(worker, steps, config.grace_seconds):
                log.warning("something holds the worker past its last step or its grace: it leaves all the same")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await stack.aclose()
                os._exit(0)  # both the loop and Temporal's core would wait for what holds it
    log.info("ended")
    tools.leave()


def _endpoints(settings: Settings) -> dict[str, Endpoint]:
    endpoints: dict[str, Endpoint] = {}
    problems: list[str] = []
    for name, config in settings.endpoints.items():
        try:
            endpoints[name] = open_endpoint(name, config)
        except ValueError as error:
            problems.append(settings.sources.line(("endpoints", name), str(error)))
    if problems:
        raise SettingsRefused(problems)
    return endpoints


async def _server(settings: Settings, telemetry: Telemetry, ending: asyncio.Event) -> Client | None:
    """The connection, waited for: after a power cut, worker and server start in any order. None when told to end."""
    while not ending.is_set():
        try:
            return await connect(settings, telemetry.runtime)
        except NoServer as error:
            log.warning("waiting: %s", error)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS):
                await ending.wait()
    return None


def _signals() -> asyncio.Event:
    """An event that SIGTERM or SIGINT sets; the next one ends the process at once."""
    ending = asyncio.Event()

    def end(number: signal.Signals) -> None:
        if ending.is_set():
            os._exit(128 + number)
        ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    return ending


def _log_to_stderr() -> None:
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    log.setLevel(logging.INFO)  # what a worker says of itself is said at every level
    for chatty in ("alembic", "httpx", "httpx2", "httpcore2"):  # each migration, and each request with its URL
        logging.getLogger(chatty).setLevel(logging.WARNING)
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # tracebacks, with what servers sent, of what we say in words
