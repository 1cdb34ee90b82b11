"""The fence of an effect, and why its outcome is unknown."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the columns. What was entered before was dispatched once, under number 0, as a worker of the version before
    still does that runs beside this one: hence the default."""
    op.add_column("tool_calls", sa.Column("dispatch", sa.Integer, nullable=False, server_default="0"))
    op.add_column("tool_calls", sa.Column("note", sa.Text))
