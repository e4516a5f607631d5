"""Search over HTTP: what is asked, what is refused with what to do, and snippets that can be put into a page."""

from typing import Any

import pytest

from app.domain.ids import DocumentId, uuid7
from app.domain.pages import Page
from app.domain.search import CLOSE, LONGEST, MOST_ALTERNATIVES, MOST_WORDS, OPEN, SearchTerm, parse_query, snippet_html
from app.domain.text_search import ALL, CHARACTERS, MOST, SIMPLE, stemmings
from app.web import pagination
from tests.support.rig import new_document, new_page
from tests.unit.served import ACME, PROBLEM, Served
from tests.unit.test_pagination import packed

ID = "0199c0de-0000-7000-8000-000000000001"


async def read(web: Served, *pages: Page, **fields: Any) -> DocumentId:
    """A document of acme's with these pages."""
    async with web.runtime.search.database.begin(ACME) as tx:
        document = await tx.documents.add(new_document(ACME, **fields))
        assert document is not None
        await tx.pages.replace(document.id, pages)
        await tx.documents.set_read(document.id, page_count=len(pages))
        await tx.search.index(document.id)
    return document.id


async def searched(web: Served, **query: Any) -> dict[str, Any]:
    answer = await web.client.get("/v1/search", params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_a_hit_tells_document_page_snippet_and_rank(web: Served) -> None:
    document_id = await read(web, new_page(1), new_page(2, text="An invoice\nof May"), filename="a.pdf")
    body = await searched(web, q="invoice")
    (hit,) = body["data"]
    rank = hit.pop("rank")
    assert 0 < rank <= 1
    assert hit == {
        "document_id": str(document_id),
        "filename": "a.pdf",
        "page": 2,
        "snippet": "An <mark>invoice</mark> of May",
    }
    assert body["next_cursor"] is None


async def test_the_transaction_that_makes_the_text_makes_it_findable(web: Served) -> None:
    document = await web.uploaded()
    await web.read(document)
    assert (await web.client.get(f"/v1/documents/{document['id']}")).json()["status"] == "ready"
    async with web.runtime.search.database.begin(ACME) as tx:
        assert await tx.search.unindexed(limit=10) == []


async def test_pages_of_hits_hold_each_once(web: Served) -> None:
    for _ in range(3):
        await read(web, *[new_page(number, text="an invoice") for number in range(1, 4)])
    found: list[tuple[str, int]] = []
    query: dict[str, Any] = {"q": "invoice", "limit": 2}
    while True:
        body = await searched(web, **query)
        found += [(hit["document_id"], hit["page"]) for hit in body["data"]]
        if body["next_cursor"] is None:
            break
        query["cursor"] = body["next_cursor"]
    assert len(found) == len(set(found)) == 9


async def test_nothing_of_another_tenant_is_found(web: Served) -> None:
    document_id = await read(web, new_page(text="an invoice"))
    other = await web.key_of("globex")
    for query in ({"q": "invoice"}, {"q": "invoice", "document_id": str(document_id)}):
        answer = await web.client.get("/v1/search", params=query, headers=other)
        assert answer.json() == {"data": [], "next_cursor": None}


@pytest.mark.parametrize(
    ("query", "advice"),
    [
        ("", "add at least one"),
        ("  ", "add at least one"),
        ('""', "add at least one"),
        ("or", "add at least one"),
        ("- or & | !", "add at least one"),
        ("-invoice", "add one to search for"),
        ('-"dear madam" -invoice', "add one to search for"),
        ("invoice or -letter", "add one to search for"),
        ("a\0b", "remove them"),
        (" or ".join("abcdefghi"), "use fewer"),
        (" ".join("abcdefghijklm" * 3), "use fewer"),
        ('"' + " ".join("abcdefghijklm" * 3) + '"', "use fewer"),
    ],
)
async def test_a_query_with_nothing_to_look_for_is_refused_with_what_to_do(
    web: Served, query: str, advice: str
) -> None:
    answer = await web.client.get("/v1/search", params={"q": query})
    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == PROBLEM
    (fault,) = answer.json()["errors"]
    assert fault["pointer"] == "/q"
    assert advice in fault["detail"]


async def test_a_query_that_is_missing_or_too_long_is_refused(web: Served) -> None:
    for params in ({}, {"q": "x" * (LONGEST + 1)}):
        answer = await web.client.get("/v1/search", params=params)
        assert answer.status_code == 422
        assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/q"]
    assert (await searched(web, q="x" * LONGEST))["data"] == []


@pytest.mark.parametrize("raw", ["%00", "%ED%A0%80", "%FF", "%F0%9F", "%C0%80", "%27%29%20%7C%20%28", "%5C", "%3A%2A"])
async def test_whatever_bytes_a_query_has_it_is_answered_or_refused(web: Served, raw: str) -> None:
    await read(web, new_page(text="an invoice"))
    for q in (raw, f"invoice{raw}", f"%22{raw}%22", f"-{raw}%20invoice"):
        assert (await web.client.get(f"/v1/search?q={q}")).status_code in {200, 422}


@pytest.mark.threat(41)
@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "nonsense",
        packed([]),
        packed(["1", ID]),
        packed([1, ID, 1]),
        packed(["1", "no id", "1"]),
        packed(["-1", ID, "1"]),
        packed(["1", ID, "1" * 10]),
        packed(["1", ID, "1\n"]),
        packed(["٣", ID, "1"]),
    ],
)
async def test_a_cursor_that_is_not_ours_is_refused(web: Served, cursor: str) -> None:
    answer = await web.client.get("/v1/search", params={"q": "invoice", "cursor": cursor})
    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/cursor"]


