"""The house that the tests of this folder share: see shift_house.py."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.acceptance.shift_house import House, Outside
from worker.dev_server import DevServer


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
