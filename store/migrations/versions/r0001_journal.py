"""The journal's first tables. Written out, not taken from store.tables: those move on, a revision does not."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("endpoint", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("opened_at", sa.Float, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("closed_at", sa.Float),
        sa.Column("status", sa.Text),
        sa.Column("detail", sa.Text),
        sa.Column("result", sa.Text),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
    )
    op.create_table(
        "messages",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("body", sa.Text),
        sa.Column("turn", sa.Integer),
        sa.Column("call_model", sa.Integer),
        sa.Column("call_position", sa.Integer),
        sa.Column("call_id", sa.Text),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
    )
    op.create_table(
        "model_calls",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("context_length", sa.Integer, nullable=False),
        sa.Column("context_digest", sa.Text, nullable=False),
        sa.Column("tools", sa.Boolean, nullable=False),
        sa.Column("allowed", sa.BigInteger, nullable=False),
        sa.Column("estimate", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("body", sa.Text),
        sa.Column("stop_reason", sa.Text),
        sa.Column("output_tokens", sa.BigInteger),
        sa.Column("input_tokens", sa.BigInteger),
        sa.Column("usage", sa.Text),
        sa.Column("cost", sa.BigInteger),
        sa.Column("milliseconds", sa.BigInteger),
        sa.Column("failure", sa.Text),
        sa.Column("sender", sa.Text, nullable=False),
        sa.Column("started_at", sa.Float, nullable=False),
        sa.Column("ended_at", sa.Float),
    )
    op.create_table(
        "tool_calls",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("model_call", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("call_id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("arguments_sha256", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("body", sa.Text),
        sa.Column("whole", sa.Text),
        sa.Column("fatal", sa.Boolean, nullable=False),
        sa.Column("milliseconds", sa.BigInteger),
        sa.Column("attempt", sa.Text, nullable=False),
        sa.Column("started_at", sa.Float, nullable=False),
        sa.Column("settled_at", sa.Float),
    )
    op.create_table(
        "decisions",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("ordinal", sa.Integer),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
