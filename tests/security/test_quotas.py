"""A tenant's limit of queued jobs on a real database: exact, however many ask at once, and nobody else's."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.adapters.filesystem.blobs import FileBlobs
from app.adapters.memory.doorbell import MemoryDoorbell
from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.doorbells import Lane
from app.domain.errors import NotFound, TooMany
from app.domain.ids import TenantId
from app.services import limits
from app.services.erasure import TenantEraser
from app.services.events.watcher import ChangePollers
from app.services.jobs import JobService
from app.services.limits import LOCK_WITHIN
from app.services.ringing import Ringer
from app.services.uploads import JobRequest, UploadService
from app.telemetry import Metrics
from tests.support.databases import Cloned
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import LEASE, SECOND, Rig, ring_of

ENGLISH = frozenset({"eng"})
OCR = JobRequest(kind="ocr", payload={})

SCANS = """
select pg_stat_get_xact_numscans('daira.jobs'::regclass), pg_stat_get_xact_numscans('daira.jobs_live'::regclass),
       pg_stat_get_xact_tuples_returned('daira.jobs_live'::regclass)
"""
"""Of this transaction: walks over the table, uses of the index, and what they read of it."""


@pytest.fixture
async def engine(cloned: Cloned) -> AsyncIterator[PostgresEngine]:
    """Room for all at once: a smaller pool would put them in a row."""
    engine = PostgresEngine(cloned.app_url, pool_size=30, name="test")
    yield engine
    assert engine.checked_out() == 0
    await engine.close()


@pytest.fixture
def rig(cloned: Cloned, engine: PostgresEngine) -> Rig:
    return postgres_rig(cloned, engine)


@pytest.fixture
def uploads(rig: Rig, tmp_path: Path) -> UploadService:
    ringing = Ringer(dict.fromkeys(Lane, MemoryDoorbell()), Metrics())
    return UploadService(
        database=rig.database, blobs=FileBlobs(tmp_path), ringing=ringing, languages=lambda: ENGLISH, llm=False
    )


async def content(number: int) -> AsyncIterator[bytes]:
    yield b"%%PDF-1.7 number %d" % number


async def upload(uploads: UploadService, tenant: TenantId, number: int, *, limit: int, jobs: int = 1) -> str:
    """As the route does it: what is refused is discarded."""
    received = await uploads.receive(tenant, content(number), max_bytes=1000, begun_at=datetime.now(UTC))
    requests = [JobRequest(kind="ocr", payload={"n": n}) for n in range(jobs)]
    try:
        await uploads.accept(
            received, filename="a.pdf", language="eng", metadata={}, requests=requests, max_queued=limit
        )
    except TooMany:
        await uploads.discard(received)
        return "too many"
    return "accepted"


async def stored(rig: Rig, tenant: TenantId, folder: Path) -> tuple[int, int, int]:
    """Documents, jobs, files."""
    async with rig.database.begin(tenant) as tx:
        documents, jobs = await tx.documents.newest(limit=100), await tx.jobs.newest()
    files = [path for path in folder.rglob("*") if path.is_file()]  # noqa: ASYNC240 - a handful
    return len(documents), len(jobs), len(files)


async def test_of_thirty_uploads_at_once_exactly_as_many_are_accepted_as_there_is_room_for(
    rig: Rig, uploads: UploadService, tmp_path: Path
) -> None:
    tenant = await rig.tenant()
    answers = await asyncio.gather(*(upload(uploads, tenant, n, limit=10) for n in range(30)))
    assert Counter(answers) == {"accepted": 10, "too many": 20}
    assert await stored(rig, tenant, tmp_path) == (10, 10, 10)


async def test_it_is_as_exact_where_the_limit_comes_near_only_meanwhile(
    rig: Rig, uploads: UploadService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some are counted without the lock; their jobs are within what `LOCK_WITHIN` leaves room for."""
    # 30 connections, and so 30 transactions at a time with 4 jobs each.
    monkeypatch.setattr(limits, "LOCK_WITHIN", 120)
    tenant = await rig.tenant()
    for _ in range(30):
        await rig.enqueue(tenant)
    answers = await asyncio.gather(*(upload(uploads, tenant, n, limit=160, jobs=4) for n in range(45)))
    # 130 places.
    assert Counter(answers) == {"accepted": 32, "too many": 13}
    assert await stored(rig, tenant, tmp_path) == (32, 30 + 128, 32)


