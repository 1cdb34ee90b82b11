"""PostgreSQL whose locks are held, whose sessions stand still, or whose server is set up in its own way."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg  # type: ignore[import-untyped]  # ships no types
import pytest
from sqlalchemy import Connection, text

from store import migrations, postgres
from store.engine import open_database
from store.errors import JournalUnavailable
from store.funds import Draw
from store.journal import Fresh, Journal
from tests.store.shift import Shift

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def held(server: str, statement: str) -> AsyncIterator[None]:
    """Another program's session stays in a transaction in which it ran `statement`."""
    holder = await asyncpg.connect(server)
    try:
        await holder.execute(f"BEGIN; {statement}")
        yield
    finally:
        await holder.close()


async def test_a_lock_is_waited_for_and_then_named(migrated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "LOCK_SECONDS", 0.05)
    journal = await Journal.open(migrated)
    shift = await Shift(journal, "locked").open()
    async with held(migrated, "SELECT 1 FROM runs WHERE run_id = 'locked' FOR UPDATE"):
        with pytest.raises(JournalUnavailable, match="another session holds a lock it needs: find and end"):
            await shift.begin(shift.request())
        assert await journal.run("locked") is not None  # reading goes on
    await shift.turn("Done.")
    assert await journal.verify_chain("locked") is None
    await journal.close()


async def test_a_start_that_waits_for_another_s_migration_is_told(
    migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "LOCK_SECONDS", 0.05)
    async with held(migrated, f"SELECT pg_advisory_xact_lock({migrations._LOCK})"):
        with pytest.raises(JournalUnavailable, match="another session holds a lock it needs: find and end"):
            await Journal.open(migrated)


async def test_a_start_waits_longer_for_another_s_migration_than_a_step_for_a_lock(
    migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "LOCK_SECONDS", 0.05)
    database = open_database(migrated)
    limits = "SELECT current_setting('lock_timeout')"

    def found(connection: Connection) -> object:
        migrations.upgrade(connection)
        return connection.execute(text(limits)).scalar_one()

    assert await database.write(found) == "25s"
    assert await database.write(lambda connection: connection.execute(text(limits)).scalar_one()) == "50ms"
    await database.close()


