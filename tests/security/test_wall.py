"""The tenant wall as the database keeps it, asked with the application's own login and plain SQL."""

from uuid import UUID

import asyncpg
import pytest

from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.ids import tenant_id, uuid7
from tests.security.clamps import TABLES, clamped, counts
from tests.support.databases import Cloned
from tests.support.rig import KIND, LEASE, Rig, ring_of


@pytest.mark.threat(1)
@pytest.mark.usefixtures("two_tenants")
async def test_a_fresh_connection_without_a_tenant_sees_no_row(app: asyncpg.Connection) -> None:
    assert await app.fetchval("select current_setting('app.tenant_id', true)") is None
    assert await counts(app) == dict.fromkeys(TABLES, 0)


@pytest.mark.threat(2)
@pytest.mark.usefixtures("two_tenants")
async def test_a_used_connection_without_a_tenant_sees_no_row(app: asyncpg.Connection) -> None:
    """After its first use the setting is '' and never NULL again: another case than a fresh connection."""
    async with clamped(app, "acme"):
        assert await counts(app) == dict.fromkeys(TABLES, 1)
    assert await app.fetchval("select current_setting('app.tenant_id', true)") == ""
    assert await counts(app) == dict.fromkeys(TABLES, 0)


@pytest.mark.threat(2)
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
async def test_a_clamp_on_a_uuid_column_finds_no_row_either(
    cloned: Cloned, app: asyncpg.Connection, *, used: bool
) -> None:
    """The same policy on a uuid: without nullif a used connection raises 22P02, a fresh one does not."""
    async with administer(cloned.owner_url) as owner:
        await owner.execute(
            "create table daira.by_uuid (tenant_id uuid not null);"
            "alter table daira.by_uuid enable row level security; alter table daira.by_uuid force row level security;"
            "create policy clamp on daira.by_uuid to daira_app using"
            " (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid));"
            "grant select on daira.by_uuid to daira_app"
        )
    async with administer(cloned.admin_url) as admin:
        await admin.execute("insert into daira.by_uuid values ($1)", uuid7())
    if used:
        async with clamped(app, str(uuid7())):
            assert await app.fetchval("select count(*) from daira.by_uuid") == 0
    assert await app.fetchval("select count(*) from daira.by_uuid") == 0


@pytest.mark.threat(4)
@pytest.mark.usefixtures("two_tenants")
async def test_an_unclamped_write_is_refused(app: asyncpg.Connection) -> None:
    for tenant in ("acme", "newcomer", ""):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await app.execute("insert into daira.tenants (tenant_id) values ($1)", tenant)
    assert await app.execute("update daira.jobs set state = 'failed'") == "UPDATE 0"
    assert await app.execute("delete from daira.documents") == "DELETE 0"


@pytest.mark.threat(3)
@pytest.mark.usefixtures("two_tenants")
async def test_the_empty_tenant_is_nobody_on_a_used_connection(app: asyncpg.Connection) -> None:
    """There the setting is '': without nullif the policy would let '' in, and only a CHECK stand against it."""
    async with clamped(app, "acme"):
        await app.fetchval("select count(*) from daira.jobs")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await app.execute("insert into daira.jobs (tenant_id, id, kind) values ('', $1, 'ocr')", uuid7())


