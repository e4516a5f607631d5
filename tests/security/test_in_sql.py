"""Threats of docs/threats.md that are met in the database: each tried with the application's own login."""

import asyncio
import io
import json
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from sqlalchemy.exc import DBAPIError

from app.adapters.postgres.database import PostgresDatabase
from app.adapters.postgres.doorbell import PostgresDoorbell
from app.adapters.postgres.engine import PostgresEngine, administer
from app.adapters.postgres.leases import CLAIM, PostgresLeases
from app.domain.errors import Invalid
from app.domain.ids import TenantId, uuid7
from app.domain.jobs import Progress
from app.domain.leases import LeaseBeat
from tests.security.clamps import TABLES, clamped, counts
from tests.support.databases import Cloned
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import LEASE, Rig, done, new_document, new_job, ring_of

ACME, GLOBEX = TenantId("acme"), TenantId("globex")


@pytest.fixture
async def one(cloned: Cloned) -> AsyncIterator[PostgresEngine]:
    """A pool of one connection: each use finds what the one before has left."""
    engine = PostgresEngine(cloned.app_url, pool_size=1, name="test")
    yield engine
    assert engine.checked_out() == 0
    await engine.close()


@pytest.mark.threat(9)
@pytest.mark.usefixtures("two_tenants")
async def test_threat_9_no_child_row_can_pin_anothers_document_or_job(app: asyncpg.Connection) -> None:
    async with clamped(app, "globex"):
        (document, job) = await app.fetchrow("select document_id, id from daira.jobs where document_id is not null")
    children = {
        "insert into daira.jobs (tenant_id, id, kind, document_id) values ('acme', $2, 'ocr', $1)": document,
        "insert into daira.results (tenant_id, job_id, data) values ('acme', $1, jsonb_build_object('id', $2::uuid))": (
            job
        ),
        "insert into daira.pages (tenant_id, document_id, number, text, source, width, height, rotation, language)"
        " values ('acme', $1, 9, $2::uuid::text, 'ocr', 1, 1, 0, 'eng')": document,
    }
    for insert, theirs in children.items():
        refusals = []
        for identity in (theirs, uuid7()):
            with pytest.raises(asyncpg.ForeignKeyViolationError) as refused:
                async with clamped(app, "acme"):
                    await app.execute(insert, identity, uuid7())
            refusals.append((refused.value.message, refused.value.detail))
        assert refusals[0] == refusals[1]
    async with clamped(app, "globex"):
        assert await app.execute("delete from daira.documents") == "DELETE 1"


@pytest.mark.threat(14)
async def test_threat_14_no_clamp_stays_on_a_connection_whatever_happens_between(
    one: PostgresEngine, cloned: Cloned
) -> None:
    rig = postgres_rig(cloned, one)
    for name in (ACME, GLOBEX):
        await rig.document(await rig.tenant(name))
    database = PostgresDatabase(one)

    async def fails() -> None:
        async with database.begin(ACME) as tx:
            await tx.jobs.add(new_job(max_attempts=10**12))

    async def is_cancelled() -> None:
        async with asyncio.timeout(0.05), database.begin(ACME) as tx:
            await tx.documents.newest(limit=1)
            await asyncio.sleep(1)

    for broken in (fails, is_cancelled):
        with pytest.raises((DBAPIError, TimeoutError)):
            await broken()
        (row,) = await one.call("select current_setting('app.tenant_id', true) as clamp, count(*) from daira.jobs")
        assert (row["clamp"] or "", row["count"]) == ("", 0)
        async with database.begin(GLOBEX) as tx:
            assert {document.tenant_id for document in await tx.documents.newest(limit=9)} == {GLOBEX}


@pytest.mark.threat(15)
async def test_threat_15_two_transactions_after_one_another_are_both_clamped(
    one: PostgresEngine, cloned: Cloned
) -> None:
    rig = postgres_rig(cloned, one)
    document = await rig.document(await rig.tenant(ACME))
    for _ in range(2):
        async with rig.database.begin(ACME) as tx:
            assert await tx.documents.get(document.id) == document
    with pytest.raises(Invalid):
        async with rig.database.begin(TenantId("")):
            pass


