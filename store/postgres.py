"""The journal in PostgreSQL: each transaction on the event loop, through asyncpg."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import asyncpg  # type: ignore[import-untyped]  # ships no types
from sqlalchemy import URL, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from store.database import Database, T, Work
from store.errors import JournalUnavailable

CONNECT_SECONDS = 10.0
"""Seconds a connection to PostgreSQL may take, where the URL says nothing else."""
CONNECTIONS = 10
"""Connections to PostgreSQL one process may hold; a server accepts 100 by default."""
LOCK_SECONDS = 10.0
"""Seconds a statement waits for another session's lock, as SQLite's do. A transaction here takes milliseconds."""
IDLE_SECONDS = 5.0
"""Seconds a session may stand still in a transaction until the server ends it: less than others wait for its locks."""
POOL_SECONDS = 20.0
"""Seconds a transaction waits for a connection, where all are at work: two waits for a lock."""
ANSWER_SECONDS = 30.0
"""Seconds a transaction may take, its waits included. A server that is gone without a word would never answer. Less
than a tool's usual time-out, so that a step is told of the journal before its own time is over."""
CLOSE_SECONDS = 2.0
"""Seconds that connections may take to say good-bye to the server."""

_SQLALCHEMYS = ("host", "port", "prepared_statement_cache_size")
"""Parameters of a URL that SQLAlchemy reads."""
_FILES = ("sslcert", "sslcrl", "sslkey", "sslrootcert")
"""Parameters that name a file, of which asyncpg says only that it is not there."""

_OWN = ("default_transaction_isolation", "idle_in_transaction_session_timeout", "lock_timeout")
"""Settings of a session that the journal relies on; see `_connect`."""


class Postgres(Database):
    """One pool of asyncpg connections, on the event loop that uses it.

    A worker that stands still in a transaction, or whose machine is gone, keeps its locks for as long as its session
    lasts. So the server ends such a session, and nobody waits for a lock or for an answer without end.
    """

    _not_there = "08"

    def __init__(self, url: URL) -> None:
        super().__init__(url)
        try:
            url, given = _arguments(url)
            self._writer = create_async_engine(
                url,
                pool_size=CONNECTIONS,
                max_overflow=0,
                pool_timeout=POOL_SECONDS,
                hide_parameters=True,
                connect_args=given | {"async_creator_fn": _connect},
            )
        except (ArgumentError, ValueError) as error:
            raise JournalUnavailable(
                f"the journal {self.shown} cannot be used: {error}; correct the parameters of its URL"
            ) from error
        # It logs a connection that is lost while it is closed, with a traceback; here that is told in words, or not.
        logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
        event.listen(self._writer.sync_engine, "handle_error", _give_up_all)
        self._reader = self._writer.execution_options(isolation_level="REPEATABLE READ")

    async def write(self, work: Work[T]) -> T:
        return await self._run(self._writer, work)

    async def read(self, work: Work[T]) -> T:
        return await self._run(self._reader, work)

    async def _run(self, engine: AsyncEngine, work: Work[T]) -> T:
        with self._border():
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await _transact_again(engine, work)
            except TimeoutError as error:
                raise TimeoutError("no answer in time") from error  # its own has no words
            except PoolTimeoutError as error:
                raise JournalUnavailable(
                    f"the journal {self.shown} cannot be used: all connections of this process are at work; find what "
                    "holds the locks that they wait for"
                ) from error

    async def close(self) -> None:
        with self._border(), suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.dispose()


def _arguments(url: URL) -> tuple[URL, dict[str, Any]]:
    """What SQLAlchemy is given for a URL, and what it is to give asyncpg beside that.

    asyncpg reads libpq's parameters where they stand in a URL, and hands what it does not know to the server, which
    takes it for a setting or refuses it by name.

    Raises ValueError for a parameter that would not be kept, or would be refused without its name.
    """
    query = dict(url.query)
    sqlalchemys = {name: query.pop(name) for name in _SQLALCHEMYS if name in query}
    if "ssl" in query:  # as SQLAlchemy has it
        query["sslmode"] = query.pop("ssl")
    if query.pop("channel_binding", None) == "require":
        raise ValueError("channel_binding=require is more than asyncpg can do")
    for name in _OWN:
        if name in query:
            raise ValueError(f"{name} is set by Longshift itself")
    for name in _FILES:
        if name in query and not Path(str(query[name])).is_file():
            raise ValueError(f"there is no file {query[name]!r}, its {name}")
    timeout = query.pop("connect_timeout", "0")
    try:
        seconds = float(str(timeout))
    except ValueError:
        raise ValueError(f"connect_timeout={timeout} is no number of seconds") from None
    given = {
        "dsn": f"postgresql://?{urlencode(query, doseq=True)}",
        "timeout": seconds if seconds > 0 else CONNECT_SECONDS,
    }
    return url.set(drivername="postgresql+asyncpg", query=sqlalchemys), given


def _give_up_all(context: ExceptionContext) -> None:
    """Let a connection that is lost, or that gave no answer in time, take with it all that are older than its loss.
    SQLAlchemy would not after a time-out, and each would be waited for in turn."""
    context.invalidate_pool_on_disconnect = context.is_disconnect


async def _connect(**given: Any) -> Any:
    connection = await asyncpg.connect(**given)
    try:
        # Not among the parameters of the connection, of which a pooler between here and the server refuses most.
        await connection.execute(
            f"SET lock_timeout = {LOCK_SECONDS * 1000:.0f};"
            f"SET idle_in_transaction_session_timeout = {IDLE_SECONDS * 1000:.0f};"
            "SET default_transaction_isolation = 'read committed'"  # who waited for a lock sees what was done under it
        )
    except BaseException:
        connection.terminate()
        raise
    return connection


async def _transact_again(engine: AsyncEngine, work: Work[T]) -> T:
    """Run `work` in a transaction, and once more where its connection was lost: the server was restarted, or has ended
    a session that stood still.

    To ask before each transaction whether the connection still lives would cost as much as a short transaction does.
    """
    try:
        return await _transact(engine, work)
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
    return await _transact(engine, work)


async def _transact(engine: AsyncEngine, work: Work[T]) -> T:
    async with engine.begin() as connection:
        return await connection.run_sync(work)
