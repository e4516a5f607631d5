"""Drafts: pages that an unfinished job has read, for the attempt that goes on with it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from app.domain.documents import Document
from app.domain.errors import NotFound
from app.domain.ids import DocumentId, uuid7
from app.domain.leases import Lease, Settlement
from app.domain.pages import Page
from app.domain.search import parse_query
from app.domain.warnings import WarningCode, document_warning
from tests.support.rig import Rig, done, fail, new_page, release


async def draft(rig: Rig, lease: Lease, *pages: Page) -> bool:
    async with rig.database.begin(lease.tenant_id) as tx:
        return await tx.pages.draft(lease, pages)


async def drafted(rig: Rig, lease: Lease) -> frozenset[int]:
    async with rig.database.begin(lease.tenant_id) as tx:
        return await tx.pages.drafted(lease.job_id)


async def started(rig: Rig) -> tuple[Document, Lease]:
    tenant = await rig.tenant()
    document = await rig.document(tenant)
    return document, await rig.lease(await rig.enqueue(tenant, document_id=document.id))


class DraftsSuite:
    async def test_drafts_are_no_pages_before_the_job_says_so(self, rig: Rig) -> None:
        document, lease = await started(rig)
        assert await draft(rig, lease, new_page(3), new_page(1))
        assert await drafted(rig, lease) == {1, 3}
        assert await rig.pages(document) == []

    async def test_drafts_of_unreadable_pages_are_counted(self, rig: Rig) -> None:
        _, lease = await started(rig)
        blank = replace(new_page(2), warnings=(WarningCode.HIDDEN_TEXT, WarningCode.PAGE_UNREADABLE))
        assert await draft(rig, lease, new_page(1), blank, replace(new_page(3), warnings=(WarningCode.HIDDEN_TEXT,)))
        async with rig.database.begin(lease.tenant_id) as tx:
            assert await tx.pages.unreadable(lease.job_id) == 1

    async def test_they_become_pages_together_with_those_in_hand(self, rig: Rig) -> None:
        document, lease = await started(rig)
        first, second = (replace(new_page(n), warnings=(WarningCode.HIDDEN_TEXT,)) for n in (1, 2))
        assert await draft(rig, lease, second)
        async with rig.database.begin(lease.tenant_id) as tx:
            await tx.pages.replace(document.id, [first, new_page(3)], drafts_of=lease.job_id)
        async with rig.database.begin(lease.tenant_id) as tx:
            assert await tx.pages.some(document.id, after=0, limit=9) == [first, second, new_page(3)]
            assert await tx.pages.warnings(document.id) == {1: first.warnings, 2: second.warnings}
        assert await drafted(rig, lease) == frozenset()

    async def test_a_second_draft_of_a_page_changes_nothing(self, rig: Rig) -> None:
        document, lease = await started(rig)
        assert await draft(rig, lease, new_page(1, text="first"))
        assert await draft(rig, lease, new_page(1, text="second"), new_page(2))
        async with rig.database.begin(lease.tenant_id) as tx:
            await tx.pages.replace(document.id, [], drafts_of=lease.job_id)
        assert [page.text for page in await rig.pages(document)] == ["first", "Dear Sir"]

    async def test_the_next_attempt_finds_what_the_last_one_left(self, rig: Rig) -> None:
        document, lease = await started(rig)
        assert await draft(rig, lease, new_page(1))
        assert await rig.settle(release(lease))
        async with rig.database.begin(lease.tenant_id) as tx:
            job = await tx.jobs.get(lease.job_id)
        assert job is not None
        again = await rig.lease(job)
        assert await drafted(rig, again) == {1}
        assert not await draft(rig, lease, new_page(2)), "the attempt is over"
        assert await draft(rig, again, new_page(2))
        assert await drafted(rig, again) == {1, 2}
        assert await rig.pages(document) == []

    @pytest.mark.threat(79)
    @pytest.mark.parametrize("ending", [done, fail, release])
    async def test_who_has_lost_the_lease_drafts_nothing(self, rig: Rig, ending: Callable[[Lease], Settlement]) -> None:
        _, lease = await started(rig)
        assert await rig.settle(ending(lease))
        assert not await draft(rig, lease, new_page(1))
        assert await drafted(rig, lease) == frozenset()

    async def test_drafts_go_with_their_document(self, rig: Rig) -> None:
        document, lease = await started(rig)
        assert await draft(rig, lease, new_page(1))
        assert await rig.remove(document)
        assert not await draft(rig, lease, new_page(2))
        assert await drafted(rig, lease) == frozenset()

    async def test_a_transaction_that_fails_leaves_drafts_as_they_were(self, rig: Rig) -> None:
        document, lease = await started(rig)
        assert await draft(rig, lease, new_page(1))

        async def fails() -> None:
            async with rig.database.begin(lease.tenant_id) as tx:
                await tx.pages.draft(lease, [new_page(2)])
                await tx.pages.replace(document.id, [], drafts_of=lease.job_id)
                raise RuntimeError

        with pytest.raises(RuntimeError):
            await fails()
        assert await drafted(rig, lease) == {1}
        assert await rig.pages(document) == []

    async def test_pages_that_were_not_asked_for_stay(self, rig: Rig) -> None:
        document, lease = await started(rig)
        async with rig.database.begin(lease.tenant_id) as tx:
            await tx.pages.replace(document.id, [new_page(n, text="old") for n in range(1, 5)])
        assert await draft(rig, lease, new_page(2, text="new"))
        async with rig.database.begin(lease.tenant_id) as tx:
            await tx.pages.replace(document.id, [new_page(3, text="newer")], drafts_of=lease.job_id, keep_others=True)
        assert [page.text for page in await rig.pages(document)] == ["old", "new", "newer", "old"]

    async def test_a_page_that_was_read_again_counts_instead_of_its_draft(self, rig: Rig) -> None:
        document, lease = await started(rig)
        assert await draft(rig, lease, new_page(1, text="draft"), new_page(2, text="draft"))
        for keep_others in (False, True):
            async with rig.database.begin(lease.tenant_id) as tx:
                again = [new_page(2, text="again")]
                await tx.pages.replace(document.id, again, drafts_of=lease.job_id, keep_others=keep_others)
            assert [page.text for page in await rig.pages(document)] == ["draft", "again"]

    async def test_two_jobs_replace_pages_one_after_the_other(self, rig: Rig) -> None:
        """Whatever the order, no page is missing, none is there twice, and the index of words has the same pages."""
        document, lease = await started(rig)

        async def replace_pages(text: str, *numbers: int, keep_others: bool) -> None:
            async with rig.database.begin(lease.tenant_id) as tx:
                new = [new_page(number, text=text) for number in numbers]
                await tx.pages.replace(document.id, new, keep_others=keep_others)
                await tx.documents.set_read(document.id, page_count=3)
                await tx.search.index(document.id)

        for _ in range(8):
            await asyncio.gather(
                replace_pages("whole", 1, 2, 3, keep_others=False),
                replace_pages("first", 1, keep_others=True),
                replace_pages("last", 3, keep_others=True),
                replace_pages("anew", 1, 2, 3, keep_others=False),
            )
            pages = await rig.pages(document)
            assert [page.number for page in pages] == [1, 2, 3]
            async with rig.database.begin(lease.tenant_id) as tx:
                for text in ("whole", "first", "last", "anew"):
                    found = await tx.search.find(parse_query(text), limit=9)
                    assert {hit.page for hit in found.hits} == {page.number for page in pages if page.text == text}

    async def test_drafts_do_not_become_pages_of_an_unknown_document(self, rig: Rig) -> None:
        _, lease = await started(rig)
        assert await draft(rig, lease, new_page(1))
        with pytest.raises(NotFound):
            async with rig.database.begin(lease.tenant_id) as tx:
                await tx.pages.replace(DocumentId(uuid7()), [], drafts_of=lease.job_id)
        assert await drafted(rig, lease) == {1}

    async def test_a_page_without_size_or_words_comes_back_as_it_was(self, rig: Rig) -> None:
        document, lease = await started(rig)
        bare = replace(new_page(), width=None, height=None, confidence=None, words=())
        assert await draft(rig, lease, bare)
        async with rig.database.begin(lease.tenant_id) as tx:
            await tx.pages.replace(document.id, [], drafts_of=lease.job_id)
            assert await tx.pages.get(document.id, 1) == bare

    async def test_some_pages_begin_after_a_number(self, rig: Rig) -> None:
        document, lease = await started(rig)
        async with rig.database.begin(lease.tenant_id) as tx:
            await tx.pages.replace(document.id, [new_page(n) for n in (1, 2, 4, 7)])
            assert [page.number for page in await tx.pages.some(document.id, after=1, limit=2)] == [2, 4]
            assert [page.number for page in await tx.pages.some(document.id, after=4, limit=2)] == [7]
            assert await tx.pages.some(document.id, after=7, limit=2) == []

    async def test_warnings_are_stored_with_the_document(self, rig: Rig) -> None:
        document, lease = await started(rig)
        warning = document_warning(WarningCode.HAS_ATTACHMENTS, names=["a\0b.pdf", "c.txt"])
        async with rig.database.begin(lease.tenant_id) as tx:
            assert await tx.documents.set_read(document.id, page_count=3, warnings=[warning])
        async with rig.database.begin(lease.tenant_id) as tx:
            found = await tx.documents.get(document.id)
        assert found is not None
        assert found.warnings == (replace(warning, detail=warning.detail.replace("\0", "")),)
        assert found.warnings[0].detail.endswith("(ab.pdf, c.txt)")
