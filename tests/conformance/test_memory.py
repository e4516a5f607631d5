"""The memory adapters keep the contracts."""

import asyncio

import pytest

from app.adapters.memory.blobs import MemoryBlobs
from app.adapters.memory.doorbell import MemoryDoorbell
from app.ports.blobs import InventoriedBlobs
from app.ports.doorbell import Doorbell
from tests.conformance.announcements_suite import AnnouncementsSuite
from tests.conformance.answers_suite import AnswersSuite
from tests.conformance.blobs_suite import BlobsSuite
from tests.conformance.caps_suite import CapsSuite
from tests.conformance.changes_suite import ChangesSuite
from tests.conformance.database_suite import DatabaseSuite
from tests.conformance.documents_suite import DocumentsSuite
from tests.conformance.doorbell_suite import DoorbellSuite, drained, new_rings, waiting
from tests.conformance.drafts_suite import DraftsSuite
from tests.conformance.idempotency_suite import IdempotencySuite
from tests.conformance.jobs_suite import JobsSuite
from tests.conformance.keys_suite import KeysSuite
from tests.conformance.leases_suite import LeasesSuite
from tests.conformance.retries_suite import RetriesSuite
from tests.conformance.search_suite import SearchSuite
from tests.conformance.sweeps_suite import SweepsSuite
from tests.conformance.tenants_suite import TenantsSuite
from tests.conformance.usage_suite import UsageSuite
from tests.conformance.webhooks_suite import WebhooksSuite
from tests.support.rig import Rig, memory_rig, new_document


@pytest.fixture
def rig() -> Rig:
    return memory_rig()


@pytest.fixture
def doorbell() -> Doorbell:
    return MemoryDoorbell()


@pytest.fixture
def blobs() -> InventoriedBlobs:
    return MemoryBlobs()


class TestMemoryDatabase(DatabaseSuite):
    pass


class TestMemoryTenants(TenantsSuite):
    pass


class TestMemoryKeys(KeysSuite):
    pass


class TestMemoryDocuments(DocumentsSuite):
    pass


class TestMemoryDrafts(DraftsSuite):
    pass


class TestMemorySearch(SearchSuite):
    """Its words are as they are: what a language's rules make of them, Postgres alone is asked."""


class TestMemoryUsage(UsageSuite):
    pass


class TestMemoryAnswers(AnswersSuite):
    pass


class TestMemoryJobs(JobsSuite):
    pass


class TestMemoryCaps(CapsSuite):
    pass


class TestMemoryIdempotencyKeys(IdempotencySuite):
    pass


class TestMemoryLeases(LeasesSuite):
    async def test_a_beat_from_another_thread_waits_for_an_open_transaction(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        lease = await rig.lease(await rig.enqueue(tenant))
        async with rig.database.begin(tenant) as tx:
            await tx.documents.add(new_document(tenant))
            beat = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(rig.beat(lease))))
            done, _ = await asyncio.wait({beat}, timeout=0.1)
            assert not done
        async with asyncio.timeout(10):
            assert (await beat).held
        async with rig.database.begin(tenant) as tx:
            assert len(await tx.documents.newest(limit=10)) == 1


class TestMemoryRetries(RetriesSuite):
    pass


class TestMemoryWebhooks(WebhooksSuite):
    pass


class TestMemoryAnnouncements(AnnouncementsSuite):
    pass


class TestMemorySweeps(SweepsSuite):
    pass


class TestMemoryBlobs(BlobsSuite):
    pass


class TestMemoryDoorbell(DoorbellSuite):
    @pytest.mark.parametrize("steps", range(6))
    async def test_a_wait_cancelled_just_when_it_rings_takes_no_ring_with_it(
        self, doorbell: Doorbell, steps: int
    ) -> None:
        waiter, rings = await waiting(doorbell), new_rings(3)
        await doorbell.ring(rings)
        for _ in range(steps):
            await asyncio.sleep(0)
        waiter.cancel()
        (answer,) = await asyncio.gather(waiter, return_exceptions=True)
        taken = answer if isinstance(answer, list) else []
        assert sorted(taken + await drained(doorbell)) == sorted(rings)


class TestMemoryChanges(ChangesSuite):
    BESIDE_ONE_ANOTHER = False