async def test_job_requests_and_uploads_share_the_limit(rig: Rig, uploads: UploadService) -> None:
    tenant = await rig.tenant()
    documents = [await rig.document(tenant) for _ in range(10)]
    jobs = JobService(
        database=rig.database,
        ringing=uploads.ringing,
        languages=lambda: ENGLISH,
        llm=False,
        watching=ChangePollers(rig.database),
        stopping=asyncio.Event(),
    )
    requests = [jobs.request(tenant, each.id, OCR, max_queued=7) for each in documents]
    sent = [upload(uploads, tenant, n, limit=7) for n in range(10)]
    await asyncio.gather(*requests, *sent, return_exceptions=True)
    async with rig.database.begin(tenant) as tx:
        assert await tx.jobs.live(at_most=100) == 7


async def test_a_full_tenant_takes_nothing_from_another(rig: Rig, uploads: UploadService) -> None:
    full, other = await rig.tenant("full"), await rig.tenant("other")
    flood = [upload(uploads, full, n, limit=1) for n in range(15)]
    mine = [upload(uploads, other, n, limit=10) for n in range(10)]
    answers = await asyncio.gather(*flood, *mine)
    assert Counter(answers[15:]) == {"accepted": 10}
    assert Counter(answers[:15]) == {"accepted": 1, "too many": 14}


async def test_uploads_and_claims_of_a_tenant_with_both_limits_do_not_block_one_another(
    rig: Rig, uploads: UploadService
) -> None:
    """Both take the tenant's lock, and each takes it last."""
    tenant = await rig.tenant()
    async with rig.database.begin(tenant) as tx:
        found = await tx.tenant.get()
        assert found is not None
        await tx.tenant.set_limits(found.limits.changed({"max_running": 5}))
    jobs = [await rig.enqueue(tenant) for _ in range(20)]

    async def claim() -> int:
        claims = await rig.leases.claim(
            [ring_of(job) for job in jobs], worker="w", lease=LEASE, kinds=frozenset({"ocr"})
        )
        return sum(claim.job is not None for claim in claims)

    async with asyncio.timeout(30):
        sent = [upload(uploads, tenant, n, limit=30) for n in range(14)]
        claimed, answers = await asyncio.gather(asyncio.gather(*(claim() for _ in range(10))), asyncio.gather(*sent))
    assert sum(claimed) == 5
    assert Counter(answers) == {"accepted": 10, "too many": 4}


async def test_counting_a_long_queue_stops_at_the_limit_and_walks_the_live_jobs_alone(rig: Rig, cloned: Cloned) -> None:
    tenant, rows = await rig.tenant(), LOCK_WITHIN * 20
    async with administer(cloned.admin_url) as admin:
        await admin.execute(
            "insert into daira.jobs (tenant_id, id, kind, state) select $1, gen_random_uuid(), 'ocr',"
            " case when n % 10 = 0 then 'queued' else 'done' end from generate_series(1, $2) n",
            tenant,
            rows,
        )
        await admin.execute("analyze daira.jobs")
    async with administer(cloned.app_url) as app, app.transaction():
        await app.execute("select set_config('app.tenant_id', $1, true)", tenant)
        assert await app.fetchval("select daira.live_jobs($1, 100)", tenant) == 100
        assert await app.fetchval("select daira.live_jobs($1, 100000)", tenant) == rows // 10
        assert await app.fetchval("select daira.live_jobs('other', 100)") == 0
        walks, probes, read = await app.fetchrow(SCANS)
    # Another tenant's are not even looked for.
    assert (walks, probes) == (0, 2)
    assert read <= 100 + rows // 10 + 10


async def test_erasing_a_tenant_in_the_middle_of_its_uploads_leaves_nothing(
    rig: Rig, uploads: UploadService, tmp_path: Path
) -> None:
    tenant, other = await rig.tenant(), await rig.tenant("other")
    await upload(uploads, other, 0, limit=10)
    lease = await rig.lease(await rig.enqueue(tenant))

    async def uploading(number: int) -> str:
        received = await uploads.receive(tenant, content(number), max_bytes=1000, begun_at=datetime.now(UTC))
        try:
            await uploads.accept(received, filename="a", language="eng", metadata={}, requests=[OCR], max_queued=10)
        except (NotFound, TooMany) as refused:
            await uploads.discard(received)
            return type(refused).__name__
        return "accepted"

    sent = [asyncio.create_task(uploading(n)) for n in range(20)]
    await asyncio.sleep(0.02)
    async with asyncio.timeout(30):
        await TenantEraser(database=rig.database, blobs=uploads.blobs).erase(tenant)
        answers = await asyncio.gather(*sent, return_exceptions=True)
    # A put whose folder went away under it is told that the store failed, and tries again in vain.
    assert {answer if isinstance(answer, str) else type(answer).__name__ for answer in answers} <= {
        "accepted",
        "NotFound",
        "TooMany",
        "Unavailable",
    }
    assert await stored(rig, tenant, tmp_path) == (0, 0, 1)
    assert not (await rig.beat(lease)).held
    await rig.advance(SECOND)
    assert await stored(rig, other, tmp_path) == (1, 1, 1)
