"""What of a transcript a model call was sent."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add it to the calls: all of it, before there were excerpts."""
    op.add_column("model_calls", sa.Column("excerpt", sa.Text))
