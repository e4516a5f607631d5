"""The schema: made by a plain owner, equal to what the code declares, and safe to ask for twice."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from pydantic import SecretStr
from sqlalchemy import Connection

from app import local
from app.adapters.postgres import migrations
from app.adapters.postgres.engine import PostgresEngine, administer
from app.adapters.postgres.isolation.checks import schema_is_at_head
from app.adapters.postgres.isolation.roles import APP, OWNER, make_roles
from app.adapters.postgres.tables import metadata
from app.domain.errors import Conflict, Invalid
from app.embedded.locks import ClusterLocks
from app.embedded.server import EmbeddedPostgres
from app.settings import Settings
from tests.support.databases import Cloned, with_database
from tests.support.next_release import REVISION, add_migration

LEFT = """
select relname::text from pg_class where relnamespace = 'daira'::regnamespace and relname not like 'alembic_version%'
union all select proname::text from pg_proc where pronamespace = 'daira'::regnamespace
union all select privilege_type from pg_namespace, aclexplode(nspacl) where nspname = 'daira' and grantee <> nspowner
union all select typname::text from pg_type where typnamespace = 'daira'::regnamespace and typname !~ 'alembic_version$'
"""
NOTES = "select to_regclass('daira.notes') is not null as there"


async def test_the_migrated_schema_is_what_the_code_declares(cloned: Cloned) -> None:
    engine = PostgresEngine(cloned.owner_url, pool_size=0, name="test")

    def differences(connection: Connection) -> object:
        options = {
            "include_schemas": True,
            "include_name": lambda name, kind, _: kind != "schema" or name == "daira",
            "include_object": lambda _, name, kind, *__: (kind, name) != ("table", "alembic_version"),
            "compare_server_default": True,
        }
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)

    async with engine.begin() as connection:
        assert await connection.run_sync(differences) == []


async def test_it_can_be_taken_back_and_made_again(cloned: Cloned) -> None:
    engine = await _taken_back(cloned, to="base")
    assert await migrations.current(engine) is None
    assert [row["relname"] for row in await engine.call(LEFT)] == []
    assert await migrations.migrate(cloned.owner_url) == migrations.head()
    assert await migrations.current(engine) == migrations.head()


async def test_migrating_a_schema_at_head_changes_nothing_even_side_by_side(cloned: Cloned) -> None:
    done = await asyncio.gather(*(migrations.migrate(cloned.owner_url) for _ in range(3)))
    assert done == [migrations.head()] * 3


async def test_a_later_migration_made_of_the_template_brings_its_own_folder(
    cloned: Cloned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "INI", add_migration(tmp_path))
    assert await migrations.migrate(cloned.owner_url) == REVISION
    engine = PostgresEngine(cloned.owner_url, pool_size=0, name="test")
    assert [row["there"] for row in await engine.call(NOTES)] == [True]
    await _taken_back(cloned, to="-1")
    assert [row["there"] for row in await engine.call(NOTES)] == [False]
    assert await migrations.migrate(cloned.owner_url) == REVISION


@pytest.mark.parametrize("old", ["20261129_0900", "20261130_0900", "20260101_0000"])
async def test_a_schema_of_before_the_first_release_is_refused_with_what_to_do_and_left_as_it_is(
    cloned: Cloned, old: str
) -> None:
    await _set_revision(cloned, old)
    with pytest.raises(Conflict, match=f"at {old}, of a version before the first release.*; move it away"):
        await migrations.migrate(cloned.owner_url, instead="move it away")
    engine = PostgresEngine(cloned.app_url, pool_size=0, name="test")
    assert await migrations.current(engine) == old
    assert [fault.split(":")[0] for fault in await schema_is_at_head(engine)] == [
        f"the schema is at {old}, of a version before the first release"
    ]


@pytest.mark.parametrize(("revision", "hint"), [("20261130_0900", False), (None, True)])
async def test_up_on_a_database_of_the_users_hints_at_the_owners_url_only_where_a_migration_helps(
    cloned: Cloned, *, revision: str | None, hint: bool
) -> None:
    async with administer(cloned.owner_url) as owner:
        await owner.execute("delete from daira.alembic_version")
        if revision:
            await owner.execute("insert into daira.alembic_version values ($1)", revision)
    with pytest.raises(Conflict) as refused:
        await local.bring_to_head(Settings(database_url=SecretStr(cloned.app_url)))
    assert ("set DAIRA_MIGRATION_DATABASE_URL" in str(refused.value)) is hint


async def test_a_schema_of_a_later_release_is_not_migrated_but_served(cloned: Cloned) -> None:
    await _set_revision(cloned, "20990101_0000")
    with pytest.raises(Conflict, match="which this version does not know: run the version that made it"):
        await migrations.migrate(cloned.owner_url)
    assert await schema_is_at_head(PostgresEngine(cloned.app_url, pool_size=0, name="test")) == []


async def _set_revision(cloned: Cloned, revision: str) -> None:
    async with administer(cloned.owner_url) as owner:
        await owner.execute("update daira.alembic_version set version_num = $1", revision)


async def _taken_back(cloned: Cloned, *, to: str) -> PostgresEngine:
    engine = PostgresEngine(cloned.owner_url, pool_size=0, name="test")

    def back(connection: Connection) -> None:
        config = Config(str(migrations.INI))
        config.attributes["connection"] = connection
        command.downgrade(config, to)

    async with engine.begin() as connection:
        await connection.run_sync(back)
    return engine


async def test_a_request_that_locks_tables_in_another_order_meets_no_deadlock(
    cloned: Cloned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration that has `jobs` and comes to `api_keys`, and a request the other way round."""
    monkeypatch.setattr(migrations, "INI", add_migration(tmp_path))
    async with administer(cloned.app_url) as app, administer(cloned.admin_url) as admin:
        async with app.transaction():
            await app.execute("select from daira.api_keys")
            migrating = asyncio.create_task(migrations.migrate(cloned.owner_url))
            async with asyncio.timeout(20):
                while not await admin.fetchval("select count(*) from pg_locks where not granted"):
                    await asyncio.sleep(0.01)
            await app.execute("select from daira.jobs")
        assert await migrating == migrations.head()


