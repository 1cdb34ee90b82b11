"""What a database does for the journal, and what is said where it cannot.

All statements of this room stand in plain functions of a connection. A `Database` runs such a function in one
transaction.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import asyncpg  # type: ignore[import-untyped]  # ships no types
from sqlalchemy import URL, Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from store.errors import JournalUnavailable

T = TypeVar("T")
Work = Callable[[Connection], T]
"""What is done in one transaction. May be run again by its caller, so it changes nothing but the database."""

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
    "25P03": "this process stood still in a transaction and lost its session: try again, with less to do at once",
    "28": "check the user and the password in the URL",
    "3D": "create the database first: the journal makes its tables, not its database",
    "40": "another transaction came in between: try again in a moment",
    "42501": "give the user the right to create and write tables there",
    "42704": "take that parameter out of the journal's URL",
    "53100": "its disk is full: free some space",
    "53300": "it has no connection left: raise max_connections or run fewer workers",
    "55P03": "another session holds a lock it needs: find and end that transaction (pg_stat_activity lists them), then "
    "try again",
    "57014": "somebody, or a statement_timeout that is set for this user or database, ended the statement: raise it",
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
