"""The purge removes what is old and belongs to nobody, documents beyond retention, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from app.adapters.memory.blobs import MemoryBlobs
from app.domain import documents as documents_domain
from app.domain.documents import ACCEPTED_WITHIN, ORPHAN_AFTER, Document, blob_key, document_of
from app.domain.errors import Invalid, Unavailable
from app.domain.ids import DocumentId, TenantId, uuid7
from app.services import purging as purging_service
from app.services import uploads as meter_service
from app.services.purging import PurgeReport
from app.telemetry import Metrics
from tests.support.rig import SECOND, Rig
from tests.unit.bench import purging
from tests.unit.test_uploads import Desk, chunks

ACME, BOLT = TenantId("acme"), TenantId("bolt")
DAY = timedelta(days=1)
OLD = DAY + timedelta(minutes=1)


class Yard:
    """Blobs of chosen ages, and the documents that they belong to."""

    def __init__(self, rig: Rig, blobs: MemoryBlobs | None = None) -> None:
        self.rig = rig
        self.blobs = blobs or MemoryBlobs()

    async def blob(self, tenant: TenantId = ACME, *, age: timedelta = OLD, name: str | None = None) -> str:
        key = blob_key(tenant, DocumentId(uuid7())) if name is None else f"{tenant}/{name}"
        await self.blobs.put(key, chunks(b"Dear Sir"))
        self.blobs._stored_at[key] = datetime.now(UTC) - age
        return key

    async def document(self, tenant: TenantId = ACME, *, age: timedelta = OLD) -> Document:
        document = await self.rig.document(tenant, created_at=datetime.now(UTC) - age)
        await self.blob(tenant, age=age, name=str(document.id))
        return document

    async def documents(self, tenant: TenantId = ACME) -> list[DocumentId]:
        async with self.rig.database.begin(tenant) as tx:
            return [document.id for document in await tx.documents.newest(limit=1000)]

    def left(self, tenant: TenantId = ACME) -> list[str]:
        return sorted(key for key in self.blobs._blobs if key.startswith(f"{tenant}/"))


@pytest.fixture
async def yard(rig: Rig) -> Yard:
    for tenant in (ACME, BOLT):
        await rig.tenant(tenant)
    return Yard(rig)


async def test_a_blob_without_a_document_goes_when_it_is_a_day_old(yard: Yard) -> None:
    young = await yard.blob(age=DAY - timedelta(minutes=1))
    await yard.blob(age=OLD)
    assert await purging(yard.rig, yard.blobs).purge() == PurgeReport(orphans=1)
    assert yard.left() == [young]


async def test_a_blob_with_a_document_stays_however_old(yard: Yard) -> None:
    document = await yard.document(age=timedelta(days=10_000))
    assert not await purging(yard.rig, yard.blobs).purge()
    assert yard.left() == [blob_key(ACME, document.id)]


async def test_a_document_of_another_tenant_is_no_reason_to_keep_a_blob(yard: Yard) -> None:
    document = await yard.document(BOLT)
    await yard.blob(ACME, name=str(document.id))
    assert await purging(yard.rig, yard.blobs).purge() == PurgeReport(orphans=1)
    assert (yard.left(ACME), yard.left(BOLT)) == ([], [blob_key(BOLT, document.id)])


async def test_a_blob_of_another_kind_is_let_be(yard: Yard) -> None:
    names = ["a-thumbnail", str(uuid7()).replace("-", ""), f"urn-uuid-{uuid7()}"]
    kept = sorted([await yard.blob(name=name) for name in names])
    assert not await purging(yard.rig, yard.blobs).purge()
    assert yard.left() == kept


async def test_a_suspended_tenant_is_left_as_it_is(yard: Yard) -> None:
    await yard.document(age=timedelta(days=100))
    await yard.blob()
    await yard.rig.suspend(ACME)
    assert not await purging(yard.rig, yard.blobs, retention=30 * DAY).purge()
    assert len(yard.left()) == 2
    await yard.rig.resume(ACME)
    assert await purging(yard.rig, yard.blobs, retention=30 * DAY).purge() == PurgeReport(orphans=1, documents=1)


async def test_what_is_no_tenants_is_let_be(yard: Yard) -> None:
    """Tenants are found in the registry: an operator who has put others' files beside them loses none."""
    await yard.blob(TenantId("nobody"))
    assert not await purging(yard.rig, yard.blobs).purge()
    assert len(yard.left(TenantId("nobody"))) == 1


