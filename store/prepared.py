"""The statements that every step runs, compiled once.

SQLAlchemy builds each execution anew: context, cursor, result. Of the eight statements of a step that was two thirds of
the CPU time of the journal's thread. On SQLite, where nothing waits between a statement and its rows, they go to the
driver as they were compiled; on PostgreSQL, whose driver SQLAlchemy adapts, they take the ordinary way.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import CompoundSelect, Connection, Row, Select
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.types import TypeEngine

Statement = Select[Any] | CompoundSelect[Any] | UpdateBase
Values = Mapping[str, Any]
"""The values of a statement's parameters, and those of the columns that it sets, by name."""

_NAMED = sqlite.dialect(paramstyle="named")


class Prepared:
    """A statement whose text does not depend on its values: without an IN of a list, or a column's own default."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._compiled: dict[tuple[str, ...], _Compiled] = {}

    def rows(self, connection: Connection, values: Values) -> Sequence[Row[Any]]:
        """Run it. Returns all of its rows; none where it returns none."""
        if connection.dialect.name != _NAMED.name:
            result = connection.execute(self._statement, values)
            return result.all() if result.returns_rows else ()
        compiled = self._for(values)
        cursor = _driver(connection).execute(compiled.text, compiled.bound(values))
        return compiled.read(cursor.fetchall())

    def row(self, connection: Connection, values: Values) -> Row[Any] | None:
        """Run it. Returns its first row; None where there is none."""
        rows = self.rows(connection, values)
        return rows[0] if rows else None

    def each(self, connection: Connection, values: Sequence[Values]) -> None:
        """Run it once with each of `values`, which name the same."""
        if connection.dialect.name != _NAMED.name:
            connection.execute(self._statement, values)
            return
        compiled = self._for(values[0])
        _driver(connection).executemany(compiled.text, map(compiled.bound, values))

    def _for(self, values: Values) -> "_Compiled":
        names = tuple(values)
        if names not in self._compiled:
            self._compiled[names] = _Compiled(self._statement, values)
        return self._compiled[names]


class _Compiled:
    """The text of a statement for values of some names, and how they and the rows are converted."""

    def __init__(self, statement: Statement, values: Values) -> None:
        compiled = statement.compile(dialect=_NAMED, column_keys=list(values))
        assert not compiled.insert_prefetch, "a column's default is not asked for: name its value"
        self.text = str(compiled)
        assert "POSTCOMPILE" not in self.text, "the text of an IN depends on its list"
        parameters = compiled.construct_params(dict(values))
        self._fixed = {name: value for name, value in parameters.items() if name not in values}
        self._write = {
            name: convert
            for name in parameters
            if (convert := _implementation(compiled.binds[name].type).bind_processor(_NAMED))
        }
        columns = statement.exported_columns
        found: Any = namedtuple("Found", [column.name for column in columns])  # type: ignore[misc]  # of any columns
        self._row: Callable[[Iterable[Any]], Any] | None = found._make if columns else None
        self._read: list[tuple[int, Callable[[Any], Any]]] = [
            (place, convert)
            for place, column in enumerate(columns)
            if (convert := _implementation(column.type).result_processor(_NAMED, None))
        ]

    def bound(self, values: Values) -> dict[str, Any]:
        """What the driver is given for `values`."""
        bound = {**self._fixed, **values}
        for name, convert in self._write.items():
            bound[name] = convert(bound[name])
        return bound

    def read(self, rows: list[tuple[Any, ...]]) -> list[Any]:
        """The driver's rows, with their columns as attributes."""
        if self._row is None:
            return []
        if not self._read:
            return list(map(self._row, rows))
        found = []
        for row in rows:
            fields = list(row)
            for place, convert in self._read:
                fields[place] = convert(fields[place])
            found.append(self._row(fields))
        return found


def _implementation(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    return type_.dialect_impl(_NAMED)


def _driver(connection: Connection) -> Any:
    """The sqlite3.Connection under SQLAlchemy's, in its transaction."""
    return connection.connection.dbapi_connection
