"""How the journal reaches its database: SQLite on a file, or PostgreSQL. The one place that knows the drivers.

All statements of this room stand in plain functions of a connection. A `Database` runs such a function in one
transaction: for SQLite on a thread of its own (one hop a transaction; through aiosqlite, which hops for every
statement, a transaction of six took five times the time), for PostgreSQL on the event loop, through asyncpg.
"""

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import asyncpg  # type: ignore[import-untyped]  # ships no types
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from store.errors import JournalUnavailable

T = TypeVar("T")
Work = Callable[[Connection], T]
"""What is done in one transaction. May be run again by its caller, so it changes nothing but the database."""

BUSY_SECONDS = 10.0
"""Seconds a SQLite connection waits for another process's write. A transaction here takes milliseconds."""
CONNECT_SECONDS = 10.0
"""Seconds a connection to PostgreSQL may take."""
CONNECTIONS = 10
"""Connections to PostgreSQL one process may hold; a server accepts 100 by default."""

_REMEDIES = {
    "SQLITE_BUSY": "another process holds its write lock: find and end that transaction, then try again",
    "SQLITE_LOCKED": "another connection holds its lock: find and end that transaction, then try again",
    "SQLITE_FULL": "its disk is full: free some space",
    "SQLITE_IOERR": "its disk fails or is full: check the disk",
    "SQLITE_CANTOPEN": "the file cannot be opened: check the path and the rights to its folder",
    "SQLITE_READONLY": "the file cannot be written: check the rights to it and to its folder",
    "SQLITE_PERM": "the file cannot be opened: check the rights to it",
    "SQLITE_NOTADB": "the file is no SQLite database: point the URL at another path",
    "SQLITE_CORRUPT": "the file is damaged: restore it from a backup, or rebuild it from the workflow histories",
    "08": "check that PostgreSQL runs at this address and can be reached",
    "28": "check the user and the password in the URL",
    "3D": "create the database first: the journal makes its tables, not its database",
    "42501": "give the user the right to create and write tables there",
    "53100": "its disk is full: free some space",
    "53300": "it has no connection left: raise max_connections or run fewer workers",
    "57": "the server is stopping or starting: try again in a moment",
}
"""What helps, by the name of SQLite's error or the start of PostgreSQL's SQLSTATE."""


