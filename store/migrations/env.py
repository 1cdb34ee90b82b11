"""Alembic runs this file; the connection, and the transaction, are the caller's."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
