"""What the tests of this folder share: their houses (see shift_house.py) and the browser."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
import pytest_asyncio

from tests.acceptance.commands import HUNG, Up, kept_up
from tests.acceptance.shift_house import House, Outside
from worker.dev_server import DevServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest_asyncio.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """A server, a model, and room for workers; none of them outlives its test."""
    async with DevServer(tmp_path / "server", ui=False) as server, Outside().open() as outside:
        built = House(tmp_path, server, outside)
        try:
            yield built
        finally:
            await built.end()
            await server.kill()  # an orderly end takes a second


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DevServer]:
    """A server for many tests, which none of them may kill."""
    async with DevServer(tmp_path_factory.mktemp("shared") / "server", ui=False) as server:
        yield server


@pytest_asyncio.fixture
async def house_on_shared_server(shared_server: DevServer, tmp_path: Path) -> AsyncIterator[House]:
    """The same on the shared server, with a run and a queue that no other test has."""
    name = uuid4().hex[:12]
    async with Outside().open() as outside:
        built = House(tmp_path, shared_server, outside, run_id=f"shift-{name}", queue=f"queue-{name}")
        try:
            yield built
        finally:
            await built.end()


@pytest.fixture(scope="module")
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Server and worker for the tests of one file, until Ctrl-C ends both in order; with the file's CONFIG, or else the
    endpoint `hung` alone."""
    with kept_up(tmp_path_factory.mktemp("up"), getattr(request.module, "CONFIG", HUNG)) as up:
        yield up


@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    """A browser for the tests of one file. None of them may be async: Playwright runs a loop while it is up."""
    from tests.acceptance.browser import launched  # which most files never need

    with launched() as browser:
        yield browser
