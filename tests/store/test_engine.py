"""Reaching the database, and what is said when it cannot be reached."""

import asyncio
import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from store import engine
from store.engine import open_database
from store.errors import JournalUnavailable
from store.journal import Journal
from tests.store.shift import OPENING, SPEC, Shift

pytestmark = pytest.mark.asyncio


async def test_the_folder_of_a_file_is_created(tmp_path: Path) -> None:
    journal = await Journal.open(f"sqlite:///{tmp_path}/new/deep/journal.db")
    await journal.close()
    assert (tmp_path / "new" / "deep" / "journal.db").is_file()


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+aiosqlite", "sqlite+pysqlite"])
async def test_a_driver_may_be_named_for_a_file(tmp_path: Path, scheme: str) -> None:
    journal = await Journal.open(f"{scheme}:///{tmp_path}/journal.db")
    await journal.close()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg", "postgresql+psycopg"])
async def test_a_driver_may_be_named_for_a_server(migrated: str, scheme: str) -> None:
    journal = await Journal.open(migrated.replace("postgresql", scheme, 1) + "&sslmode=disable")
    await journal.close()


async def test_a_file_keeps_what_was_committed_through_a_power_cut(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/journal.db")

    def pragmas(connection: Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "busy_timeout")
        return [connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in names]

    found = await database.write(pragmas)
    await database.close()
    assert found == ["wal", 2, 10_000]  # 2 is FULL


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "cannot be read: write sqlite:///"),
        ("no url with s3cret", "cannot be read: write sqlite:///"),
        ("postgresql://user:s3cret@host:port/name", "cannot be read: write sqlite:///"),
        ("sqlite://", "in memory would not outlive its process"),
        ("sqlite:///:memory:", "in memory would not outlive its process"),
        ("mysql://user:s3cret@host/name", "'mysql' is not a database that the journal knows"),
    ],
)
async def test_a_bad_url_is_refused_with_the_remedy_and_without_its_secrets(url: str, message: str) -> None:
    with pytest.raises(JournalUnavailable, match=message) as caught:
        await Journal.open(url)
    assert "s3cret" not in str(caught.value)


async def test_a_server_that_is_away_is_named_without_its_password() -> None:
    with pytest.raises(JournalUnavailable) as caught:
        await Journal.open("postgresql://user:s3cret@127.0.0.1:1/name?password=s3cret")
    assert "postgresql://user:***@127.0.0.1:1/name" in str(caught.value)
    assert "check that PostgreSQL runs at this address" in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_a_database_that_does_not_exist_is_to_be_created(migrated: str) -> None:
    with pytest.raises(JournalUnavailable, match="create the database first"):
        await Journal.open(migrated.replace("/journal?", "/nowhere?"))


async def test_a_server_that_ends_its_connections_is_reached_again(migrated: str) -> None:
    journal = await Journal.open(migrated)
    other = open_database(migrated)
    ends = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'journal' AND pid <> pg_backend_pid()"
    )
    await other.write(lambda connection: connection.execute(text(ends)).all())
    assert await journal.run("nobody") is None
    await journal.close()
    await other.close()


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_text("This is a letter, not a database. " * 100)
    with pytest.raises(JournalUnavailable, match=r"journal\.db cannot be used: .*; the file is no SQLite database"):
        await Journal.open(f"sqlite:///{tmp_path}/journal.db")


async def test_another_program_s_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "books.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE books (title TEXT)")
    connection.close()
    before = file.read_bytes()
    with pytest.raises(JournalUnavailable, match="another program's tables; give the journal a file of its own"):
        await Journal.open(f"sqlite:///{file}")
    assert file.read_bytes() == before


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        JournalUnavailable, match=r"file/journal\.db cannot be used: .*; the file cannot be opened: check the path"
    ):
        await Journal.open(f"sqlite:///{tmp_path}/file/journal.db")