@pytest.mark.threat(16)
@pytest.mark.usefixtures("two_tenants")
async def test_threat_16_without_transactions_nothing_is_seen_and_nothing_written(cloned: Cloned) -> None:
    """A clamp is local to its transaction: where each statement is one of its own, it is gone with the first."""
    engine = PostgresEngine(cloned.app_url, pool_size=1, name="test")
    engine._engine = engine._engine.execution_options(isolation_level="AUTOCOMMIT")
    database = PostgresDatabase(engine)
    async with database.begin(ACME) as tx:
        assert await tx.documents.newest(limit=9) == []
        assert await tx.jobs.newest() == []
        assert await tx.keys.all() == []
        assert await tx.tenant.get() is None
    with pytest.raises(DBAPIError, match="row-level security"):
        async with database.begin(ACME) as tx:
            await tx.documents.add(new_document(ACME))
    await engine.close()


@pytest.mark.threat(19)
@pytest.mark.usefixtures("two_tenants")
async def test_threat_19_a_prepared_statement_serves_each_tenant_its_own_rows(app: asyncpg.Connection) -> None:
    prepared = {}
    async with clamped(app, "acme"):
        for table in TABLES:
            prepared[table] = await app.prepare(f"select tenant_id from daira.{table} where tenant_id <> $1")
    for _ in range(8):
        for tenant in ("acme", "globex"):
            async with clamped(app, tenant):
                for statement in prepared.values():
                    assert {row["tenant_id"] for row in await statement.fetch("x")} == {tenant}
        for statement in prepared.values():
            assert await statement.fetch("x") == []


@pytest.mark.threat(20)
async def test_threat_20_a_function_over_tenants_gives_the_clamp_back_and_catches_no_error(
    app: asyncpg.Connection, two_tenants: Rig
) -> None:
    """An EXCEPTION block or a savepoint that is rolled back brings an earlier tenant's clamp back."""
    job = await two_tenants.enqueue(GLOBEX)
    async with clamped(app, "acme"):
        await app.execute("savepoint s")
        (row,) = await app.fetch(CLAIM, [GLOBEX], [job.id], "w", LEASE, ["ocr"], None)
        assert row["outcome"] == "claimed"
        assert await app.fetchval("select current_setting('app.tenant_id')") == "acme"
        await app.execute("rollback to s")
        assert await app.fetchval("select current_setting('app.tenant_id')") == "acme"
        with pytest.raises(asyncpg.DataError):
            async with app.transaction():
                await app.fetch(CLAIM, [GLOBEX], ["nonsense"], "w", LEASE, ["ocr"], None)
        assert await counts(app) == dict.fromkeys(TABLES, 1)
    bodies = await app.fetch(
        "select proname, prosrc from pg_proc where pronamespace = 'daira'::regnamespace and prosrc ilike '%set_config%'"
    )
    assert len(bodies) >= 4
    assert [row["proname"] for row in bodies if "exception" in row["prosrc"].lower().split()] == []


@pytest.mark.threat(25)
@pytest.mark.usefixtures("two_tenants")
async def test_threat_25_copying_is_filtered_one_way_and_refused_the_other(app: asyncpg.Connection) -> None:
    async def copied() -> list[bytes]:
        target = io.BytesIO()
        await app.copy_from_query("select tenant_id from daira.jobs", output=target)
        await app.copy_from_table("jobs", schema_name="daira", columns=["tenant_id"], output=target)
        return target.getvalue().split()

    assert await copied() == []
    async with clamped(app, "acme"):
        assert await copied() == [b"acme", b"acme"]
    with pytest.raises(asyncpg.FeatureNotSupportedError):
        async with clamped(app, "acme"):
            await app.copy_records_to_table(
                "jobs", schema_name="daira", columns=["tenant_id", "id", "kind"], records=[("acme", uuid7(), "ocr")]
            )