async def test_documents_beyond_retention_go_with_their_bytes_and_the_others_stay(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging_service, "AT_A_TIME", 2)
    for n in range(5):
        await yard.document(age=30 * DAY + timedelta(hours=n + 1))
    kept = await yard.document(age=29 * DAY)
    await yard.document(BOLT, age=31 * DAY)
    assert await purging(yard.rig, yard.blobs, retention=30 * DAY).purge() == PurgeReport(documents=6)
    assert await yard.documents() == [kept.id]
    assert (yard.left(), yard.left(BOLT)) == ([blob_key(ACME, kept.id)], [])


async def test_without_a_retention_documents_are_kept_for_ever(yard: Yard) -> None:
    await yard.document(age=timedelta(days=36_500))
    assert not await purging(yard.rig, yard.blobs).purge()


async def test_the_row_goes_before_the_bytes_and_bytes_that_stay_go_the_next_time(rig: Rig) -> None:
    class Failing(MemoryBlobs):
        away = True

        @override
        async def delete(self, key: str) -> None:
            if self.away:
                raise Unavailable("the disk is away")
            await super().delete(key)

    blobs = Failing()
    await rig.tenant(ACME)
    yard = Yard(rig, blobs)
    await yard.document(age=31 * DAY)
    purge = purging(rig, blobs, retention=30 * DAY).purge
    with pytest.raises(Unavailable, match="1 tenants could not be purged"):
        await purge()
    assert (await yard.documents(), len(yard.left())) == ([], 1)
    blobs.away = False
    assert await purge() == PurgeReport(orphans=1)
    assert yard.left() == []


async def test_a_dry_run_counts_the_same_and_changes_nothing(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging_service, "AT_A_TIME", 2)
    for _ in range(5):
        await yard.document(age=31 * DAY)
        await yard.blob()
    metrics = Metrics()
    purge = purging(yard.rig, yard.blobs, retention=30 * DAY, metrics=metrics).purge
    counted = await purge(dry_run=True)
    assert (len(await yard.documents()), len(yard.left())) == (5, 10)
    assert metrics.registry.get_sample_value("daira_purged_total", {"what": "orphan"}) is None
    assert await purge() == counted == PurgeReport(documents=5, orphans=5)
    assert metrics.registry.get_sample_value("daira_purged_total", {"what": "orphan"}) == 5
    assert metrics.registry.get_sample_value("daira_purged_total", {"what": "document"}) == 5


async def test_a_bucket_whose_database_is_another_or_empty_loses_nothing(yard: Yard) -> None:
    for _ in range(21):
        await yard.blob()
    for _ in range(5):
        await yard.document()
    with capture_logs() as logs:
        assert await purging(yard.rig, yard.blobs).purge() == PurgeReport(left=21)
    assert [(entry["event"], entry["count"]) for entry in logs] == [("orphans_left", 21)]
    assert len(yard.left()) == 26
    assert await purging(yard.rig, yard.blobs).purge(even_many=True) == PurgeReport(orphans=21)
    assert len(yard.left()) == 5


async def test_many_orphans_beside_more_documents_are_waste(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging_service, "AT_A_TIME", 7)
    monkeypatch.setattr(purging_service, "ORPHANS_AT_A_TIME", 15)
    for _ in range(25):
        await yard.blob()
        await yard.document()
    purge = purging(yard.rig, yard.blobs).purge
    assert [(await purge()).orphans for _ in range(3)] == [15, 10, 0]
    assert len(yard.left()) == 25


async def test_a_tenant_that_fails_keeps_no_other_from_its_turn_and_that_is_told(rig: Rig) -> None:
    class Failing(MemoryBlobs):
        @override
        async def clear_unfinished(self, tenant_id: TenantId, *, before: datetime, dry_run: bool = False) -> int:
            if tenant_id == ACME:
                raise Unavailable("access denied")
            return 0

    for tenant in (ACME, BOLT):
        await rig.tenant(tenant)
    yard = Yard(rig, Failing())
    await yard.blob(BOLT)
    heard: list[tuple[TenantId, PurgeReport]] = []
    with capture_logs() as logs, pytest.raises(Unavailable, match="1 tenants could not be purged"):
        await purging(rig, yard.blobs).purge(told=lambda *each: heard.append(each))
    assert yard.left(BOLT) == []
    assert heard == [(BOLT, PurgeReport(orphans=1))]
    assert [entry["tenant_id"] for entry in logs if entry["event"] == "purge_failed"] == [ACME]


