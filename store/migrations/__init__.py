"""Brings a database to this version's schema. Alembic is imported only where there is something to do."""

from sqlalchemy import Connection, func, inspect, select, text

from store.errors import JournalUnavailable

HEAD = "0006"
"""The revision that this version of Longshift reads and writes: the last one in `versions/`."""

_LOCK = 7_411_866_318_202_511
"""PostgreSQL's advisory lock under which a schema is changed; any number that nobody else uses."""
LOCK_SECONDS = 25
"""Seconds to wait on PostgreSQL for a lock, while another worker changes the schema: more than a step waits."""


def upgrade(connection: Connection) -> None:
    """Bring the connection's database to HEAD, in its transaction. On SQLite that transaction holds the write lock,
    on PostgreSQL an advisory lock is taken: a second worker waits, then finds nothing to do.

    Raises JournalUnavailable for a database of a newer version.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_SECONDS * 1000:.0f}"))
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    found = revision(connection)
    if found != HEAD:
        _run_alembic(connection, found)


def revision(connection: Connection) -> str | None:
    """The revision of the connection's database; None where it has none yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return found


def _run_alembic(connection: Connection, found: str | None) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "store:migrations")
    config.set_main_option("path_separator", "os")
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise JournalUnavailable(
            f"the journal's schema is {found!r}, which this version of Longshift (schema {HEAD!r}) does not know: it"
            " was written by a newer one; install that version, or point the URL at another database"
        )
    command.upgrade(config, "head")
