"""The Postgres adapters keep the contracts, on a real server and with the rights that they have in production."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.adapters.postgres import idempotency_keys
from app.adapters.postgres.doorbell import PostgresDoorbell
from app.adapters.postgres.engine import PostgresEngine, administer
from app.adapters.postgres.leases import CLAIM
from app.domain.doorbells import Ring
from app.domain.errors import Conflict
from app.domain.idempotency import LIFETIME
from app.domain.ids import JobId, tenant_id, uuid7
from app.domain.leases import ClaimOutcome, Lease, LeaseBeat
from app.ports.doorbell import Doorbell
from tests.conformance.announcements_suite import AnnouncementsSuite
from tests.conformance.answers_suite import AnswersSuite
from tests.conformance.caps_suite import CapsSuite, capped
from tests.conformance.changes_suite import ChangesSuite
from tests.conformance.database_suite import DatabaseSuite
from tests.conformance.documents_suite import DocumentsSuite
from tests.conformance.doorbell_suite import DoorbellSuite
from tests.conformance.drafts_suite import DraftsSuite
from tests.conformance.idempotency_suite import IdempotencySuite, use
from tests.conformance.jobs_suite import JobsSuite
from tests.conformance.keys_suite import KeysSuite
from tests.conformance.leases_suite import LeasesSuite
from tests.conformance.retries_suite import RetriesSuite
from tests.conformance.search_suite import StemmedSearchSuite
from tests.conformance.sweeps_suite import SweepsSuite
from tests.conformance.tenants_suite import TenantsSuite
from tests.conformance.usage_suite import UsageSuite
from tests.conformance.webhooks_suite import WebhooksSuite
from tests.support.databases import Cloned
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import LEASE, Rig, done, new_page, ring_of


@pytest.fixture
def rig(cloned: Cloned, engine: PostgresEngine) -> Rig:
    return postgres_rig(cloned, engine)


@pytest.fixture
async def doorbell(cloned: Cloned, engine: PostgresEngine) -> AsyncIterator[Doorbell]:
    doorbell = PostgresDoorbell(engine, lane="ocr", listen_url=cloned.app_url, dropped=_none_dropped)
    yield doorbell
    await doorbell.close()


def _none_dropped(count: int) -> None:
    raise AssertionError(f"{count} genuine bells were dropped")


class TestPostgresDatabase(DatabaseSuite):
    async def test_a_removed_tenants_bells_go_with_it_but_for_one_that_somebody_is_at(
        self, rig: Rig, doorbell: Doorbell, cloned: Cloned
    ) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        await rig.suspend(acme)
        held, *others = [Ring(tenant, JobId(uuid7())) for tenant in (acme, acme, bolt)]
        await doorbell.ring([held, *others])
        async with administer(cloned.app_url) as other, other.transaction():
            await other.execute("select from daira.doorbells where job_id = $1 for update", held.job_id)
            async with asyncio.timeout(5), rig.database.begin(acme) as tx:
                assert await tx.tenant.remove()
        left = await doorbell.answer(limit=10, wait=timedelta())
        assert {delivery.ring for delivery in left} == {held, others[-1]}

    async def test_a_removal_in_the_middle_of_a_settle_waits_for_it(self, rig: Rig) -> None:
        """They lock in the same order: the job, then the document."""
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        lease = await rig.lease(await rig.enqueue(tenant, document_id=document.id))
        await rig.suspend(tenant)

        async def remove() -> bool:
            async with rig.database.begin(tenant) as tx:
                return await tx.tenant.remove()

        async with asyncio.timeout(10):
            async with rig.database.begin(tenant) as tx:
                assert await tx.jobs.settle(done(lease))
                removal = asyncio.create_task(remove())
                finished, _ = await asyncio.wait({removal}, timeout=0.3)
                assert not finished
                await tx.pages.replace(document.id, [new_page()])
            assert await removal


class TestPostgresTenants(TenantsSuite):
    pass


class TestPostgresKeys(KeysSuite):
    pass


class TestPostgresDocuments(DocumentsSuite):
    async def test_a_removal_in_the_middle_of_a_settle_waits_for_it(self, rig: Rig) -> None:
        """They lock in the same order: the job, then the document."""
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        lease = await rig.lease(await rig.enqueue(tenant, document_id=document.id))

        async def remove() -> bool:
            async with rig.database.begin(tenant) as tx:
                return await tx.documents.remove(document.id)

        async with asyncio.timeout(10):
            async with rig.database.begin(tenant) as tx:
                assert await tx.jobs.settle(done(lease))
                removal = asyncio.create_task(remove())
                finished, _ = await asyncio.wait({removal}, timeout=0.3)
                assert not finished
                await tx.pages.replace(document.id, [new_page()])
            assert await removal

    async def test_pages_with_very_many_words_come_back_whole(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        word = new_page().words[0]
        pages = [replace(new_page(number), words=(word,) * 3_000) for number in range(1, 8)]
        async with rig.database.begin(tenant) as tx:
            await tx.pages.replace(document.id, pages)
        async with rig.database.begin(tenant) as tx:
            assert [page.number for page in await tx.pages.all(document.id)] == list(range(1, 8))
            assert await tx.pages.get(document.id, 7) == pages[6]


class TestPostgresDrafts(DraftsSuite):
    async def test_whoever_ends_the_attempt_waits_for_a_draft_that_is_being_written(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        lease = await rig.lease(await rig.enqueue(tenant, document_id=document.id))
        async with asyncio.timeout(10):
            async with rig.database.begin(tenant) as tx:
                assert await tx.pages.draft(lease, [new_page()])
                settle = asyncio.create_task(rig.settle(done(lease)))
                finished, _ = await asyncio.wait({settle}, timeout=0.3)
                assert not finished
            assert await settle


class TestPostgresSearch(StemmedSearchSuite):
    pass


class TestPostgresUsage(UsageSuite):
    pass


class TestPostgresAnswers(AnswersSuite):
    pass


class TestPostgresJobs(JobsSuite):
    pass


class TestPostgresCaps(CapsSuite):
    async def test_a_claim_waits_for_one_whose_count_it_must_see(self, rig: Rig, cloned: Cloned) -> None:
        """Each counting for itself, both would find room."""
        tenant = await capped(rig, 1)
        first, second = await rig.enqueue(tenant), await rig.enqueue(tenant)
        async with administer(cloned.app_url) as other:
            async with other.transaction():
                (row,) = await other.fetch(CLAIM, [tenant], [first.id], "other", LEASE, [first.kind], None)
                assert row["outcome"] == ClaimOutcome.CLAIMED
                rival = asyncio.create_task(rig.claim(ring_of(second)))
                finished, _ = await asyncio.wait({rival}, timeout=0.3)
                assert not finished
            assert (await rival).outcome is ClaimOutcome.CAPPED


class TestPostgresIdempotencyKeys(IdempotencySuite):
    async def test_a_request_that_stays_open_is_not_waited_for_for_ever(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(idempotency_keys, "WAIT_BRIEFLY", text("set local lock_timeout = '200ms'"))
        tenant = await rig.tenant()
        async with asyncio.timeout(10), rig.database.begin(tenant) as tx:
            assert await tx.idempotency_keys.take("a key", b"one") is None
            with pytest.raises(Conflict, match="send it again"):
                async with rig.database.begin(tenant) as other:
                    await other.idempotency_keys.take("a key", b"one")

    async def test_waiting_for_other_locks_is_as_before(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(idempotency_keys, "WAIT_BRIEFLY", text("set local lock_timeout = '200ms'"))
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        taken = asyncio.Event()

        async def read_later() -> None:
            async with rig.database.begin(tenant) as other:
                await other.idempotency_keys.take("a key", b"one")
                taken.set()
                assert await other.documents.with_bytes(document.sha256) is None

        async with asyncio.timeout(10):
            async with rig.database.begin(tenant) as tx:
                await tx.documents.remove(document.id)
                reader = asyncio.create_task(read_later())
                await taken.wait()
                finished, _ = await asyncio.wait({reader}, timeout=0.5)
                assert not finished
            await reader

    async def test_keys_that_somebody_is_at_are_passed_over(self, rig: Rig, cloned: Cloned) -> None:
        tenant = await rig.tenant()
        for key in ("held", "free"):
            await use(rig, tenant, key=key)
        await rig.advance(LIFETIME)
        async with administer(cloned.admin_url) as other, other.transaction():
            await other.execute("select from daira.idempotency_keys where key = 'held' for update")
            async with asyncio.timeout(5), rig.database.begin(tenant) as tx:
                assert await tx.idempotency_keys.remove_expired(at_most=10) == 1


class TestPostgresLeases(LeasesSuite):
    async def test_a_row_that_somebody_is_at_is_passed_over_and_not_waited_for(self, rig: Rig, cloned: Cloned) -> None:
        job = await rig.enqueue(await rig.tenant())
        async with administer(cloned.admin_url) as other, other.transaction():
            await other.execute("select from daira.jobs where id = $1 for update", job.id)
            async with asyncio.timeout(5):
                claim = await rig.claim(ring_of(job))
            assert claim.outcome is ClaimOutcome.MISSING_OR_LOCKED
        assert (await rig.claim(ring_of(job))).outcome is ClaimOutcome.CLAIMED

    async def test_a_beat_passes_over_a_job_that_is_being_settled(self, rig: Rig) -> None:
        """A settle of a long document takes seconds: the neighbours' leases must not wait for it."""
        tenant = await rig.tenant()
        settled, other = [await rig.lease(await rig.enqueue(tenant)) for _ in range(2)]
        gone = Lease(tenant_id=tenant, job_id=JobId(uuid7()), attempt=1)
        async with rig.database.begin(tenant) as tx:
            assert await tx.jobs.settle(done(settled))
            async with asyncio.timeout(5):
                beats = await rig.leases.beat([LeaseBeat(lease=lease) for lease in (settled, other, gone)], lease=LEASE)
            assert {beat.lease: beat.held for beat in beats} == {other: True, gone: False}
        assert not (await rig.beat(settled)).held


