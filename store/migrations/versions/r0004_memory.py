"""What the journal remembers of a run's calls, in the place of its workflow's state."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "remembered",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("handed_with", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("resets", sa.Integer, nullable=False),
        sa.Column("seen", sa.Text),
    )