async def test_a_tenant_that_takes_too_long_keeps_no_other_from_its_turn(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging_service, "PATIENCE", timedelta(milliseconds=50))

    class Hanging(MemoryBlobs):
        @override
        async def keys(self, tenant_id: TenantId, *, before: datetime) -> AsyncIterator[str]:
            if tenant_id == ACME:
                await asyncio.Event().wait()
            async for key in super().keys(tenant_id, before=before):
                yield key

    for tenant in (ACME, BOLT):
        await rig.tenant(tenant)
    yard = Yard(rig, Hanging())
    await yard.blob(BOLT)
    with pytest.raises(Unavailable, match="1 tenants"):
        await purging(rig, yard.blobs).purge()
    assert yard.left(BOLT) == []


async def test_a_store_that_is_away_is_asked_once_and_one_that_goes_a_few_times(rig: Rig) -> None:
    asked: list[TenantId] = []

    class Away(MemoryBlobs):
        there = False

        @override
        async def ping(self) -> None:
            if not self.there:
                raise Unavailable("no bucket")

        @override
        async def clear_unfinished(self, tenant_id: TenantId, *, before: datetime, dry_run: bool = False) -> int:
            asked.append(tenant_id)
            raise Unavailable("gone")

    for n in range(12):
        await rig.tenant(f"t{n:02}")
    blobs = Away()
    with pytest.raises(Unavailable, match="no bucket"):
        await purging(rig, blobs).purge()
    assert asked == []
    blobs.there = True
    with pytest.raises(Unavailable, match="gave up because 5 tenants"):
        await purging(rig, blobs).purge()
    assert len(asked) == 5


async def test_a_document_that_somebody_else_removes_meanwhile_is_no_fault(rig: Rig) -> None:
    class Racing(MemoryBlobs):
        @override
        async def delete(self, key: str) -> None:
            await super().delete(key)
            for document in documents:
                await rig.remove(document)

    await rig.tenant(ACME)
    yard = Yard(rig, Racing())
    documents = [await yard.document(age=31 * DAY) for _ in range(3)]
    assert await purging(rig, yard.blobs, retention=30 * DAY).purge() == PurgeReport(documents=3)
    assert (await yard.documents(), yard.left()) == ([], [])


async def test_two_purges_at_once_remove_all_once_and_fail_neither(yard: Yard) -> None:
    for _ in range(10):
        await yard.document(age=31 * DAY)
        await yard.blob()
    purge = purging(yard.rig, yard.blobs, retention=30 * DAY).purge
    await asyncio.gather(purge(), purge())
    assert (await yard.documents(), yard.left()) == ([], [])


async def test_an_upload_that_takes_longer_than_it_may_is_refused_and_so_no_row_comes_to_purged_bytes(
    rig: Rig,
) -> None:
    assert ACCEPTED_WITHIN * 2 <= ORPHAN_AFTER
    tenant, desk = await rig.tenant(), Desk(rig)
    received = await desk.receive(tenant, chunks(b"%PDF-1.7 hello"))
    await rig.advance(ACCEPTED_WITHIN + SECOND)
    with pytest.raises(Invalid, match="took more than"):
        await desk.accept(received)
    assert (await desk.counts(tenant))[:2] == (0, 0)


async def test_an_upload_that_goes_on_for_too_long_is_stopped_amid_its_bytes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meter_service, "ACCEPTED_WITHIN", timedelta(milliseconds=50))
    tenant, desk = await rig.tenant(), Desk(rig, max_bytes=10**9)

    async def endless() -> AsyncIterator[bytes]:
        yield b"%PDF-1.7"
        while True:
            await asyncio.sleep(0)
            yield b"x"

    async with asyncio.timeout(10):
        with pytest.raises(Invalid, match="took more than"):
            await desk.receive(tenant, endless())
    assert await desk.counts(tenant) == (0, 0, 0)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("0197a2b8-7f3c-7000-8000-000000000001", True),
        ("0197a2b87f3c70008000000000000001", False),
        ("0197A2B8-7F3C-7000-8000-000000000001", False),
        ("{0197a2b8-7f3c-7000-8000-000000000001}", False),
        ("a-thumbnail", False),
        ("", False),
    ],
)
def test_a_blob_is_a_documents_by_the_very_spelling_of_its_key(name: str, *, known: bool) -> None:
    expected = DocumentId(UUID("0197a2b8-7f3c-7000-8000-000000000001")) if known else None
    assert documents_domain.document_of(f"acme/{name}") == document_of(f"acme/{name}") == expected
    with suppress(ValueError):
        if known:
            assert blob_key(ACME, DocumentId(UUID(name))) == f"acme/{name}"


