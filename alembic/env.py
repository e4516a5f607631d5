"""Runs migrations on a connection that `app.adapters.postgres.migrations` opened, always as the owner."""

from alembic import context

from app.adapters.postgres.tables import metadata

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("run `daira migrate`: it connects as the owner of the schema, which plain `alembic` does not know")

context.configure(
    connection=connection,
    target_metadata=metadata,
    version_table_schema="daira",
    include_schemas=True,
    include_name=lambda name, kind, _: kind != "schema" or name == "daira",
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
