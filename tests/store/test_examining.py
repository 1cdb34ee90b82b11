"""A journal is examined as a worker would use it, and stays as it was."""

import asyncio
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]  # ships no types
import pytest

from store.errors import JournalUnavailable
from store.examining import examine
from store.migrations import HEAD
from tests.store.shift import made


def is_file(url: str) -> bool:
    """Whether a file stands where a SQLite URL says."""
    return url.startswith("sqlite") and Path(url.removeprefix("sqlite:///")).exists()


@pytest.mark.asyncio
async def test_a_journal_that_can_be_written_is_told_with_its_schema(url: str) -> None:
    await made(url)

    found = await examine(url)

    assert (found.revision, found.expected) == (HEAD, HEAD)


@pytest.mark.asyncio
async def test_a_database_without_tables_gets_none(empty_url: str) -> None:
    first, second = await examine(empty_url), await examine(empty_url)

    assert first == second
    assert first.revision is None
    assert not is_file(empty_url)


@pytest.mark.asyncio
async def test_a_database_that_lets_nobody_write_is_refused(postgres: str, empty_url: str) -> None:
    if empty_url.startswith("sqlite"):
        folder = Path(empty_url.removeprefix("sqlite:///")).parent
        (folder / "file").touch()
        at, says = f"sqlite:///{folder}/file/journal.db", "nothing can be written in"
    else:
        server = await asyncpg.connect(postgres)
        await server.execute("ALTER DATABASE empty SET default_transaction_read_only = on")
        await server.close()
        at, says = empty_url, "it lets nobody write, as a standby does: point the URL at its primary"

    with pytest.raises(JournalUnavailable, match=says):
        await asyncio.wait_for(examine(at), 30)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "url", ["sqlite://host:port/x", f"sqlite:////{'x' * 300}.db"], ids=["no URL", "too long a name"]
)
async def test_what_no_file_can_be_is_refused_in_words(url: str) -> None:
    with pytest.raises(JournalUnavailable, match="the journal"):
        await examine(url)
