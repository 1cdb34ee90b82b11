"""What is remembered stands once on SQLite, under its key, and not in an index beside it: the key is most of a row."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the table anew, with its rows."""
    if op.get_bind().dialect.name == "sqlite":
        with op.batch_alter_table("remembered", recreate="always", table_kwargs={"sqlite_with_rowid": False}):
            pass
