"""Whether a journal could be used, found out without changing it."""

import os
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, make_url, text
from sqlalchemy.exc import ArgumentError

from store.database import shown
from store.engine import open_database
from store.errors import JournalUnavailable
from store.migrations import HEAD, revision


@dataclass(frozen=True)
class Examined:
    """A journal that can be written."""

    shown: str
    """Its URL as people may see it."""
    revision: str | None
    """Of its schema; None where it has no table yet."""
    expected: str = HEAD
    """The revision that this version reads and writes, and brings an older one to."""


class _Undo(Exception):
    """Rolls back what was tried; carries what was found."""

    def __init__(self, revision: str | None) -> None:
        self.revision = revision


async def examine(url: str) -> Examined:
    """Look at a journal as a worker would use it: connect, lock, write, and take back what was written. No file is made
    where there is none.

    Raises JournalUnavailable, naming the remedy, where it cannot be written.
    """
    if (missing := _missing_file(url)) is not None:
        return missing
    database = open_database(url)
    try:
        await database.write(_try)
    except _Undo as found:
        return Examined(database.shown, found.revision)
    finally:
        await database.close()
    raise AssertionError("what is tried is always taken back")


def _missing_file(url: str) -> Examined | None:
    """What a worker would find where the file of a journal is not there yet; None where it is, or is no file."""
    if not url.startswith("sqlite"):
        return None
    try:
        at = make_url(url)
        if not at.database or at.database == ":memory:" or (file := Path(at.database)).exists():
            return None
    except (ArgumentError, ValueError, OSError):
        return None  # to open it says what is wrong
    folder = next(parent for parent in file.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        why = f"the journal {shown(at)} cannot be made: nothing can be written in {folder}; check its rights"
        raise JournalUnavailable(why)
    return Examined(shown(at), None)


def _try(connection: Connection) -> None:
    found = revision(connection)
    if found is None:
        connection.execute(text("CREATE TABLE longshift_examined (nothing INTEGER)"))
    else:
        connection.execute(text("UPDATE runs SET run_id = run_id WHERE 1 = 0"))
    raise _Undo(found)
