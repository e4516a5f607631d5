"""The schema's version: migrates it to head, or reports it. Always as the owner, never as a superuser."""

import asyncio
from pathlib import Path

import asyncpg
from alembic import command, op
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.util import await_only

from app.adapters.postgres.engine import PostgresEngine
from app.domain.errors import Conflict

CHECKOUT, INSTALLED = Path(__file__).parents[3], Path(__file__).parent / "schema"
INI = (INSTALLED if INSTALLED.exists() else CHECKOUT) / "alembic.ini"

LOCK = text("select pg_advisory_xact_lock(hashtextextended('daira migrate', 0))")
ROLE = text("select rolsuper or rolbypassrls from pg_roles where rolname = current_user")

TABLES = text("select format('%I.%I', schemaname, tablename) from pg_tables where schemaname = 'daira' order by 1")

AT_A_TIME = "800ms"
"""The time limit for locking all tables. It is shorter than `deadlock_timeout` (1 s), which waiting sessions would
reach."""

TRIES = 40
PAUSE = 0.5
"""Seconds between two tries, in which waiting sessions go on."""


async def migrate(owner_url: str, *, instead: str = "name an empty database") -> str:
    """Upgrade the schema to head and return the revision. Concurrent calls wait for one another.

    Raises Conflict for a superuser's URL, because a superuser sees through row-level security and so hides migrations
    that fail it; if a long transaction, such as a dump, holds the tables; and if no migration leads from the schema to
    head. `instead` is the error's advice for a schema that is too old.
    """
    engine = PostgresEngine(owner_url, pool_size=0, name="migrate", row_security=False)
    try:
        async with engine.begin() as connection:
            if (await connection.execute(ROLE)).scalar_one():
                raise Conflict("DAIRA_MIGRATION_DATABASE_URL is a superuser's or has BYPASSRLS: use daira_owner's")
            await connection.execute(LOCK)
            revision = await connection.run_sync(_revision)
            if fault := no_way_from(revision, instead=instead):
                raise Conflict(fault)
            if revision != head():
                await _lock_all_tables(connection)
                await connection.run_sync(_upgrade)
    finally:
        await engine.close()
    return head()


def head() -> str:
    revision = _scripts().get_current_head()
    assert revision is not None
    return revision


def no_way_from(revision: str | None, *, instead: str = "name an empty database") -> str | None:
    """The reason why no migration leads from this revision to head; None if one does. Revisions sort by time."""
    known = [script.revision for script in _scripts().walk_revisions()]
    if revision is None or revision in known:
        return None
    if revision < known[-1]:
        return (
            f"the schema is at {revision}, of a version before the first release: this version begins at {known[-1]}"
            f" and can't upgrade it; nothing was changed; {instead}"
        )
    return f"the schema is at {revision}, which this version does not know: run the version that made it"


async def current(engine: PostgresEngine) -> str | None:
    """The revision of the schema; None if it was never migrated."""
    rows = await engine.call("select to_regclass('daira.alembic_version') is not null as there")
    if not rows[0]["there"]:
        return None
    versions = await engine.call("select version_num from daira.alembic_version")
    return versions[0]["version_num"] if versions else None


def script(statements: str) -> None:
    """Execute several statements at once, for migrations. A prepared statement can't do this."""
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    await_only(driver.execute(statements))


def execute(migration: str, *files: str) -> None:
    """Execute these files of a migration's own folder, in this order.

    `migration` is the migration's `__file__`; its folder has the same name, without `.py`.
    """
    for file in files:
        script((Path(migration).with_suffix("") / file).read_text(encoding="utf-8"))


async def _lock_all_tables(connection: AsyncConnection) -> None:
    """Lock every table at once, or none.

    Migrations would lock them one by one in another order than requests do, and one of the two would be refused as a
    deadlock.
    """
    tables = (await connection.execute(TABLES)).scalars().all()
    for _ in range(TRIES if tables else 0):
        try:
            async with connection.begin_nested():
                await connection.execute(text(f"set local statement_timeout = '{AT_A_TIME}'"))
                await connection.execute(text(f"lock table {', '.join(tables)} in access exclusive mode"))
                await connection.execute(text("set local statement_timeout to default"))
        except DBAPIError as error:
            if not isinstance(error.orig and error.orig.__cause__, asyncpg.QueryCanceledError):
                raise
            await asyncio.sleep(PAUSE)
        else:
            return
    if tables:
        raise Conflict("the tables are in use by a long transaction, a dump for example: migrate when it has ended")


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(Config(str(INI)))


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts={"version_table_schema": "daira"}).get_current_revision()


def _upgrade(connection: Connection) -> None:
    config = Config(str(INI))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