WHAT_THE_SCOUT_MAY_NOT = [
    "select payload from daira.jobs",
    "select count(payload) from daira.jobs",
    "select 1 from daira.jobs where payload is not null",
    "select 1 from daira.jobs order by payload",
    "select pg_column_size(payload) from daira.jobs",
    "select * from daira.jobs",
    "select jobs from daira.jobs",
    "select jobs::text from daira.jobs",
    "select to_jsonb(jobs) from daira.jobs",
    "select row(jobs.*) from daira.jobs",
    "select id from daira.jobs",
    "select max(id::text) from daira.jobs",
    "select document_id from daira.jobs",
    "select dedup_key from daira.jobs",
    "select last_error from daira.jobs",
    "select progress from daira.jobs",
    "select xmin from daira.jobs",
    "select ctid from daira.jobs",
    "select tenant_id from daira.jobs for update",
    "update daira.jobs set state = 'done'",
    "delete from daira.jobs",
    "insert into daira.jobs (tenant_id, id, kind) values ('acme', gen_random_uuid(), 'ocr')",
    "select created_at from daira.tenants",
    "select max_queued from daira.tenants",
    *(f"select from daira.{table}" for table in TABLES if table not in {"jobs", "tenants"}),
]


@pytest.mark.threat(26, 27)
async def test_threat_26_the_scout_can_spell_it_as_it_likes_and_reads_no_content(
    cloned: Cloned, two_tenants: Rig
) -> None:
    await two_tenants.enqueue(ACME, payload={"secret": 1})
    async with administer(cloned.admin_url) as admin:
        await admin.execute("set role daira_scout")
        for statement in WHAT_THE_SCOUT_MAY_NOT:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await admin.execute(statement)
        assert await admin.fetchval("select count(*) from daira.jobs") == 1
        assert await admin.fetchval("select count(*) from pg_stats where schemaname = 'daira'") == 0


@pytest.mark.threat(27)
@pytest.mark.usefixtures("two_tenants")
async def test_threat_27_finished_jobs_are_out_of_the_scouts_sight(cloned: Cloned) -> None:
    async with administer(cloned.admin_url) as admin:
        assert await admin.fetchval("select count(*) from daira.jobs where state = 'done'") == 2
        await admin.execute("set role daira_scout")
        assert await admin.fetchval("select count(*) from daira.jobs") == 0


@pytest.mark.threat(36)
async def test_threat_36_a_forged_notification_wakes_and_says_nothing(cloned: Cloned, engine: PostgresEngine) -> None:
    """NOTIFY has no access control: whoever may connect may send one, so that nothing of it may be believed."""
    rig = postgres_rig(cloned, engine)
    job = await rig.enqueue(await rig.tenant(ACME))
    doorbell = PostgresDoorbell(engine, lane="ocr", listen_url=cloned.app_url, dropped=lambda _: None)
    waiting = asyncio.create_task(doorbell.answer(limit=10, wait=timedelta(seconds=1)))
    async with administer(cloned.admin_url) as forger, administer(cloned.app_url) as listener:
        heard: list[str] = []
        await listener.add_listener("daira_ocr", lambda *told: heard.append(told[3]))
        await forger.execute("set role daira_scout")
        forged = json.dumps({"tenant_id": ACME, "job_id": str(job.id)})
        for payload in (forged, "'; drop table daira.jobs; --", "x" * 7_000):
            await forger.execute("select pg_notify('daira_ocr', $1)", payload)
        assert await waiting == []
        heard.clear()
        await doorbell.ring([ring_of(job)])
        await listener.execute("select 1")
        assert heard == [""]
    assert [delivery.ring for delivery in await doorbell.answer(limit=10, wait=timedelta())] == [ring_of(job)]
    await doorbell.close()