class Database(ABC):
    """Runs functions of a connection, each in a transaction of its own.

    Raises JournalUnavailable for whatever the database or its driver refuses; all that a function itself raises
    rolls back and comes through.
    """

    _not_there: str
    """The code of _REMEDIES for an error of the operating system."""

    def __init__(self, url: URL) -> None:
        self.shown = url.set(query={}).render_as_string(hide_password=True)
        """The URL as people may see it."""

    @abstractmethod
    async def write(self, work: Work[T]) -> T:
        """Run `work`, commit and return what it returned. On SQLite it holds the write lock from its start: one that
        reads first and asks for the lock later is refused when another process wrote meanwhile."""

    @abstractmethod
    async def read(self, work: Work[T]) -> T:
        """Run `work` on one unchanging view of the data."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what is under way and close all connections."""

    @contextmanager
    def _border(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._unavailable(error.orig or error) from error
        except (SQLAlchemyError, sqlite3.Error, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise self._unavailable(error) from error

    def _unavailable(self, cause: BaseException) -> JournalUnavailable:
        code = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None)
        if code is None and isinstance(cause, OSError):
            code = self._not_there
        remedy = next((text for start, text in _REMEDIES.items() if code and code.startswith(start)), "see the cause")
        said = (str(cause).splitlines() or [""])[0][:200] or type(cause).__name__
        return JournalUnavailable(f"the journal {self.shown} cannot be used: {said}; {remedy}")


def open_database(text: str) -> Database:
    """The database at a URL, not yet connected.

    Takes `sqlite:///relative/path`, `sqlite:////absolute/path` and `postgresql://user:password@host/name`, with or
    without the name of a driver. The folder of a SQLite file is created.

    Raises JournalUnavailable for a URL of another kind.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise JournalUnavailable(
            "the journal's URL cannot be read: write sqlite:///path/of/a/file or postgresql://user:password@host/name"
        ) from None
    match url.get_backend_name():
        case "sqlite" if url.database and url.database != ":memory:":
            return _Sqlite(url)
        case "postgresql" | "postgres":
            return _Postgres(url)
        case "sqlite":
            problem = "a journal in memory would not outlive its process: name a file, as in sqlite:///journal.db"
        case kind:
            problem = f"{kind!r} is not a database that the journal knows: use sqlite:// or postgresql://"
    raise JournalUnavailable(f"the journal's URL: {problem}")


class _Sqlite(Database):
    """One thread writes, so that writers of this process queue without polling for the lock; one reads beside it."""

    _not_there = "SQLITE_CANTOPEN"

    def __init__(self, url: URL) -> None:
        super().__init__(url)
        with self._border():
            Path(url.database or "").parent.mkdir(parents=True, exist_ok=True)
        plain = url.set(drivername="sqlite")
        self._writer = _sqlite_engine(plain, "BEGIN IMMEDIATE")
        self._reader = _sqlite_engine(plain, "BEGIN")
        self._write_thread = ThreadPoolExecutor(1, "journal-writer")
        self._read_thread = ThreadPoolExecutor(1, "journal-reader")

    async def write(self, work: Work[T]) -> T:
        with self._border():
            return await _hop(self._write_thread, self._writer, work)

    async def read(self, work: Work[T]) -> T:
        with self._border():
            return await _hop(self._read_thread, self._reader, work)

    async def close(self) -> None:
        for thread, engine in ((self._write_thread, self._writer), (self._read_thread, self._reader)):
            await asyncio.get_running_loop().run_in_executor(thread, engine.dispose)
            thread.shutdown(wait=False)


async def _hop(thread: ThreadPoolExecutor, engine: Engine, work: Work[T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, _transact, engine, work)


def _transact(engine: Engine, work: Work[T]) -> T:
    with engine.begin() as connection:
        return work(connection)


def _sqlite_engine(url: URL, begin: str) -> Engine:
    engine = create_engine(
        url, pool_size=1, max_overflow=0, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS}
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # the driver would begin by itself, late and deferred
        if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # a commit is on the disk: an effect may follow it

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


class _Postgres(Database):
    """One pool of asyncpg connections, on the event loop that uses it."""

    _not_there = "08"

    def __init__(self, url: URL) -> None:
        super().__init__(url)
        query: dict[str, Any] = dict(url.query)
        if "sslmode" in query:  # libpq's name for it; asyncpg takes the same values under another
            query["ssl"] = query.pop("sslmode")
        self._writer = create_async_engine(
            url.set(drivername="postgresql+asyncpg", query=query),
            pool_size=CONNECTIONS,
            max_overflow=0,
            hide_parameters=True,
            connect_args={"timeout": CONNECT_SECONDS},
        )
        self._reader = self._writer.execution_options(isolation_level="REPEATABLE READ")

    async def write(self, work: Work[T]) -> T:
        return await self._run(self._writer, work)

    async def read(self, work: Work[T]) -> T:
        return await self._run(self._reader, work)

    async def _run(self, engine: AsyncEngine, work: Work[T]) -> T:
        with self._border():
            try:
                return await _transact_async(engine, work)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
            # The server was restarted, which the pool has noticed now. To ask before each transaction whether the
            # connection still lives would cost as much as a short transaction does.
            return await _transact_async(engine, work)

    async def close(self) -> None:
        with self._border():
            await self._writer.dispose()


async def _transact_async(engine: AsyncEngine, work: Work[T]) -> T:
    async with engine.begin() as connection:
        return await connection.run_sync(work)
