"""`Search`: pages are found by their words, best first, page by page without a gap, and never another tenant's."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from app.domain.documents import Document
from app.domain.errors import Invalid
from app.domain.ids import DocumentId, TenantId, uuid7
from app.domain.search import CLOSE, OPEN, SearchHit, SearchResults, parse_query
from tests.support.rig import Rig, new_page

MARKED = f"{OPEN}invoice{CLOSE}"


async def indexed(rig: Rig, tenant: TenantId, *texts: str, language: str = "eng", **fields: object) -> Document:
    """A document with these pages."""
    document = await rig.document(tenant, language=language, **fields)
    await put(rig, document, *texts, language=language)
    return document


async def put(rig: Rig, document: Document, *texts: str, language: str = "eng") -> None:
    pages = [replace(new_page(n, text=text), language=language) for n, text in enumerate(texts, 1)]
    async with rig.database.begin(document.tenant_id) as tx:
        await tx.pages.replace(document.id, pages)
        assert await tx.documents.set_read(document.id, page_count=len(pages))
        assert await tx.search.index(document.id)


async def look(rig: Rig, tenant: TenantId, query: str, *, limit: int = 100, **wanted: object) -> SearchResults:
    async with rig.database.begin(tenant) as tx:
        return await tx.search.find(parse_query(query), limit=limit, **wanted)  # type: ignore[arg-type]


async def hits(rig: Rig, tenant: TenantId, query: str) -> list[SearchHit]:
    found = await look(rig, tenant, query)
    assert found.more is None
    return found.hits


async def pages(rig: Rig, tenant: TenantId, query: str) -> set[int]:
    return {hit.page for hit in await hits(rig, tenant, query)}


class SearchSuite:
    async def test_a_page_is_found_by_a_word_with_the_words_around_it(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await indexed(rig, tenant, "Dear Sir", "Please pay the Invoice soon.", filename="b.pdf")
        (hit,) = await hits(rig, tenant, "invoice")
        assert (hit.document_id, hit.filename, hit.page) == (document.id, "b.pdf", 2)
        assert hit.snippet.rstrip(".") == f"Please pay the {OPEN}Invoice{CLOSE} soon"
        assert 0 < hit.rank <= 1000

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("invoice", {1, 2, 3}),
            ("INVOICE number", {2, 3}),
            ('"invoice number"', {2}),
            ('"number invoice"', {3}),
            ("invoice -number", {1}),
            ('number -"number invoice"', {2, 4}),
            ('"dear madam" or "invoice number"', {1, 2}),
            ("madam OR 4711 or nothing", {1, 4}),
            ("or madam or", {1}),
            ("invoice madam number", set()),
            ("unheard", set()),
            ("„invoice number“", {2}),
            ("ｉnvoice 4711 or madam", {1}),
        ],
    )
    async def test_words_phrases_or_and_minus(self, rig: Rig, query: str, found: set[int]) -> None:
        tenant = await rig.tenant()
        texts = ("Dear Madam, an invoice", "Invoice\nnumber seven", "The number: invoice it", "Number 4711")
        await indexed(rig, tenant, *texts)
        assert await pages(rig, tenant, query) == found

    @pytest.mark.threat(1, 39)
    async def test_another_tenants_pages_are_not_found(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        mine, theirs = await indexed(rig, acme, "an invoice"), await indexed(rig, bolt, "an invoice")
        assert [hit.document_id for hit in await hits(rig, acme, "invoice")] == [mine.id]
        assert [hit.document_id for hit in await hits(rig, bolt, "invoice")] == [theirs.id]
        assert (await look(rig, acme, "invoice", document_id=theirs.id)).hits == []

    async def test_the_page_that_has_the_word_more_often_comes_first_measured_by_its_length(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        padding = "and much besides it " * 100
        await indexed(rig, tenant, f"invoice {padding}", "invoice invoice invoice", "invoice and one word")
        assert [hit.page for hit in await hits(rig, tenant, "invoice")] == [2, 3, 1]

    async def test_of_equals_the_newest_document_comes_first_and_its_pages_in_order(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        old, new = [await indexed(rig, tenant, "invoice", "invoice") for _ in range(2)]
        found = [(hit.document_id, hit.page) for hit in await hits(rig, tenant, "invoice")]
        assert found == [(new.id, 1), (new.id, 2), (old.id, 1), (old.id, 2)]

    @pytest.mark.parametrize("query", ["invoice", '"dear invoice"', "invoice or letter", "dear invoice -madam"])
    async def test_pages_of_results_hold_every_hit_once(self, rig: Rig, query: str) -> None:
        tenant = await rig.tenant()
        for length in range(7):
            await indexed(rig, tenant, "dear invoice " * (1 + length % 3), "dear invoice" + " too" * length)
        whole = [(hit.document_id, hit.page) for hit in await hits(rig, tenant, query)]
        assert len(whole) == 14
        found = await look(rig, tenant, query, limit=3)
        followed = found.hits
        while found.more:
            found = await look(rig, tenant, query, limit=3, after=found.more)
            followed += found.hits
        assert [(hit.document_id, hit.page) for hit in followed] == whole

    async def test_one_document_can_be_searched_alone(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        first, _ = [await indexed(rig, tenant, "an invoice", "a letter, an invoice") for _ in range(2)]
        for query, many in {"invoice": 2, "letter invoice": 1, '"letter an"': 1, "unheard": 0}.items():
            found = await look(rig, tenant, query, document_id=first.id)
            assert [hit.document_id for hit in found.hits] == [first.id] * many
        assert (await look(rig, tenant, "invoice", document_id=DocumentId(uuid7()))).hits == []

    async def test_a_removed_document_is_found_no_more(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await indexed(rig, tenant, "an invoice")
        assert await rig.remove(document)
        assert await hits(rig, tenant, "invoice") == []

    async def test_a_document_that_was_read_again_is_found_by_its_new_words(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await indexed(rig, tenant, "an invoice", "a letter")
        await put(rig, document, "a receipt")
        assert await pages(rig, tenant, "receipt") == {1}
        assert await hits(rig, tenant, "invoice or letter") == []

    async def test_what_is_rolled_back_is_not_found(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await indexed(rig, tenant, "an invoice")

        async def fail() -> None:
            async with rig.database.begin(tenant) as tx:
                await tx.pages.replace(document.id, [new_page(text="a receipt")])
                assert await tx.search.index(document.id)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert await pages(rig, tenant, "invoice") == {1}

    async def test_a_ligature_is_found_by_its_letters(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await indexed(rig, tenant, "The \N{LATIN SMALL LIGATURE FI}le of Müller", "Mu\N{COMBINING DIAERESIS}ller")
        assert await pages(rig, tenant, "file") == {1}
        assert await pages(rig, tenant, "müller") == {1, 2}

    async def test_characters_that_no_store_holds_leave_their_neighbours_to_be_found(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await indexed(rig, tenant, "an\0 invoice \ud800number")
        assert await pages(rig, tenant, "invoice number") == {1}

    @pytest.mark.parametrize("mark", [OPEN, CLOSE, OPEN + CLOSE])
    async def test_marks_that_stand_in_a_text_mark_nothing_in_its_snippet(self, rig: Rig, mark: str) -> None:
        tenant = await rig.tenant()
        await indexed(rig, tenant, f"a {mark}bold{mark} invoice{mark}")
        (hit,) = await hits(rig, tenant, "invoice")
        assert MARKED in hit.snippet
        assert hit.snippet.count(OPEN) == hit.snippet.count(CLOSE) == 1

    async def test_text_in_angle_brackets_is_text(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        texts = ("if a<bold and c>d", "<script>an armadillo</script>", "Joan <joan@daira.test>")
        await indexed(rig, tenant, *texts)
        for page, query in enumerate(("bold", "armadillo", "<joan@daira.test>"), 1):
            (hit,) = await hits(rig, tenant, query)
            assert hit.page == page
            assert "<" in hit.snippet

    async def test_a_document_without_words_is_indexed_too(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await indexed(rig, tenant, "", " ")
        await indexed(rig, tenant)
        assert await unindexed(rig, tenant) == []
        assert await hits(rig, tenant, "invoice") == []

    async def test_documents_that_were_never_indexed_are_named_and_then_indexed_once(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        waiting = [await rig.document(tenant) for _ in range(3)]
        for document in waiting[:2]:
            async with rig.database.begin(tenant) as tx:
                await tx.pages.replace(document.id, [new_page(text="an invoice")])
                await tx.documents.set_read(document.id, page_count=1)
        first, second, unread = [document.id for document in waiting]
        assert await unindexed(rig, tenant) == [first, second]
        assert await unindexed(rig, tenant, limit=1) == [first]
        assert await unindexed(rig, tenant, after=first) == [second]
        async with rig.database.begin(tenant) as tx:
            assert await tx.search.index(first, only_new=True)
            assert not await tx.search.index(first, only_new=True)
        assert await unindexed(rig, tenant) == [second]
        assert [hit.document_id for hit in await hits(rig, tenant, "invoice")] == [first]
        assert unread not in await unindexed(rig, tenant)

    async def test_an_unknown_document_and_anothers_are_not_indexed(self, rig: Rig) -> None:
        acme, bolt = await rig.tenant("acme"), await rig.tenant("bolt")
        document = await indexed(rig, acme, "an invoice")
        async with rig.database.begin(bolt) as tx:
            assert not await tx.search.index(document.id)
            assert not await tx.search.index(DocumentId(uuid7()))
        assert await pages(rig, acme, "invoice") == {1}

    async def test_a_removed_tenant_takes_its_index_with_it(self, rig: Rig) -> None:
        acme = await rig.tenant()
        await indexed(rig, acme, "an invoice")
        await rig.suspend(acme)
        async with rig.database.begin(acme) as tx:
            assert await tx.tenant.remove()
        acme = await rig.tenant()
        assert await hits(rig, acme, "invoice") == []


async def unindexed(
    rig: Rig, tenant: TenantId, *, limit: int = 10, after: DocumentId | None = None
) -> Sequence[DocumentId]:
    async with rig.database.begin(tenant) as tx:
        return await tx.search.unindexed(limit=limit, after=after)


LARGEST = 250_000
"""Characters that a page can have."""

HOSTILE = {
    "characters": " ".join(map(chr, range(0x4E00, 0x9FFF))) * 6,
    "rare characters": " ".join(map(chr, range(0x20000, 0x2A6DF))) * 2,
    "addresses": " ".join(f"a{n}.bc/d{n}" for n in range(20_000)),
    "compounds": "-".join(f"a{n}" for n in range(40_000)),
    "compounds of characters": " ".join(
        f"{chr(0x20000 + n)}{chr(0x4E00 + n % 20_000)}-{chr(0x20001 + n)}" for n in range(42_000)
    ),
    "short compounds": " ".join(f"{n}a-{n}b-{n}c" for n in range(15_000)),
    "one word": "x" * LARGEST,
    "swelling": "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM} " * (LARGEST // 2),
    "marks": "<>&;'\"\\:*!|()" * (LARGEST // 14),
    "one letter": "a " * (LARGEST // 2),
}


class StemmedSearchSuite(SearchSuite):
    """Of a store that knows languages."""

    @pytest.mark.parametrize("language", ["eng", "jpn"])
    @pytest.mark.parametrize("name", HOSTILE)
    async def test_a_page_of_whatever_can_be_indexed_and_found(self, rig: Rig, name: str, language: str) -> None:
        """One that could not would keep its document from ever being done."""
        tenant = await rig.tenant()
        await indexed(rig, tenant, "zebra " + HOSTILE[name][:LARGEST], language=language)
        (hit,) = await hits(rig, tenant, "zebra")
        assert f"{OPEN}zebra{CLOSE}" in hit.snippet
        assert len(hit.snippet) < 10_000

    async def test_a_long_documents_first_pages_are_found(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        filling = "the " * 25_000
        texts = [f"page{number} {filling}" for number in range(1, 104)]
        await indexed(rig, tenant, *texts)
        assert await pages(rig, tenant, "page1 or page99") == {1, 99}
        assert await pages(rig, tenant, "page103") == set()

    async def test_those_that_index_one_document_at_once_come_one_after_the_other(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await indexed(rig, tenant, "an invoice", "a letter")

        async def again(*, only_new: bool) -> bool:
            async with rig.database.begin(tenant) as tx:
                await tx.pages.all(document.id)
                return await tx.search.index(document.id, only_new=only_new)

        async with asyncio.timeout(20):
            done = await asyncio.gather(*[again(only_new=number % 2 == 0) for number in range(6)])
        assert done.count(True) == 3
        assert await pages(rig, tenant, "invoice or letter") == {1, 2}

    @pytest.mark.parametrize(
        ("language", "text", "query"),
        [
            ("eng", "We are searching", "searched"),
            ("deu", "Die Rechnungen der Häuser", "rechnung haus"),
            ("fra", "les factures payées", "facture payer"),
            ("eng+deu", "Rechnungen", "rechnung"),
            ("eng+deu", "searching", "search"),
            ("pol", "Faktura", "FAKTURA"),
            ("jpn", "下記の請求書番号を確認", "請求書"),
            ("chi_sim", "发票号码", "号码 发票"),
        ],
    )
    async def test_words_are_found_in_their_other_forms(self, rig: Rig, language: str, text: str, query: str) -> None:
        tenant = await rig.tenant()
        await indexed(rig, tenant, "another page", text, language=language)
        (hit,) = await hits(rig, tenant, query)
        assert hit.page == 2
        assert OPEN in hit.snippet
        assert hit.snippet.replace(OPEN, "").replace(CLOSE, "") == text

    async def test_documents_in_several_languages_are_found_with_one_query(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        german = await indexed(rig, tenant, "Rechnungen und Kontakte", language="deu")
        english = await indexed(rig, tenant, "contacts: Kontakt AG", language="eng")
        polish = await indexed(rig, tenant, "kontakt", language="pol")
        found = {hit.document_id for hit in await hits(rig, tenant, "kontakt")}
        assert found == {german.id, english.id, polish.id}

    async def test_characters_that_stand_apart_are_no_word(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await indexed(rig, tenant, "書を請求", "請求書", language="jpn")
        assert await pages(rig, tenant, "請求書") == {2}
        assert await pages(rig, tenant, "請求 -請求書") == {1}

    @pytest.mark.parametrize("query", ["the", "the of", '"of the"', "the -invoice", "the or of"])
    async def test_words_that_are_everywhere_are_refused_with_what_to_do(self, rig: Rig, query: str) -> None:
        tenant = await rig.tenant()
        assert await hits(rig, tenant, query) == [], "nothing is there, so nothing is everywhere"
        await indexed(rig, tenant, "the invoice of the year")
        with pytest.raises(Invalid, match="add a more specific one"):
            await hits(rig, tenant, query)
        assert await pages(rig, tenant, "the invoice or of") == {1}

    async def test_a_word_that_is_everywhere_in_one_language_is_a_word_in_another(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        await indexed(rig, tenant, "the war", language="eng")
        german = await indexed(rig, tenant, "the es war", language="deu")
        assert {hit.document_id for hit in await hits(rig, tenant, "the")} == {german.id}