async def test_a_locked_file_is_waited_for_and_then_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.05)
    journal = await Journal.open(f"sqlite:///{tmp_path}/journal.db")
    holder = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalUnavailable, match="another process holds its write lock"):
        await journal.open_run("shift-1", SPEC, OPENING, 1000.0)
    assert await journal.run("shift-1") is None  # reading goes on
    holder.execute("ROLLBACK")
    holder.close()
    await Shift(journal).open()
    assert await journal.verify_chain("shift-1") is None
    await journal.close()


async def test_a_new_file_that_another_worker_writes_at_its_start_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite does not wait by itself where the file is to go into WAL mode."""
    other = _new_file_being_written(tmp_path)
    monkeypatch.setattr("store.engine.time.sleep", lambda seconds: other.rollback())
    journal = await Journal.open(f"sqlite:///{tmp_path}/journal.db")
    await Shift(journal).open()
    await journal.close()
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()


async def test_a_new_file_that_another_program_goes_on_writing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.05)
    other = _new_file_being_written(tmp_path)
    with pytest.raises(JournalUnavailable, match="another process holds its write lock"):
        await Journal.open(f"sqlite:///{tmp_path}/journal.db")
    other.close()


def _new_file_being_written(folder: Path) -> sqlite3.Connection:
    """Marked as a journal, not yet in WAL mode."""
    connection = sqlite3.connect(folder / "journal.db", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA user_version = 7")
    connection.execute("BEGIN IMMEDIATE")
    return connection


async def test_a_full_disk_is_named_and_loses_nothing_that_stood(tmp_path: Path) -> None:
    journal = await Journal.open(f"sqlite:///{tmp_path}/journal.db")
    shift = await Shift(journal).open()
    full = "PRAGMA max_page_count = 1"  # SQLite takes the pages in use as the least
    await journal._database.write(lambda connection: connection.execute(text(full)))
    shift.say("x" * 100_000)
    with pytest.raises(JournalUnavailable, match="its disk is full: free some space"):
        await shift.begin(shift.request())
    assert len(await journal.messages("shift-1")) == 2
    assert await journal.verify_chain("shift-1") is None
    await journal.close()


async def test_what_the_work_itself_raises_rolls_back_and_comes_through(url: str) -> None:
    database = open_database(url)

    def work(connection: object) -> None:
        raise LookupError("mine")

    for run in (database.write, database.read):
        with pytest.raises(LookupError, match="mine"):
            await run(work)
    await database.close()


def where(database: Path) -> int:
    """Bytes of a journal and its log."""
    return sum(file.stat().st_size for file in database.parent.glob(f"{database.name}*"))


@pytest.mark.parametrize("moved", ["file", "folder"])
async def test_nothing_is_written_into_a_file_that_was_moved_away(tmp_path: Path, moved: str) -> None:
    place = tmp_path / "here" / "journal.db"
    journal = await Journal.open(f"sqlite:///{place}")
    shift = await Shift(journal).open()
    source, there = (place, tmp_path / "away.db") if moved == "file" else (place.parent, tmp_path / "away")
    source.rename(there)
    gone = there if moved == "file" else there / "journal.db"
    size = where(gone)
    for attempt in (shift.begin(shift.request()), journal.run("shift-1"), journal.funds()):
        with pytest.raises(JournalUnavailable, match=r"journal\.db cannot be used: its file is gone; bring it back"):
            await attempt
    assert where(gone) == size
    assert not place.exists()
    there.rename(source)
    await shift.turn("Done.")
    assert await journal.verify_chain("shift-1") is None
    await journal.close()


@pytest.mark.parametrize("opened", ["journal.db", "linked/link.db", "folder/journal.db"])
async def test_a_file_that_is_restored_from_a_copy_is_opened_anew(tmp_path: Path, opened: str) -> None:
    place = tmp_path / "journal.db"
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "link.db").symlink_to(place)
    (tmp_path / "folder").symlink_to(tmp_path)
    journal = await Journal.open(f"sqlite:///{tmp_path / opened}")
    shift = await Shift(journal).open()
    with sqlite3.connect(place) as source, sqlite3.connect(tmp_path / "copy.db") as copy:
        source.backup(copy)
    place.unlink()
    with pytest.raises(JournalUnavailable, match="its file is gone"):
        await shift.begin(shift.request())
    (tmp_path / "copy.db").rename(place)
    for attempt in (shift.begin(shift.request()), journal.run("shift-1")):
        with pytest.raises(JournalUnavailable, match=rf"the log of the one that was open; .* remove {place}-wal and "):
            await attempt  # with the log of the deleted file it would be damaged
    for end in ("wal", "shm"):
        (tmp_path / f"journal.db-{end}").unlink()
    await shift.turn("Done.")
    await journal.close()
    again = await Journal.open(f"sqlite:///{place}")
    assert await again.verify_chain("shift-1") is None
    assert len(await again.model_calls("shift-1")) == 1
    await again.close()


async def test_a_link_that_leads_to_another_copy_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "journal.db")
    journal = await Journal.open(f"sqlite:///{link}")
    shift = await Shift(journal).open()
    with sqlite3.connect(link) as source, sqlite3.connect(tmp_path / "copy.db") as copy:
        source.backup(copy)
    link.unlink()
    link.symlink_to(tmp_path / "copy.db")
    await shift.turn("Done.")
    await journal.close()
    again = await Journal.open(f"sqlite:///{tmp_path / 'copy.db'}")
    assert len(await again.model_calls("shift-1")) == 1
    await again.close()


async def test_a_file_that_is_copied_back_has_what_was_in_its_log_after_a_restart(tmp_path: Path) -> None:
    place = tmp_path / "journal.db"
    journal = await Journal.open(f"sqlite:///{place}")
    shift = await Shift(journal).open()
    shutil.copy(place, tmp_path / "copy.db")
    (tmp_path / "copy.db").replace(place)
    with pytest.raises(JournalUnavailable, match="if it is that very file, copied back, restart this process"):
        await shift.begin(shift.request())
    await journal.close()
    again = await Journal.open(f"sqlite:///{place}")
    await Shift(again).turn("Done.")
    assert await again.verify_chain("shift-1") is None
    await again.close()


@pytest.mark.parametrize("other", ["empty", "another"])
async def test_another_file_is_not_taken_for_the_journal_that_was_open(tmp_path: Path, other: str) -> None:
    place = tmp_path / "here" / "journal.db"
    journal = await Journal.open(f"sqlite:///{place}")
    shift = await Shift(journal).open()
    place.parent.rename(tmp_path / "away")
    place.parent.mkdir()
    if other == "empty":
        place.touch()
    else:
        await (await Journal.open(f"sqlite:///{place}")).close()
    size = where(place)
    for _ in range(2):
        with pytest.raises(JournalUnavailable, match="another file stands in its place"):
            await shift.begin(shift.request())
        with pytest.raises(JournalUnavailable, match="another file stands in its place"):
            await journal.run("shift-1")
    assert where(place) == size
    place.unlink()
    place.parent.rmdir()
    (tmp_path / "away").rename(place.parent)
    await shift.turn("Done.")
    assert await journal.verify_chain("shift-1") is None
    await journal.close()


async def test_writers_that_queue_for_a_lock_are_refused_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.3)
    journal = await Journal.open(f"sqlite:///{tmp_path}/journal.db")
    await journal.set_fund("one", 1)
    holder = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    waits = 0
    looked = journal._database._look  # type: ignore[attr-defined]

    def counting(lane: object) -> None:
        nonlocal waits
        waits += 1
        looked(lane)

    monkeypatch.setattr(journal._database, "_look", counting)
    refused = await asyncio.gather(*(journal.set_fund("one", n) for n in range(20)), return_exceptions=True)
    holder.execute("ROLLBACK")
    holder.close()
    assert {type(error) for error in refused} == {JournalUnavailable}
    assert waits == 1  # the others asked before it was over
    assert (await journal.set_fund("one", 2)).budget == 2
    await journal.close()
