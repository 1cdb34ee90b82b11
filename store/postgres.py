"""The journal in PostgreSQL: each transaction on the event loop, through asyncpg."""

from typing import Any

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from store.database import Database, T, Work

CONNECT_SECONDS = 10.0
"""Seconds a connection to PostgreSQL may take."""
CONNECTIONS = 10
"""Connections to PostgreSQL one process may hold; a server accepts 100 by default."""


class Postgres(Database):
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
