"""The schema: made by its migrations, as the tables say, once."""

import asyncio
import sys
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, select, text
from sqlmodel import SQLModel

from longshift.contracts import RunTool
from longshift.messages import arguments_digest, text_of
from store import tables
from store.engine import open_database
from store.errors import JournalUnavailable
from store.journal import Begun, Journal, Observed
from store.migrations import HEAD
from tests.store.shift import Shift, call, made, tool_message

pytestmark = pytest.mark.asyncio

ORDER = call("a", "place_order")


async def test_the_migrations_make_what_the_tables_say(empty_url: str) -> None:
    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, SQLModel.metadata))

    await made(empty_url)
    database = open_database(empty_url)
    assert await database.write(differences) == []
    await database.close()
    assert tables.RUNS.metadata is SQLModel.metadata


async def test_the_head_is_the_last_migration() -> None:
    config = Config()
    config.set_main_option("script_location", "store:migrations")
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


async def test_effects_of_the_first_version_are_held_by_the_fence_of_this_one(empty_url: str) -> None:
    asked = [RunTool(run_id="old", model_call=1, position=n, call=ORDER) for n in range(4)]
    done = Observed(tool_message(ORDER, "done"), 7, False)

    def enter(connection: Connection, position: int, **outcome: object) -> None:
        key = {"run_id": "old", "model_call": 1, "position": position, "call_id": "a"}
        call = {"name": "place_order", "arguments_sha256": arguments_digest(ORDER), "kind": "effect", "fatal": False}
        row = key | call | {"state": "started", "attempt": "worker-0", "started_at": 1.0} | outcome
        names, values = ", ".join(row), ", ".join(f":{name}" for name in row)
        connection.execute(text(f"INSERT INTO tool_calls ({names}) VALUES ({values})"), row)

    def first_version(connection: Connection) -> None:
        _upgrade(connection, "0001")
        enter(connection, 0)
        enter(connection, 1, state="settled", body=text_of(done.observation), milliseconds=7)

    database = open_database(empty_url)
    await database.write(first_version)
    journal = await Journal.open(empty_url)
    await Shift(journal, "old").open()
    await database.write(lambda connection: enter(connection, 2))  # by a worker of before, still at work
    await database.close()
    rows = await journal.tool_calls("old")
    assert [(row.state, row.dispatch, row.note) for row in rows] == [
        ("started", 0, None),
        ("settled", 0, None),
        ("started", 0, None),
    ]
    begun = [await journal.begin_effect(request, "worker-1", 2.0, again=False) for request in asked]
    assert begun == [False, False, False, True]
    standing = [await journal.settle_effect(request, 3.0) for request in asked]
    assert standing == [Begun(0, 1.0, False), done, Begun(0, 1.0, False), Begun(0, 2.0, False)]
    assert await journal.settle_tool_call(asked[0], "effect", "worker-0", done, 1.0, 4.0) == done
    await journal.close()


async def test_what_is_remembered_stays_where_its_table_is_made_anew(empty_url: str) -> None:
    def earlier(connection: Connection) -> None:
        _upgrade(connection, "0005")
        for key, number, seen in (("id a", 64, "NULL"), ("call 0a", 64, "'{\"at\":[3,0]}'"), ("id a", 128, "NULL")):
            connection.execute(text(f"INSERT INTO remembered VALUES ('old', '{key}', {number}, 2, {seen})"))

    def rows(connection: Connection) -> set[tuple[object, ...]]:
        return {tuple(row) for row in connection.execute(select(tables.REMEMBERED))}

    database = open_database(empty_url)
    await database.write(earlier)
    before = await database.read(rows)
    await (await Journal.open(empty_url)).close()
    assert await database.read(rows) == before
    assert len(before) == 3
    if empty_url.startswith("sqlite"):
        made = text("SELECT sql FROM sqlite_schema WHERE name = 'remembered'")
        assert "WITHOUT ROWID" in await database.read(lambda connection: connection.execute(made).scalar_one())
    await database.close()


def _upgrade(connection: Connection, version: str) -> None:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "store:migrations")
    config.set_main_option("path_separator", "os")
    command.upgrade(config, version)


async def test_several_workers_that_start_at_once_migrate_once(empty_url: str) -> None:
    journals = await asyncio.gather(*(Journal.open(empty_url) for _ in range(4)))
    for journal in journals:
        assert await journal.run("none") is None
        await journal.close()


async def test_several_processes_that_start_at_once_migrate_once(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from tests.store.shift import made; sys.stdin.readline();asyncio.run(made(sys.argv[1]))"
    )
    pipe, url = asyncio.subprocess.PIPE, f"sqlite:///{tmp_path}/new/journal.db"
    workers = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", code, url, stdin=pipe, stderr=pipe) for _ in range(3)
    ]
    ended = await asyncio.gather(*(worker.communicate(b"go\n") for worker in workers))
    assert [error.decode() for _, error in ended] == ["", "", ""]
    assert [worker.returncode for worker in workers] == [0, 0, 0]


async def test_a_database_of_a_newer_version_is_left_alone(empty_url: str) -> None:
    await made(empty_url)
    database = open_database(empty_url)
    await database.write(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    await database.close()
    with pytest.raises(JournalUnavailable, match=r"'9999', which this version of Longshift .* newer one; install"):
        await Journal.open(empty_url)


async def test_alembic_is_not_imported_where_there_is_nothing_to_do(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    await made(url)
    code = (
        "import asyncio, sys; from store.journal import Journal; j = asyncio.run(Journal.open(sys.argv[1]));"
        "print('alembic' in sys.modules)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, url, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert out.split() == [b"False"]
