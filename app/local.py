"""Development's own Postgres, with roles and schema; production refuses it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from pydantic import SecretStr

from app.adapters.postgres.engine import temporary_engine
from app.adapters.postgres.isolation.checks import TO_HEAD, schema_is_at_head
from app.adapters.postgres.isolation.roles import APP, OWNER, make_roles
from app.adapters.postgres.migrations import migrate
from app.domain.errors import Conflict, Invalid, Unavailable
from app.embedded.account import ServerUnavailable
from app.embedded.server import EmbeddedPostgres
from app.settings import Environment, Settings

DATABASE = "daira"
OTHER_FOLDER = "choose another folder with --data-dir or DAIRA_DATA_DIR, or move {} away"


@asynccontextmanager
async def with_database(settings: Settings) -> AsyncIterator[Settings]:
    """The settings, with the embedded server's URL where they name no database. It stops after its last user.

    Raises Invalid in production, where a shell without its settings would be answered from an empty database.
    """
    if settings.memory_store and settings.env is Environment.PRODUCTION:
        raise Invalid("DAIRA_DATABASE_URL=memory:// keeps nothing, and production has no such database: name a server")
    if not settings.embedded:
        yield settings
        return
    if settings.env is Environment.PRODUCTION:
        raise Invalid("DAIRA_DATABASE_URL is empty, and production has no embedded Postgres: name a server")
    server = EmbeddedPostgres(settings.data_dir / "postgres", pg_bin=settings.pg_bin, pg_user=settings.pg_user)
    try:
        try:
            await asyncio.to_thread(server.start)
        except ServerUnavailable as error:
            raise Unavailable(str(error)) from error
        owner, app = server.url(user=OWNER, database=DATABASE), server.url(user=APP, database=DATABASE)
        await make_roles(server.url(), owner_url=owner, app_url=app)
        await migrate(owner, instead=OTHER_FOLDER.format(settings.data_dir))
        async with _kept_up(server):
            yield settings.model_copy(
                update={"database_url": SecretStr(app), "migration_database_url": SecretStr(owner)}
            )
    finally:
        server.close()


@asynccontextmanager
async def _kept_up(server: EmbeddedPostgres) -> AsyncIterator[None]:
    """A server that was killed is started anew, as a real one would be."""

    async def keep() -> None:
        while True:
            await asyncio.sleep(2)
            with suppress(ServerUnavailable):
                await asyncio.to_thread(server.start)

    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def bring_to_head(settings: Settings) -> None:
    """For `daira up` on a database of the user's: migrate it where the owner's URL is given.

    Raises Conflict where it is not, and the schema is behind.
    """
    if settings.memory_store:
        return
    if owner := settings.migration_database_url.get_secret_value():
        await migrate(owner)
        return
    if faults := await temporary_engine(
        settings.database_url.get_secret_value(), schema_is_at_head, name="up", pooled=settings.pooled
    ):
        hint = "; or set DAIRA_MIGRATION_DATABASE_URL, and `daira up` does it" if faults[0].endswith(TO_HEAD) else ""
        raise Conflict(faults[0] + hint)