async def blocks(connection: asyncpg.Connection, statement: str, *arguments: object) -> int:
    """Pages of 8 KB that the server looked at: unlike the time, the same on an idle and on a busy machine."""
    (plan,) = json.loads(await connection.fetchval(f"explain (analyze, buffers, format json) {statement}", *arguments))
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


@pytest.mark.threat(37)
@pytest.mark.parametrize("known", [True, False], ids=["analyzed", "as-if-empty"])
async def test_threat_37_a_claim_costs_the_same_behind_ten_and_ten_thousand_jobs(
    cloned: Cloned, engine: PostgresEngine, app: asyncpg.Connection, *, known: bool
) -> None:
    """Also where the server has planned it for a small table, and not been told since that it has grown."""
    rig = postgres_rig(cloned, engine)
    acme = await rig.tenant(ACME)
    jobs = [await rig.enqueue(acme) for _ in range(6)]

    async def cost() -> int:
        return await blocks(app, CLAIM, [ACME], [jobs.pop().id], "w", LEASE, ["ocr"], None)

    # The first call on a connection reads the catalogue.
    _, _, shallow = [await cost() for _ in range(3)]
    async with administer(cloned.admin_url) as admin:
        await admin.execute(
            "insert into daira.jobs (tenant_id, id, kind) select 'acme', gen_random_uuid(), 'ocr'"
            " from generate_series(1, 10000)"
        )
        if known:
            await admin.execute("analyze daira.jobs")
    _, _, deep = [await cost() for _ in range(3)]
    assert deep < 3 * shallow


@pytest.mark.threat(38)
async def test_threat_38_batches_in_any_order_do_not_deadlock(cloned: Cloned, engine: PostgresEngine) -> None:
    rig = postgres_rig(cloned, engine)
    tenants = [await rig.tenant(f"tenant-{number}") for number in range(6)]
    held = [await rig.lease(await rig.enqueue(tenant)) for tenant in tenants for _ in range(10)]
    leases = PostgresLeases(engine)

    async def beat(seed: int) -> None:
        for turn in range(6):
            order = random.Random(seed * 100 + turn).sample(held, len(held))  # noqa: S311 - repeatable, no secret
            pulses = [LeaseBeat(lease=lease, progress=Progress(done=turn, total=6, unit="page")) for lease in order]
            assert len(await leases.beat(pulses, lease=LEASE)) <= len(held)

    await asyncio.gather(*(beat(seed) for seed in range(8)))
    settled = await asyncio.gather(*(leases.settle([done(lease) for lease in order]) for order in (held[::-1], held)))
    assert sum(answer is not None for answers in settled for answer in answers) == len(held)


@pytest.mark.threat(40)
@pytest.mark.usefixtures("two_tenants")
@pytest.mark.parametrize("table", ["documents", "jobs", "pages"])
async def test_threat_40_looking_for_anothers_id_costs_what_an_unknown_one_costs(
    app: asyncpg.Connection, table: str
) -> None:
    column = "document_id" if table == "pages" else "id"
    async with clamped(app, "globex"):
        theirs: UUID = await app.fetchval(f"select {column} from daira.{table}")
    look = f"select * from daira.{table} where tenant_id = $1 and {column} = $2"
    async with clamped(app, "acme"):
        await app.execute("set local enable_seqscan = off")
        for warm in (theirs, uuid7()):
            await app.fetch(look, "acme", warm)
        costs: list[Any] = [await blocks(app, look, "acme", identity) for identity in (theirs, uuid7(), uuid7())]
    assert len(set(costs)) == 1


@pytest.mark.threat(78)
async def test_threat_78_no_lock_is_shared_by_numbers_that_could_collide(app: asyncpg.Connection) -> None:
    """Rows are locked, and no advisory lock is taken for a tenant or a job: there is nothing that could collide."""
    bodies = await app.fetch(
        "select proname from pg_proc where pronamespace = 'daira'::regnamespace and prosrc ilike '%advisory%'"
    )
    assert bodies == []
