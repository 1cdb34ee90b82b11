"""Statements compiled once: what they write and read is what SQLAlchemy's ordinary way writes and reads."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Boolean, Column, Connection, Integer, MetaData, Table, bindparam, create_engine, insert, select
from sqlalchemy import update as change

from store.prepared import Prepared
from store.tables import LARGEST, Amount, Words

THINGS = Table(
    "things",
    MetaData(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", Words),
    Column("tokens", Amount),
    Column("fatal", Boolean),
    Column("count", Integer, default=7),
)
ROWS: list[dict[str, Any]] = [
    {"number": 1, "name": "a\0b", "tokens": 2**70, "fatal": True, "count": 1},
    {"number": 2, "name": None, "tokens": 5, "fatal": False, "count": 2},
]
FROM = select(THINGS).where(THINGS.c.number >= bindparam("start")).order_by(THINGS.c.number).limit(2)


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        THINGS.create(connection)
        yield connection
    engine.dispose()


def test_rows_are_those_of_the_ordinary_way(connection: Connection) -> None:
    Prepared(insert(THINGS)).each(connection, ROWS)
    rows = Prepared(FROM).rows(connection, {"start": 1})
    ordinary = connection.execute(FROM, {"start": 1}).all()
    assert [tuple(row) for row in rows] == [tuple(row) for row in ordinary]
    assert (rows[0].name, rows[0].tokens, rows[0].fatal) == ("a�b", LARGEST, True)
    assert rows[0].fatal is True
    assert Prepared(FROM).row(connection, {"start": 3}) is None


def test_a_change_sets_the_columns_that_its_values_name_and_returns_what_it_changed(connection: Connection) -> None:
    Prepared(insert(THINGS)).each(connection, ROWS)
    rename = Prepared(change(THINGS).where(THINGS.c.number == bindparam("of")).returning(THINGS.c.fatal))
    (changed,) = rename.rows(connection, {"of": 1, "name": "c"})
    assert changed.fatal is True
    assert rename.rows(connection, {"of": 1, "name": "d", "tokens": 3}) == [(True,)]
    assert rename.rows(connection, {"of": 9, "name": "e"}) == []
    found = connection.execute(select(THINGS.c.name, THINGS.c.tokens)).all()
    assert [tuple(row) for row in found] == [("d", 3), (None, 5)]


def test_what_is_written_is_rolled_back_with_its_transaction(connection: Connection) -> None:
    connection.commit()
    with connection.begin() as transaction:
        Prepared(insert(THINGS)).rows(connection, ROWS[0])
        transaction.rollback()
    assert Prepared(FROM).rows(connection, {"start": 0}) == []


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        (insert(THINGS), {"number": 1, "name": "a"}),
        (select(THINGS).where(THINGS.c.number.in_([1, 2])), {}),
    ],
    ids=["a column's default", "a list"],
)
def test_a_statement_whose_text_alone_does_not_say_it_all_is_refused(
    connection: Connection, statement: object, values: dict[str, object]
) -> None:
    with pytest.raises(AssertionError):
        Prepared(statement).rows(connection, values)  # type: ignore[arg-type]
