"""The schema's version: bring it to head, or say where it stands. Always as the owner, never as a superuser."""

from pathlib import Path

from alembic import command, op
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.util import await_only

from app.adapters.postgres.engine import Engine
from app.domain.errors import Conflict

CHECKOUT, INSTALLED = Path(__file__).parents[3], Path(__file__).parent / "schema"
INI = (INSTALLED if INSTALLED.exists() else CHECKOUT) / "alembic.ini"

LOCK = text("select pg_advisory_xact_lock(hashtextextended('daira migrate', 0))")
ROLE = text("select rolsuper or rolbypassrls from pg_roles where rolname = current_user")


async def migrate(owner_url: str) -> str:
    """Upgrade to head; concurrent calls wait for one another. Returns the revision.

    Raises Conflict for a superuser's URL: one sees through row-level security, and so hides migrations that fail it.
    """
    engine = Engine(owner_url, pool_size=0, name="migrate")
    try:
        async with engine.begin() as connection:
            if (await connection.execute(ROLE)).scalar_one():
                raise Conflict("DAIRA_MIGRATION_DATABASE_URL is a superuser's or has BYPASSRLS: use daira_owner's")
            await connection.execute(LOCK)
            await connection.run_sync(_upgrade)
    finally:
        await engine.close()
    return head()


def head() -> str:
    revision = ScriptDirectory.from_config(Config(str(INI))).get_current_head()
    assert revision is not None
    return revision


async def current(engine: Engine) -> str | None:
    """The revision of the schema; None when it was never migrated."""
    rows = await engine.call("select to_regclass('daira.alembic_version') is not null as there")
    if not rows[0]["there"]:
        return None
    versions = await engine.call("select version_num from daira.alembic_version")
    return versions[0]["version_num"] if versions else None


def script(statements: str) -> None:
    """For migrations: several statements at once, which a prepared statement can't be."""
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    await_only(driver.execute(statements))


def _upgrade(connection: Connection) -> None:
    config = Config(str(INI))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
