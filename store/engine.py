"""How the journal reaches its database: SQLite on a file, here, or PostgreSQL.

SQLite's transactions run on a thread of their own, one hop each: through aiosqlite, which hops for every statement, a
transaction of six took five times the time.
"""

import asyncio
import math
import os
import random
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from store.database import Database, T, Work
from store.errors import JournalUnavailable
from store.postgres import Postgres

_Identity = tuple[int, int]
"""Device and inode of a file, which stay with it under any name."""

BUSY_SECONDS = 10.0
"""Seconds a SQLite connection waits for another process's write. A transaction here takes milliseconds."""
BUSY_PAUSE_SECONDS = 0.02
"""Seconds between two tries where SQLite does not wait by itself."""
MOST_MARK = 2**31 - 1
"""The highest mark of a SQLite file; see `_Sqlite`."""


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
            return Postgres(url)
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
            real = os.path.realpath(self._path)
            log = _found(f"{real}-wal")
            if log is not None and any(one.log == log and one.opened != there for one in self._lanes):
                raise JournalUnavailable(
                    f"the journal {self.shown} cannot be used: another file stands in its place, beside the log of the "
                    f"one that was open; if it is a backup, remove {real}-wal and {real}-shm; if it is that very file, "
                    "copied back, restart this process"
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
            self.log = _found(f"{os.path.realpath(self.path)}-wal")  # SQLite follows links before it names the log
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
