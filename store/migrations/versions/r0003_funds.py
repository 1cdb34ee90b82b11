"""Funds, and what a model call holds of one."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the table, and add to the calls what they take from a fund: nothing, before there was one."""
    op.create_table(
        "funds",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("budget", sa.BigInteger, nullable=False),
        sa.Column("spent", sa.BigInteger, nullable=False),
        sa.Column("reserved", sa.BigInteger, nullable=False),
        sa.Column("latest_raise", sa.Text),
    )
    op.add_column("model_calls", sa.Column("fund", sa.Text))
    op.add_column("model_calls", sa.Column("reserved", sa.BigInteger))
