"""A real Temporal server for all tests of a session, in memory, and clients of it."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
from hypothesis import settings
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from client.shifts import Shifts
from longshift.attributes import TYPES
from worker.plugin import longshift_plugin

settings.register_profile("long")  # `--hypothesis-profile long`: many examples, new ones each time

SHORT_HISTORY = 20
"""Events after which `rolling_server` suggests to continue as new; three or four model calls."""


async def started_server(*arguments: str) -> WorkflowEnvironment:
    """A server of its own process, in memory, with further arguments for its command line."""
    return await WorkflowEnvironment.start_local(
        plugins=[longshift_plugin(sandboxed=True)],
        dev_server_existing_path=str(Path(sys.executable).parent / "temporal"),
        dev_server_extra_args=arguments,
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """The server. Tests that use it run on the session's event loop: `pytest.mark.asyncio(loop_scope="session")`."""
    async with await started_server() as environment:
        yield environment


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def rolling_server() -> AsyncIterator[WorkflowEnvironment]:
    """A server on which runs continue as new every few steps."""
    setting = f"limit.historyCount.suggestContinueAsNew={SHORT_HISTORY}"
    async with await started_server("--dynamic-config-value", setting) as environment:
        yield environment


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def knowing() -> AsyncIterator[Client]:
    """A client of a server that has the search attributes of runs."""
    registered = [word for name, kind in TYPES.items() for word in ("--search-attribute", f"{name}={kind}")]
    async with await started_server(*registered) as environment:
        yield environment.client


@pytest.fixture
def client(server: WorkflowEnvironment) -> Client:
    """A client with Longshift's plugin; its workers have it too."""
    return server.client


@pytest.fixture
def queue() -> str:
    """A task queue that no other test uses."""
    return f"queue-{uuid4().hex[:12]}"


@pytest.fixture
def journal_url(tmp_path: Path) -> str:
    """Where this test's journal is."""
    return f"sqlite:///{tmp_path}/journal.db"


@pytest.fixture
def shifts(client: Client, queue: str, journal_url: str) -> Shifts:
    """The typed client."""
    return Shifts(client, queue, journal_url)


@pytest.fixture
def rolling_shifts(rolling_server: WorkflowEnvironment, queue: str, journal_url: str) -> Shifts:
    """The same on a server where runs continue as new every few steps."""
    return Shifts(rolling_server.client, queue, journal_url)
