"""How the journal reaches its database: SQLite on a file, or PostgreSQL. The one place that knows the drivers.

All statements of this room stand in plain functions of a connection. A `Database` runs such a function in one
transaction: for SQLite on a thread of its own (one hop a transaction; through aiosqlite, which hops for every
statement, a transaction of six took five times the time), for PostgreSQL on the event loop, through asyncpg.
"""

import asyncio
import math
import os
import random
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import InitVar, dataclass
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
_Identity = tuple[int, int]
"""Device and inode of a file, which stay with it under any name."""

BUSY_SECONDS = 10.0
"""Seconds a SQLite connection waits for another process's write. A transaction here takes milliseconds."""
BUSY_PAUSE_SECONDS = 0.02
"""Seconds between two tries where SQLite does not wait by itself."""
MOST_MARK = 2**31 - 1
"""The highest mark of a SQLite file; see `_Sqlite`."""
CONNECT_SECONDS = 10.0
"""Seconds a connection to PostgreSQL may take."""
CONNECTIONS = 10
"""Connections to PostgreSQL one process may hold; a server accepts 100 by default."""

_REMEDIES = {
    "SQLITE_BUSY": "another process holds its write lock: find and end that transaction, then try again",
    "SQLITE_LOCKED": "another connection holds its lock: find and end that transaction, then try again",
    "SQLITE_FULL": "its disk is full: free some space",
    "SQLITE_IOERR": "its disk fails, is full or is read-only: check the disk, and that it is mounted for writing",
    "SQLITE_CANTOPEN": "the file cannot be opened: check the path and the rights to its folder",
    "SQLITE_READONLY": "the file cannot be written: check the rights to it and to its folder, and the disk's",
    "SQLITE_PERM": "the file cannot be opened: check the rights to it",
    "SQLITE_NOTADB": "the file is no SQLite database: point the URL at another path",
    "SQLITE_CORRUPT": "the file is damaged: restore it from a backup, without the -wal and -shm files that lie beside "
    "it, or rebuild it from the workflow histories",
    "08": "check that PostgreSQL runs at this address and can be reached",
    "25006": "it lets nobody write, as a standby does: point the URL at its primary",
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
        self.shown = shown(url)
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


def shown(url: URL) -> str:
    """A database's URL as people may see it."""
    return url.set(query={}).render_as_string(hide_password=True)


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
    """One thread writes, so that writers of this process queue without polling for the lock; one reads beside it.

    SQLite goes on writing to a file that was deleted or moved away, and would make a new one in its place. So each
    transaction looks first whether the path still leads to the file that is open, and no other journal, told by its
    mark, is taken in its place. Nor is a copy, where the log of the file that was open still lies beside it: SQLite
    would take that for the copy's own, and a backup with the log of what came after it is a damaged file.
    """

    _not_there = "SQLITE_CANTOPEN"

    def __init__(self, url: URL) -> None:
        super().__init__(url)
        self._file = Path(url.database or "").absolute()
        with self._border():
            self._file.parent.mkdir(parents=True, exist_ok=True)
        self._path = str(self._file)
        self._mark: int | None = None
        """What tells this journal from others; none: not connected yet."""
        plain = url.set(drivername="sqlite", query={})
        self._writer = _Lane("journal-writer", _engine(plain, "BEGIN IMMEDIATE", self._connect), self._path)
        self._reader = _Lane("journal-reader", _engine(plain, "BEGIN", self._connect), self._path)
        self._lanes = (self._writer, self._reader)

    async def write(self, work: Work[T]) -> T:
        return await self._run(self._writer, work)

    async def read(self, work: Work[T]) -> T:
        return await self._run(self._reader, work)

    async def close(self) -> None:
        for lane in self._lanes:
            await asyncio.get_running_loop().run_in_executor(lane.thread, lane.leave)
            lane.thread.shutdown(wait=False)

    async def _run(self, lane: "_Lane", work: Work[T]) -> T:
        asked = time.monotonic()
        with self._border():
            return await asyncio.get_running_loop().run_in_executor(lane.thread, self._transact, lane, work, asked)

    def _transact(self, lane: "_Lane", work: Work[T], asked: float) -> T:
        if asked < lane.refused_at:  # the lock was waited for meanwhile: to wait for it in turn would add up
            raise JournalUnavailable(lane.refused)
        self._look(lane)
        try:
            connection = lane.connection()
            with connection.begin():
                return work(connection)
        except (DBAPIError, sqlite3.Error) as error:
            cause = (error.orig or error) if isinstance(error, DBAPIError) else error
            if getattr(cause, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
                lane.refused, lane.refused_at = str(self._unavailable(cause)), time.monotonic()
            raise

    def _look(self, lane: "_Lane") -> None:
        """Connect anew where another file stands at the path. Raises JournalUnavailable where none does."""
        there = _found(self._path)
        if there is None:
            if self._mark is None:
                return
            raise JournalUnavailable(
                f"the journal {self.shown} cannot be used: its file is gone; bring it back to where it was"
            )
        if there != lane.opened:
            log = _found(f"{self._path}-wal")
            if log is not None and any(one.log == log and one.opened != there for one in self._lanes):
                raise JournalUnavailable(
                    f"the journal {self.shown} cannot be used: another file stands in its place, beside the log of the "
                    f"one that was open; if it is a backup, remove {self._file.name}-wal and {self._file.name}-shm; if "
                    "it is that very file, copied back, restart this process"
                )
            lane.leave()
            lane.opened = there

    def _connect(self) -> sqlite3.Connection:
        mode = "rwc" if self._mark is None else "rw"
        connection = sqlite3.connect(
            f"{self._file.as_uri()}?mode={mode}", uri=True, timeout=BUSY_SECONDS, check_same_thread=False
        )
        try:
            connection.isolation_level = None  # the driver would begin by itself, late and deferred
            self._recognize(connection)
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")  # a commit is on the disk: an effect may follow it
            connection.execute("SELECT * FROM sqlite_schema LIMIT 1").fetchall()  # opens the log
        except BaseException:
            connection.close()
            raise
        return connection

    def _recognize(self, connection: sqlite3.Connection) -> None:
        """Note the mark of the journal, and give it one where it has none; or hold it against the one that is known.

        Raises JournalUnavailable where it is another journal, since a run's history would go on without its past, and
        where it is another program's file.
        """
        mark = _mark_of(connection)
        if self._mark is not None and mark != self._mark:
            raise JournalUnavailable(
                f"the journal {self.shown} cannot be used: another file stands in its place, which is not the journal "
                "that was open; bring that one back, or restart this process where the other one is meant"
            )
        if mark == 0:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if tables and "runs" not in tables:
                raise JournalUnavailable(
                    f"the journal {self.shown} cannot be used: the file holds another program's tables; give the "
                    "journal a file of its own"
                )
            connection.execute("BEGIN IMMEDIATE")
            mark = _mark_of(connection) or random.randint(1, MOST_MARK)
            connection.execute(f"PRAGMA user_version = {mark}")
            connection.execute("COMMIT")
        self._mark = mark


@dataclass
class _Lane:
    """One connection to a SQLite file, and the thread that alone uses it."""

    name: InitVar[str]
    engine: Engine
    path: str
    opened: _Identity | None = None
    """The file that is open."""
    log: _Identity | None = None
    """Its log, while a connection is open."""
    refused: str = ""
    """What was said when the lock was last waited for in vain."""
    refused_at: float = -math.inf
    """When, by the monotonic clock."""

    def __post_init__(self, name: str) -> None:
        self.thread = ThreadPoolExecutor(1, name)
        self._kept: Connection | None = None

    def connection(self) -> Connection:
        """The connection, opened where it is not; to fetch and give it back each time would cost as two statements."""
        if self._kept is None:
            self._kept = self.engine.connect()
            self.opened = self.opened or _found(self.path)  # a new file had none before
            self.log = _found(f"{self.path}-wal")
        return self._kept

    def leave(self) -> None:
        """Close the connection."""
        kept, self._kept, self.log = self._kept, None, None
        if kept is not None:
            kept.close()
        self.engine.dispose()


def _found(path: str) -> _Identity | None:
    """The file at a path; None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  on the way of every transaction; pathlib's takes twice the time
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _mark_of(connection: sqlite3.Connection) -> int:
    """The number in the file's header that is left to applications; 0 in a new file."""
    mark: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return mark


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Put the file into WAL mode, where it stays.

    While another connection writes, or makes this very change, SQLite refuses it at once instead of waiting: workers
    that start together on a new file would turn each other away.
    """
    until = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > until:
                raise
            time.sleep(BUSY_PAUSE_SECONDS)


def _engine(url: URL, begin: str, connect: Callable[[], sqlite3.Connection]) -> Engine:
    engine = create_engine(url, creator=connect, pool_size=1, max_overflow=0, hide_parameters=True)

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        assert connection.connection.dbapi_connection is not None
        connection.connection.dbapi_connection.cursor().execute(begin)  # as store.prepared does

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