@pytest.mark.threat(5)
@pytest.mark.usefixtures("two_tenants")
async def test_a_write_for_another_tenant_is_refused(app: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with clamped(app, "acme"):
            await app.execute("insert into daira.jobs (tenant_id, id, kind) values ('globex', $1, 'ocr')", uuid7())


@pytest.mark.threat(6)
@pytest.mark.usefixtures("two_tenants")
async def test_no_row_can_be_moved_to_another_tenant(app: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with clamped(app, "acme"):
            await app.execute("update daira.jobs set tenant_id = 'globex'")


@pytest.mark.threat(8, 9)
@pytest.mark.usefixtures("two_tenants")
async def test_ids_of_others_are_no_oracle(app: asyncpg.Connection) -> None:
    async with clamped(app, "globex"):
        theirs = await app.fetchval("select id from daira.jobs")
    async with clamped(app, "acme"):
        await app.execute("insert into daira.jobs (tenant_id, id, kind) values ('acme', $1, 'ocr')", theirs)
    for document in (await _document_of(app, "globex"), uuid7()):
        with pytest.raises(asyncpg.ForeignKeyViolationError):
            async with clamped(app, "acme"):
                await app.execute(
                    "insert into daira.jobs (tenant_id, id, kind, document_id) values ('acme', $1, 'ocr', $2)",
                    uuid7(),
                    document,
                )


@pytest.mark.usefixtures("two_tenants")
async def test_a_tenant_can_be_deleted_only_when_suspended_and_only_by_itself(app: asyncpg.Connection) -> None:
    assert await app.execute("delete from daira.tenants") == "DELETE 0"
    async with clamped(app, "acme"):
        assert await app.execute("delete from daira.tenants") == "DELETE 0"
        assert await app.execute("delete from daira.tenants where tenant_id = 'globex'") == "DELETE 0"
        await app.execute("update daira.tenants set state = 'suspended'")
    async with clamped(app, "globex"):
        assert await app.execute("delete from daira.tenants") == "DELETE 0"
    async with clamped(app, "acme"):
        assert await app.execute("delete from daira.tenants") == "DELETE 1"
        assert await counts(app) == dict.fromkeys(TABLES, 0)
    async with clamped(app, "globex"):
        assert await counts(app) == dict.fromkeys(TABLES, 1)


@pytest.mark.threat(25)
@pytest.mark.usefixtures("two_tenants")
@pytest.mark.parametrize("change", ["scopes = '{admin}'", "secret_sha256 = 'x'", "name = 'x'", "created_at = now()"])
async def test_what_a_key_is_and_may_do_is_never_changed(app: asyncpg.Connection, change: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with clamped(app, "acme"):
            await app.execute(f"update daira.api_keys set {change}")


@pytest.mark.usefixtures("two_tenants")
@pytest.mark.parametrize("scopes", ["{}", "{root}", "{admin,NULL}", "{documents:read,''}"])
async def test_a_scope_that_is_none_can_not_be_stored(app: asyncpg.Connection, scopes: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        async with clamped(app, "acme"):
            await app.execute(
                "insert into daira.api_keys (tenant_id, id, name, secret_sha256, scopes)"
                f" values ('acme', gen_random_uuid(), 'x', 'y', '{scopes.replace(chr(39), chr(34))}')"
            )


@pytest.mark.usefixtures("two_tenants")
async def test_truncate_and_row_security_off_are_refused(app: asyncpg.Connection) -> None:
    for statement in ("truncate daira.jobs", "set row_security = off; select from daira.jobs", "drop table daira.jobs"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await app.execute(statement)


@pytest.mark.threat(23)
@pytest.mark.usefixtures("two_tenants")
async def test_a_permissive_policy_too_many_shows_nothing(cloned: Cloned) -> None:
    async with administer(cloned.owner_url) as owner:
        await owner.execute("create policy careless on daira.jobs for select to daira_app using (true)")
    async with administer(cloned.app_url) as connection:
        assert await connection.fetchval("select count(*) from daira.jobs") == 0


@pytest.mark.threat(26, 27)
async def test_the_scout_sees_six_columns_of_live_jobs_and_nothing_else(two_tenants: Rig, cloned: Cloned) -> None:
    acme = tenant_id("acme")
    await two_tenants.enqueue(acme)
    async with administer(cloned.admin_url) as admin:
        await admin.execute("set role daira_scout")
        names = await admin.fetch("select tenant_id, kind, state, run_after, ring_after, lease_until from daira.jobs")
        assert [row["tenant_id"] for row in names] == ["acme"]
        for column in ("id", "payload", "document_id", "last_error", "*", "to_jsonb(jobs)"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await admin.fetch(f"select {column} from daira.jobs")
        for table in ("documents", "pages", "results", "api_keys", "job_attempts", "idempotency_keys"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await admin.fetch(f"select from daira.{table}")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await admin.execute("update daira.jobs set state = 'done'")


@pytest.mark.threat(20)
async def test_a_batch_over_tenants_leaves_no_clamp_behind(two_tenants: Rig, engine: PostgresEngine) -> None:
    jobs = [await two_tenants.enqueue(tenant_id(name)) for name in ("acme", "globex")]
    claims = await two_tenants.leases.claim(
        [ring_of(job) for job in jobs], worker="w", lease=LEASE, kinds=frozenset({KIND})
    )
    assert {claim.ring.tenant_id for claim in claims if claim.job} == {"acme", "globex"}
    (row,) = await engine.call("select current_setting('app.tenant_id', true) as clamp")
    assert not row["clamp"]


async def _document_of(connection: asyncpg.Connection, tenant: str) -> UUID:
    async with clamped(connection, tenant):
        document: UUID = await connection.fetchval("select id from daira.documents")
        return document