class TestPostgresRetries(RetriesSuite):
    pass


class TestPostgresWebhooks(WebhooksSuite):
    pass


class TestPostgresAnnouncements(AnnouncementsSuite):
    pass


class TestPostgresSweeps(SweepsSuite):
    pass


class TestPostgresDoorbell(DoorbellSuite):
    async def test_a_lane_hears_its_own_bells_alone(
        self, doorbell: Doorbell, cloned: Cloned, engine: PostgresEngine
    ) -> None:
        other = PostgresDoorbell(engine, lane="llm", listen_url=cloned.app_url, dropped=_none_dropped)
        await other.ring([Ring(tenant_id("acme"), JobId(uuid7()))])
        assert await doorbell.answer(limit=10, wait=timedelta()) == []
        assert len(await other.answer(limit=10, wait=timedelta())) == 1
        await other.close()

    async def test_a_job_that_is_rung_for_later_keeps_the_sooner_bell(self, doorbell: Doorbell) -> None:
        bell = Ring(tenant_id("acme"), JobId(uuid7()))
        await doorbell.ring([bell])
        await doorbell.ring([bell], delay=timedelta(hours=1))
        assert [delivery.ring for delivery in await doorbell.answer(limit=10, wait=timedelta())] == [bell]

    @pytest.mark.threat(32, 33)
    async def test_rows_that_are_no_doorbells_are_dropped_and_their_mates_delivered(
        self, cloned: Cloned, engine: PostgresEngine
    ) -> None:
        counts: list[int] = []
        doorbell = PostgresDoorbell(engine, lane="ocr", listen_url=cloned.app_url, dropped=counts.append)
        genuine = Ring(tenant_id("acme"), JobId(uuid7()))
        async with administer(cloned.app_url) as forger:
            for tenant in ("", "../b", "Acme", "a" * 64, "acme"):
                job = genuine.job_id if tenant == "acme" else uuid7()
                await forger.execute(
                    "insert into daira.doorbells (lane, tenant_id, job_id) values ('ocr', $1, $2)", tenant, job
                )
        answered = await doorbell.answer(limit=10, wait=timedelta())
        await doorbell.close()
        assert [delivery.ring for delivery in answered] == [genuine]
        assert sum(counts) == 4


class TestPostgresChanges(ChangesSuite):
    pass
