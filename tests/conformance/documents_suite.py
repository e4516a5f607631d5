"""`Documents` and `Pages`: deduplication, listings that page without gaps, and removal with all that belongs to it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from app.domain.documents import Document, DocumentCursor, DocumentStatus
from app.domain.errors import NotFound
from app.domain.ids import DocumentId, TenantId, uuid7
from tests.support.rig import Rig, done, new_document, new_page

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


async def listed(rig: Rig, tenant: TenantId, **filters: Any) -> list[DocumentId]:
    async with rig.database.begin(tenant) as tx:
        return [document.id for document in await tx.documents.newest(**{"limit": 100} | filters)]


def ids(documents: Sequence[Document]) -> list[DocumentId]:
    return [document.id for document in documents]


class DocumentsSuite:
    async def test_a_document_comes_back_as_it_was_added(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = new_document(
            tenant, filename="Lettre à M. Müller.pdf", metadata={"client": {"id": 7, "tags": ["a", "ü"], "vip": None}}
        )
        async with rig.database.begin(tenant) as tx:
            assert await tx.documents.add(document) == document
        async with rig.database.begin(tenant) as tx:
            assert await tx.documents.get(document.id) == document
            assert await tx.documents.with_bytes(document.sha256) == document
            assert await tx.documents.newest(limit=10) == [document]

    async def test_an_unknown_document_is_none(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        async with rig.database.begin(tenant) as tx:
            assert await tx.documents.get(DocumentId(uuid7())) is None
            assert await tx.documents.with_bytes("0" * 64) is None
            assert not await tx.documents.set_read(DocumentId(uuid7()), page_count=1)
            assert not await tx.documents.remove(DocumentId(uuid7()))

    async def test_of_many_ids_those_of_documents_of_the_tenant_are_known(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        mine = [(await rig.document(acme)).id for _ in range(3)]
        theirs = (await rig.document(bolt)).id
        unknown = [DocumentId(uuid7()) for _ in range(600)]
        async with rig.database.begin(acme) as tx:
            assert await tx.documents.known([*mine[:2], theirs, *unknown]) == set(mine[:2])
            assert await tx.documents.known([]) == set()

    async def test_the_same_bytes_are_one_document_within_a_tenant(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        async with rig.database.begin(tenant) as tx:
            assert await tx.documents.add(new_document(tenant, sha256=document.sha256)) is None
        assert await listed(rig, tenant) == [document.id]

    async def test_the_same_bytes_are_two_documents_under_two_tenants(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        first = await rig.document(acme)
        second = await rig.document(bolt, sha256=first.sha256)
        assert await listed(rig, acme) == [first.id]
        assert await listed(rig, bolt) == [second.id]

    async def test_what_a_caller_does_to_metadata_changes_nothing_stored(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        metadata: dict[str, Any] = {"tags": ["a"]}
        document = await rig.document(tenant, metadata=metadata)
        metadata["tags"].append("b")
        async with rig.database.begin(tenant) as tx:
            found = await tx.documents.get(document.id)
            assert found is not None
            assert found.metadata == {"tags": ["a"]}

    async def test_text_that_no_store_can_hold_is_scrubbed(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant, filename="a\0b\ud800c.pdf", metadata={"x\0": ["y\0", "z\udfff"]})
        assert document.filename == "abc.pdf"
        assert document.metadata == {"x": ["y", "z"]}
        async with rig.database.begin(tenant) as tx:
            await tx.pages.replace(document.id, [new_page(text="A\0B\ud83d")])
        async with rig.database.begin(tenant) as tx:
            assert await tx.documents.get(document.id) == document
            assert await tx.pages.get(document.id, 1) == new_page(text="AB")

    async def test_documents_are_listed_newest_first(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        documents = [await rig.document(tenant, created_at=NOON + HOUR * hours) for hours in (2, 0, 1)]
        first, second, third = ids(documents)
        assert await listed(rig, tenant) == [first, third, second]
        assert await listed(rig, tenant, limit=2) == [first, third]

    @pytest.mark.parametrize("size", [1, 2, 3, 7])
    async def test_pages_of_a_listing_have_neither_gaps_nor_duplicates(self, rig: Rig, size: int) -> None:
        tenant = await rig.tenant()
        # Three share each time, so that pages end in the middle of equal ones.
        added = [await rig.document(tenant, created_at=NOON + HOUR * (n // 3)) for n in range(7)]
        seen: list[Document] = []
        before = None
        while True:
            async with rig.database.begin(tenant) as tx:
                page = await tx.documents.newest(limit=size, before=before)
            if not page:
                break
            seen += page
            before = DocumentCursor(created_at=page[-1].created_at, id=page[-1].id)
        assert sorted(ids(seen)) == sorted(ids(added))
        assert all((a.created_at, a.id) > (b.created_at, b.id) for a, b in pairwise(seen))

    async def test_a_document_added_meanwhile_does_not_disturb_the_pages(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        old, new = [await rig.document(tenant, created_at=NOON + HOUR * hours) for hours in range(2)]
        assert await listed(rig, tenant, limit=1) == [new.id]
        await rig.document(tenant, created_at=NOON + HOUR * 2)
        assert await listed(rig, tenant, before=DocumentCursor(created_at=new.created_at, id=new.id)) == [old.id]

    async def test_a_listing_is_filtered_by_a_part_of_the_filename(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        invoice = await rig.document(tenant, filename="Invoice-2026.PDF")
        percent = await rig.document(tenant, filename=r"100%_sure\here.txt")
        assert await listed(rig, tenant, filename="invoice") == [invoice.id]
        assert await listed(rig, tenant, filename="2026.pdf") == [invoice.id]
        for literal in ("%", "_", "\\", "0%_S"):
            assert await listed(rig, tenant, filename=literal) == [percent.id]
        assert await listed(rig, tenant, filename="in%ce") == []

    async def test_a_listing_is_filtered_by_the_bytes(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document, other = [await rig.document(tenant) for _ in range(2)]
        assert await listed(rig, tenant, sha256=document.sha256) == [document.id]
        assert await listed(rig, tenant, sha256="0" * 64) == []
        assert await listed(rig, await rig.tenant("other"), sha256=other.sha256) == []

    async def test_a_listing_is_filtered_by_time(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        early, noon, late = [await rig.document(tenant, created_at=NOON + HOUR * hours) for hours in (-1, 0, 1)]
        minute = timedelta(minutes=1)
        assert await listed(rig, tenant, created_after=NOON - minute) == [late.id, noon.id]
        assert await listed(rig, tenant, created_before=NOON + minute) == [noon.id, early.id]
        assert await listed(rig, tenant, created_after=NOON - minute, created_before=NOON + minute) == [noon.id]

    async def test_a_listing_is_filtered_by_the_status_that_the_jobs_give(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        processing, running, failed, ready, bare = [await rig.document(tenant) for _ in range(5)]
        await rig.enqueue(tenant, document_id=processing.id)
        await rig.lease(await rig.enqueue(tenant, document_id=running.id))
        await rig.cancel(await rig.enqueue(tenant, document_id=failed.id))
        # Ready stays ready while more is done with it.
        await rig.enqueue(tenant, document_id=ready.id, kind="extract")
        async with rig.database.begin(tenant) as tx:
            assert await tx.documents.set_read(ready.id, page_count=3)
        found = {status: set(await listed(rig, tenant, status=status)) for status in DocumentStatus}
        assert found == {
            DocumentStatus.PROCESSING: {processing.id, running.id},
            DocumentStatus.READY: {ready.id},
            DocumentStatus.FAILED: {failed.id, bare.id},
        }

    async def test_the_page_count_is_stored(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        async with rig.database.begin(tenant) as tx:
            assert await tx.documents.set_read(document.id, page_count=12)
        async with rig.database.begin(tenant) as tx:
            found = await tx.documents.get(document.id)
        assert found is not None
        assert found.page_count == 12

    async def test_pages_come_back_in_order_and_their_words_one_page_at_a_time(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        async with rig.database.begin(tenant) as tx:
            await tx.pages.replace(document.id, [new_page(2), new_page(1), new_page(10)])
        async with rig.database.begin(tenant) as tx:
            pages = await tx.pages.all(document.id)
            assert await tx.pages.get(document.id, 2) == new_page(2)
            assert await tx.pages.get(document.id, 3) is None
        assert [page.number for page in pages] == [1, 2, 10]
        assert [page.words for page in pages] == [(), (), ()]

    async def test_pages_are_replaced_as_a_whole(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document, other = await rig.document(tenant), await rig.document(tenant)
        async with rig.database.begin(tenant) as tx:
            await tx.pages.replace(other.id, [new_page()])
            await tx.pages.replace(document.id, [new_page(1), new_page(2)])
        async with rig.database.begin(tenant) as tx:
            await tx.pages.replace(document.id, [new_page(1, text="Dear Madam")])
        assert [page.text for page in await rig.pages(document)] == ["Dear Madam"]
        assert len(await rig.pages(other)) == 1

    async def test_pages_of_an_unknown_document_are_not_written(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        with pytest.raises(NotFound):
            async with rig.database.begin(tenant) as tx:
                await tx.pages.replace(DocumentId(uuid7()), [new_page()])

    async def test_removing_a_document_removes_its_pages_and_jobs(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document, other = await rig.document(tenant), await rig.document(tenant)
        ended = await rig.enqueue(tenant, document_id=document.id)
        await rig.settle(done(await rig.lease(ended)))
        running = await rig.enqueue(tenant, document_id=document.id)
        lease = await rig.lease(running)
        kept = await rig.enqueue(tenant, document_id=other.id)
        async with rig.database.begin(tenant) as tx:
            await tx.pages.replace(document.id, [new_page()])
        assert await rig.remove(document)
        assert not await rig.remove(document)
        assert not (await rig.beat(lease)).held
        assert not await rig.settle(done(lease))
        async with rig.database.begin(tenant) as tx:
            assert await tx.documents.get(document.id) is None
            assert await tx.pages.all(document.id) == []
            assert [job.id for job in await tx.jobs.newest()] == [kept.id]
            assert await tx.jobs.attempts(ended.id) == []

    async def test_removed_bytes_can_be_added_again(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        await rig.remove(document)
        again = await rig.document(tenant, sha256=document.sha256)
        assert await listed(rig, tenant) == [again.id]
