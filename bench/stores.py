"""What the SQLite databases of a folder hold. Imports nothing but the standard library, as script.py does."""

import contextlib
import sqlite3
from pathlib import Path


def used_bytes(folder: Path) -> int:
    """Bytes of the pages in use in the databases of a folder, also of those that stand in a write-ahead log only.

    Others may be writing. Raises sqlite3.OperationalError where one holds a database for long.
    """
    total = 0
    for file in folder.glob("*.db"):
        with contextlib.closing(sqlite3.connect(file)) as connection:
            size, pages, free = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_size", "page_count", "freelist_count")
            )
            total += size * (pages - free)
    return total