async def test_a_migration_does_not_wait_for_ever_behind_a_dump_and_changes_nothing(
    cloned: Cloned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = migrations.head()
    monkeypatch.setattr(migrations, "TRIES", 2)
    monkeypatch.setattr(migrations, "INI", add_migration(tmp_path))
    async with administer(cloned.app_url) as app, app.transaction():
        await app.execute("select from daira.documents")
        with pytest.raises(Conflict, match="long transaction"):
            await migrations.migrate(cloned.owner_url)
    assert await migrations.current(PostgresEngine(cloned.owner_url, pool_size=0, name="test")) == before
    assert await migrations.migrate(cloned.owner_url) == migrations.head()


@pytest.mark.threat(28)
async def test_a_superuser_is_refused_because_it_hides_what_the_wall_would_do(cloned: Cloned) -> None:
    with pytest.raises(Conflict, match="superuser"):
        await migrations.migrate(cloned.admin_url)


@pytest.mark.threat(28)
async def test_a_data_migration_without_a_clamp_fails_loudly(cloned: Cloned) -> None:
    async with administer(cloned.owner_url) as owner:
        with pytest.raises(Exception, match="row-level security policy"):
            await owner.execute("update daira.jobs set priority = 1")


@pytest.mark.threat(23)
async def test_roles_can_be_made_again_and_have_no_more_rights_than_they_need(cloned: Cloned) -> None:
    await make_roles(cloned.admin_url, owner_url=cloned.owner_url, app_url=cloned.app_url)
    async with administer(cloned.admin_url) as admin:
        rows = await admin.fetch(
            "select rolname, rolcanlogin, rolsuper or rolbypassrls or rolcreatedb or rolcreaterole or rolreplication"
            " or rolinherit as more from pg_roles where rolname like 'daira%' order by 1"
        )
        members = await admin.fetch(
            "select pg_get_userbyid(member) as who from pg_auth_members where pg_get_userbyid(member) = 'daira_app'"
        )
    assert [tuple(row) for row in rows] == [
        ("daira_app", True, False),
        ("daira_owner", True, False),
        ("daira_scout", False, False),
    ]
    assert members == []


@pytest.fixture
def server(folder: Path) -> Iterator[EmbeddedPostgres]:
    """One of its own: roles are the whole server's."""
    server = EmbeddedPostgres(folder / "server", durable=False, grace=timedelta())
    server.start()
    yield server
    server.close()
    # It follows its last user, and must be gone before its folder is.
    assert ClusterLocks(folder / "server").server.is_free_within(timedelta(seconds=30))


async def test_an_administrator_who_is_no_superuser_makes_the_roles_as_often_as_wanted(
    server: EmbeddedPostgres,
) -> None:
    """As on the servers that a cloud manages."""
    async with administer(server.url()) as admin:
        await admin.execute("create role master login createrole createdb")
    owner, app = (server.url(user=user, database="daira") for user in (OWNER, APP))
    for _ in range(2):
        await make_roles(server.url(user="master"), owner_url=owner, app_url=app)
    assert await migrations.migrate(owner) == migrations.head()


async def test_what_a_role_has_too_much_is_taken_from_it(server: EmbeddedPostgres) -> None:
    owner, app = (server.url(user=user, database="daira") for user in (OWNER, APP))
    await make_roles(server.url(), owner_url=owner, app_url=app)
    async with administer(server.url()) as admin:
        await admin.execute("alter role daira_scout login createdb inherit")
        await make_roles(server.url(), owner_url=owner, app_url=app)
        scout = await admin.fetchrow("select * from pg_roles where rolname = 'daira_scout'")
    assert [scout[name] for name in ("rolcanlogin", "rolcreatedb", "rolinherit")] == [False, False, False]


async def test_urls_that_name_other_roles_or_databases_are_refused(cloned: Cloned) -> None:
    with pytest.raises(Invalid, match="names the user 'postgres'"):
        await make_roles(cloned.admin_url, owner_url=cloned.admin_url, app_url=cloned.app_url)
    elsewhere = with_database(cloned.app_url, "elsewhere")
    with pytest.raises(Invalid, match="different databases"):
        await make_roles(cloned.admin_url, owner_url=cloned.owner_url, app_url=elsewhere)
