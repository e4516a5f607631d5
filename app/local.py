"""What development gets for nothing and production refuses: a Postgres of its own, with roles and schema."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import SecretStr

from app.adapters.embedded.server import EmbeddedPostgres
from app.adapters.postgres.migrations import migrate
from app.adapters.postgres.roles import APP, OWNER, make_roles
from app.settings import Settings

DATABASE = "daira"


@asynccontextmanager
async def with_database(settings: Settings) -> AsyncIterator[Settings]:
    """The settings, with the embedded server's URL where they name no database. It stops after its last user."""
    if not settings.embedded:
        yield settings
        return
    server = EmbeddedPostgres(settings.data_dir / "postgres", pg_bin=settings.pg_bin, pg_user=settings.pg_user)
    try:
        await asyncio.to_thread(server.start)
        owner, app = server.url(user=OWNER, database=DATABASE), server.url(user=APP, database=DATABASE)
        await make_roles(server.url(), owner_url=owner, app_url=app)
        await migrate(owner)
        yield settings.model_copy(update={"database_url": SecretStr(app), "migration_database_url": SecretStr(owner)})
    finally:
        server.close()
