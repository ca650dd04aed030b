"""Alembic's environment: it runs on the connection that `coatcheck.adapters.sql.schema` hands over."""

from alembic import context

from coatcheck.adapters.sql.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    transactional_ddl=True,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