@pytest.mark.parametrize("document_id", ["x", "1", ""])
async def test_a_document_that_is_no_id_is_refused(web: Served, document_id: str) -> None:
    answer = await web.client.get("/v1/search", params={"q": "invoice", "document_id": document_id})
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/document_id"]


async def test_an_unknown_document_has_no_hits(web: Served) -> None:
    assert (await searched(web, q="invoice", document_id=str(uuid7())))["data"] == []


async def test_a_snippet_is_html_whatever_stands_in_the_text(web: Served) -> None:
    await read(web, new_page(text=f"<script>alert('invoice')</script> {OPEN}<b>{CLOSE} & \"</mark>"))
    ((hit,), _) = (await searched(web, q="invoice")).values()
    assert hit["snippet"].count("<mark>invoice</mark>") == 1
    assert hit["snippet"].replace("<mark>", "", 1).replace("</mark>", "", 1).count("<") == 0
    assert "&lt;script&gt;" in hit["snippet"]


def test_what_was_found_is_marked_and_all_else_escaped() -> None:
    assert snippet_html(f"1 < 2 &\n {OPEN}<i>{CLOSE}'s") == "1 &lt; 2 &amp; <mark>&lt;i&gt;</mark>&#x27;s"


@pytest.mark.parametrize(
    ("text", "alternatives"),
    [
        ("two words", [[SearchTerm("two"), SearchTerm("words")]]),
        ('"a phrase" -no', [[SearchTerm("a phrase", phrase=True), SearchTerm("no", excluded=True)]]),
        (
            'a OR -b c or "or"',
            [[SearchTerm("a")], [SearchTerm("b", excluded=True), SearchTerm("c")], [SearchTerm("or", phrase=True)]],
        ),
        ('say"open end', [[SearchTerm("say"), SearchTerm("open end", phrase=True)]]),
        ("oracle order", [[SearchTerm("oracle"), SearchTerm("order")]]),
        (
            "well-known --x a- (c)",
            [[SearchTerm("well-known"), SearchTerm("x", excluded=True), SearchTerm("a"), SearchTerm("(c)")]],
        ),
        ("«deux mots» „zwei Worte“", [[SearchTerm("deux mots", phrase=True), SearchTerm("zwei Worte", phrase=True)]]),
        ("ﬁle So\N{SOFT HYPHEN}fa", [[SearchTerm("file"), SearchTerm("Sofa")]]),
    ],
)
def test_a_query_is_taken_apart(text: str, alternatives: list[list[SearchTerm]]) -> None:
    assert [list(alternative.terms) for alternative in parse_query(text).alternatives] == alternatives


def test_as_many_words_and_alternatives_as_allowed_are_taken() -> None:
    assert len(parse_query(" ".join("w" * MOST_WORDS)).alternatives[0].terms) == MOST_WORDS
    assert len(parse_query(" or ".join("w" * MOST_ALTERNATIVES)).alternatives) == MOST_ALTERNATIVES


def test_terms_are_written_as_postgres_reads_them() -> None:
    (alternative,) = parse_query('Müller -"请求 now" 請求書').alternatives
    assert alternative.written("english") == 'Müller -"请求 now" 請求書'
    assert alternative.written(CHARACTERS) == 'Müller -"请 求 now" "請 求 書"'


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("eng", ("english",)),
        ("deu+eng", ("german", "english")),
        ("deu_latf", ("german",)),
        ("chi_sim+eng", (CHARACTERS, "english")),
        ("jpn_vert", (CHARACTERS,)),
        ("pol", (SIMPLE,)),
        ("pol+ces", (SIMPLE,)),
        ("", (SIMPLE,)),
        ("script/Latin", (SIMPLE,)),
    ],
)
def test_a_language_has_its_stemming_and_several_have_several(language: str, expected: tuple[str, ...]) -> None:
    assert stemmings(language) == expected


def test_a_page_has_few_stemmings_and_all_are_asked() -> None:
    assert len(stemmings("eng+deu+fra+ita+spa")) == MOST
    assert set(stemmings("rus+tur+jpn") + stemmings("pol")) <= set(ALL)


def test_a_cursor_comes_back_as_it_was() -> None:
    place = pagination.search_place(packed(["7", ID, "3"]))
    assert place is not None
    assert pagination.search_place(pagination.pack_search_place(place)) == place