async def test_a_worker_that_stands_still_in_its_transaction_lets_others_pass_and_does_its_own_again(
    migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await Journal.open(migrated)
    shift = await Shift(journal, "stalled").open()
    holding, passed = threading.Event(), threading.Event()
    tries = 0

    def stall(connection: Connection) -> int:
        nonlocal tries
        tries += 1
        connection.execute(text("SELECT 1 FROM runs WHERE run_id = 'stalled' FOR UPDATE"))
        holding.set()
        assert passed.wait(30)
        return int(connection.execute(text("SELECT count(*) FROM model_calls WHERE run_id = 'stalled'")).scalar_one())

    async def sleeper() -> int:
        database = open_database(migrated)
        try:
            return await database.write(stall)
        finally:
            await database.close()

    with monkeypatch.context() as only:  # its session, since the other one is there already
        only.setattr(postgres, "IDLE_SECONDS", 1.0)
        other = asyncio.create_task(asyncio.to_thread(asyncio.run, sleeper()))
        assert await asyncio.to_thread(holding.wait, 30)
    assert isinstance(await shift.begin(shift.request()), Fresh)
    passed.set()
    assert await other == 1
    assert tries == 2
    await journal.close()


async def test_a_server_that_stands_still_is_told_once_and_its_connections_are_given_up(
    migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await Journal.open(migrated)
    stopped = set(await asyncio.gather(*(_backend(journal) for _ in range(3))))
    assert len(stopped) == 3  # each has a connection of its own
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        with monkeypatch.context() as only:
            only.setattr(postgres, "ANSWER_SECONDS", 0.2)
            with pytest.raises(JournalUnavailable, match="no answer in time; check that PostgreSQL runs"):
                await journal.run("nobody")
        assert await journal.run("nobody") is None
        assert await _backend(journal) not in stopped
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    await journal.close()


async def test_a_server_that_stands_still_does_not_keep_a_process_from_ending(
    migrated: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(postgres, "CLOSE_SECONDS", 0.2)
    journal = await Journal.open(migrated)
    stopped = await _backend(journal)
    os.kill(stopped, signal.SIGSTOP)
    try:
        await journal.close()
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert caplog.text == ""


async def _backend(journal: Journal) -> int:
    """The process of the server that serves a transaction, which takes long enough for another to begin meanwhile."""
    pid = text("SELECT pg_backend_pid() FROM pg_sleep(0.1)")
    return await journal._database.read(lambda connection: int(connection.execute(pid).scalar_one()))


async def test_a_process_whose_connections_are_all_at_work_says_so(
    migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "CONNECTIONS", 1)
    monkeypatch.setattr(postgres, "POOL_SECONDS", 0.05)
    journal = await Journal.open(migrated)
    async with journal._database._writer.connect():  # type: ignore[attr-defined]
        with pytest.raises(JournalUnavailable, match="all connections of this process are at work; find what holds"):
            await journal.run("nobody")
    assert await journal.run("nobody") is None
    await journal.close()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_a_server_with_an_isolation_of_its_own_is_used_as_any_other(postgres: str, level: str) -> None:
    admin = await asyncpg.connect(postgres)
    await admin.execute("DROP DATABASE IF EXISTS strict WITH (FORCE)")
    await admin.execute("CREATE DATABASE strict")
    await admin.execute(f"ALTER DATABASE strict SET default_transaction_isolation = '{level}'")
    await admin.close()
    url = postgres.replace("/postgres?", "/strict?")
    journals = await asyncio.gather(*(Journal.open(url) for _ in range(4)))

    async def call(number: int) -> object:
        shift = await Shift(journals[number % 4], f"run-{number}").open()
        return await journals[number % 4].begin_model_call(shift.request(), "worker", 1.0, Draw("shared", 5))

    await journals[0].set_fund("shared", 1000)
    assert {type(found) for found in await asyncio.gather(*map(call, range(12)))} == {Fresh}
    assert [fund.reserved for fund in await journals[0].funds()] == [60]
    for journal in journals:
        await journal.close()


@pytest.mark.parametrize(
    ("state", "remedy"),
    [
        ("40001", "another transaction came in between: try again in a moment"),
        ("40P01", "another transaction came in between: try again in a moment"),
        ("57014", "somebody, or a statement_timeout that is set for this user or database, ended the statement"),
        ("57P03", "the server is stopping or starting"),
    ],
)
async def test_what_the_server_says_comes_with_what_helps(migrated: str, state: str, remedy: str) -> None:
    database = open_database(migrated)
    says = text(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$")
    with pytest.raises(JournalUnavailable, match=f"cannot be used: .*no; {remedy}"):
        await database.write(lambda connection: connection.execute(says))
    await database.close()


@pytest.mark.parametrize(
    ("parameter", "setting", "found"),
    [
        ("application_name=nightly%20shop", "application_name", "nightly shop"),
        ("options=-c%20geqo%3Doff%20-c%20work_mem%3D5MB", "work_mem", "5MB"),
        ("work_mem=5MB", "work_mem", "5MB"),
        ("connect_timeout=5&sslmode=prefer", "application_name", ""),
        ("connect_timeout=0&ssl=disable", "application_name", ""),
        ("channel_binding=prefer&target_session_attrs=read-write", "application_name", ""),
        ("prepared_statement_cache_size=0", "application_name", ""),
    ],
)
async def test_the_usual_parameters_of_a_url_are_taken(migrated: str, parameter: str, setting: str, found: str) -> None:
    database = open_database(f"{migrated}&{parameter}")
    asks = text(f"SELECT current_setting('{setting}')")
    assert await database.write(lambda connection: connection.execute(asks).scalar_one()) == found
    await database.close()


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (
            "keepalives=1",
            'unrecognized configuration parameter "keepalives"; take that parameter out of the journal\'s',
        ),
        ("sslmode=always", "`sslmode` parameter must be one of"),
        ("sslrootcert=/nowhere/root.crt", "there is no file '/nowhere/root.crt', its sslrootcert; correct the"),
        ("channel_binding=require", "channel_binding=require is more than asyncpg can do; correct the parameters"),
        ("lock_timeout=60000", "lock_timeout is set by Longshift itself; correct the parameters"),
        ("connect_timeout=soon", "connect_timeout=soon is no number of seconds; correct the parameters of its URL"),
        ("port=none", "non-integer port arguments: ('none',); correct the parameters of its URL"),
    ],
)
async def test_a_parameter_that_cannot_be_taken_is_named(migrated: str, parameter: str, message: str) -> None:
    with pytest.raises(JournalUnavailable, match="/journal cannot be used: ") as caught:
        await Journal.open(f"{migrated}&{parameter}")
    assert message in str(caught.value)
