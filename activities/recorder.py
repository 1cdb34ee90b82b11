"""What all activities hold, and how they record what came of a step."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from temporalio import activity

from activities.heartbeat import say
from activities.toolbox import Toolbox
from endpoints.base import Endpoint
from endpoints.config import EndpointConfig
from longshift import observations
from longshift.agent import Agent
from longshift.executions import execution
from store.errors import JournalUnavailable
from store.journal import Journal

if TYPE_CHECKING:
    from toolsets.mcp.server import McpServer

Settled = TypeVar("Settled")

SETTLE_PAUSE_SECONDS = 1.0
"""Seconds between attempts to record a reply that was paid for while the journal is away."""


class Recorder:
    """The clients that the worker hands to its activities."""

    def __init__(
        self,
        journal: Journal,
        agents: Mapping[str, Agent],
        endpoints: Mapping[str, Endpoint],
        endpoint_configs: Mapping[str, EndpointConfig],
        heartbeat_seconds: float,
        in_thread: observations.InThread = asyncio.to_thread,
        mcp_servers: "Mapping[str, McpServer]" = MappingProxyType({}),
        grace_seconds: float = 0.0,
    ) -> None:
        self._journal = journal
        self._agents = agents
        self._endpoints = endpoints
        self._endpoint_configs = endpoint_configs
        self._heartbeat_seconds = heartbeat_seconds
        self._in_thread = in_thread
        self._grace_seconds = grace_seconds
        self._toolbox = Toolbox(agents, mcp_servers)

    async def _settle(self, write: Callable[[], Awaitable[Settled]]) -> Settled:
        """Record what came of a call. It may have been paid for or have changed the world, so a journal that is away
        is waited for, as long as this attempt lives."""
        while True:
            try:
                settled = await write()
            except JournalUnavailable as error:
                activity.logger.warning("the journal is away, a result waits for it: %s", error)
                say(f"the journal is away, a result waits for it: {error}")
                await asyncio.sleep(SETTLE_PAUSE_SECONDS)
            else:
                say()
                return settled


def sender() -> str:
    """This one execution, as the journal names it: what it began, it may go on with, and no other may."""
    info = activity.info()
    assert info.workflow_run_id is not None
    return execution(info.workflow_run_id, info.activity_id, info.started_time)


def milliseconds(began: float) -> int:
    """Milliseconds since `began`, a reading of the monotonic clock."""
    return int((time.monotonic() - began) * 1000)
