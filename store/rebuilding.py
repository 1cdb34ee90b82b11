"""A run's rows as they stand, all tables and all columns, and writing them anew. Functions of one transaction.

Which rows a run must have is not decided here: longshift/audit makes them from the workflow's history.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select, text

from store.tables import DECISIONS, MESSAGES, MODEL_CALLS, REMEMBERED, RUNS, TOOL_CALLS

OF_A_RUN: Mapping[str, Table] = {
    table.name: table for table in (RUNS, MESSAGES, MODEL_CALLS, TOOL_CALLS, DECISIONS, REMEMBERED)
}
"""The tables with rows of runs, by name."""

RunRows = Mapping[str, Sequence[Mapping[str, Any]]]
"""The rows of one run, by table; each by column."""


def read_rows(connection: Connection, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """All rows of a run, in the order of their keys."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, table in OF_A_RUN.items():
        rows = select(table).where(table.c.run_id == run_id).order_by(*table.primary_key.columns)
        found[name] = [dict(row._mapping) for row in connection.execute(rows)]
    return found


def replace_rows(connection: Connection, run_id: str, rows: RunRows, expected: RunRows) -> bool:
    """Let a run have these rows and no others, or find it so. Returns False, and changes nothing, where its rows are
    not the `expected` ones any more: a worker has written meanwhile."""
    if connection.dialect.name == "postgresql":
        # A worker enters a tool call without a lock of its run's row. Runs first, as every writer of several tables.
        connection.execute(text(f"LOCK TABLE {', '.join(OF_A_RUN)} IN EXCLUSIVE MODE"))
    standing = read_rows(connection, run_id)
    if standing != {name: list(expected.get(name, ())) for name in OF_A_RUN}:
        # They are the new ones where the connection was lost with the commit, and the transaction is repeated.
        return all(
            _by_key(table, standing[name]) == _by_key(table, rows.get(name, ())) for name, table in OF_A_RUN.items()
        )
    for name, table in OF_A_RUN.items():
        connection.execute(delete(table).where(table.c.run_id == run_id))
        if rows.get(name):
            connection.execute(insert(table), [dict(row) for row in rows[name]])
    return True


def _by_key(table: Table, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows by their keys: each database has an order of texts of its own."""
    return {tuple(row[column.name] for column in table.primary_key): dict(row) for row in rows}
