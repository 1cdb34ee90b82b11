"""What a folder of SQLite databases holds. Imports nothing but the standard library, as script.py does."""

import contextlib
import sqlite3
from pathlib import Path


def stored_bytes(folder: Path) -> int:
    """Bytes of the files in a folder, which others may be writing and removing."""
    total = 0
    for file in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def settled_bytes(folder: Path) -> int:
    """Bytes in use in the databases of a folder, their write-ahead logs written into them. Nobody may be writing."""
    total = 0
    for file in folder.glob("*.db"):
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            size, pages, free = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_size", "page_count", "freelist_count")
            )
            total += size * (pages - free)
    return total