async def test_jobs_without_a_document_go_when_they_ended_long_ago(yard: Yard) -> None:
    document = await yard.document()
    of_document = await yard.rig.enqueue(ACME, document_id=document.id)
    old, waiting = await yard.rig.enqueue(ACME), await yard.rig.enqueue(ACME)
    for job in (of_document, old):
        await yard.rig.cancel(job)
    await yard.rig.advance(DAY * 2)
    recent = await yard.rig.enqueue(ACME)
    await yard.rig.cancel(recent)
    metrics = Metrics()
    service = purging(yard.rig, yard.blobs, metrics=metrics, job_retention=DAY, tolerated=timedelta.max)
    assert (await service.purge(dry_run=True)).jobs == 1
    assert (await service.purge()).jobs == 1
    assert (await service.purge()).jobs == 0
    async with yard.rig.database.begin(ACME) as tx:
        assert {job.id for job in await tx.jobs.newest()} == {of_document.id, waiting.id, recent.id}
    assert metrics.registry.get_sample_value("daira_purged_total", {"what": "job"}) == 1


async def test_without_a_retention_of_jobs_none_goes(yard: Yard) -> None:
    await yard.rig.cancel(await yard.rig.enqueue(ACME))
    await yard.rig.advance(DAY * 10_000)
    assert (await purging(yard.rig, yard.blobs, tolerated=timedelta.max).purge()).jobs == 0


async def test_where_the_databases_clock_is_another_than_this_machines_nothing_is_purged(yard: Yard) -> None:
    """Either may be wrong; and this one alone would have deleted all there is."""
    documents = [await yard.document(age=DAY) for _ in range(3)]
    await yard.blob()
    await yard.rig.advance(DAY * 40)
    service = purging(yard.rig, yard.blobs, retention=30 * DAY)
    with capture_logs() as logs, pytest.raises(Unavailable, match=r"39 days.* behind the database's: synchronise both"):
        await service.purge()
    assert [entry["log_level"] for entry in logs if entry["event"] == "clocks_differ"] == ["error"]
    assert len(await yard.documents()) == len(documents)
    assert len(yard.left()) == 4
    # It deletes nothing, and shows what the database's clock would make of it.
    assert (await service.purge(dry_run=True)).documents == 3


async def test_where_the_stores_clock_is_another_than_this_machines_nothing_is_purged(rig: Rig) -> None:
    metrics = Metrics()
    await rig.tenant(ACME)
    yard = Yard(rig, MemoryBlobs(clock=lambda: datetime.now(UTC) + 2 * DAY))
    await yard.blob(age=timedelta(seconds=3))
    with pytest.raises(Unavailable, match=r"behind the blob store's"):
        await purging(rig, yard.blobs, metrics=metrics).purge()
    assert len(yard.left()) == 1
    skew = metrics.registry.get_sample_value("daira_blob_clock_skew_seconds")
    assert skew == pytest.approx(-2 * DAY.total_seconds(), abs=5)


async def test_the_age_of_a_blob_is_counted_by_the_stores_own_clock(rig: Rig) -> None:
    """Whatever the differences are that the check tolerates."""
    await rig.tenant(ACME)
    yard = Yard(rig, MemoryBlobs(clock=lambda: datetime.now(UTC) - 10 * DAY))
    for age, name in ((timedelta(days=10.5), "0197a2b8-7f3c-7000-8000-000000000001"), (12 * DAY, str(uuid7()))):
        await yard.blob(age=age, name=name)
    assert await purging(rig, yard.blobs, tolerated=timedelta.max).purge() == PurgeReport(orphans=1)
    assert yard.left() == ["acme/0197a2b8-7f3c-7000-8000-000000000001"]
