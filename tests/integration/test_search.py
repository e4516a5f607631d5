"""What is uploaded is found by its words: whatever it is read from, by its own tenant alone, until it is deleted."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.api_keys import new_key
from tests.support.folders import open_folder
from tests.support.pdfs import Leaf, document, line, picture, placed
from tests.support.sample_documents import drawn
from tests.support.service import Service, ended, up, upload

HEADER, FOOTER = "Ledger heading of the department", "Printed by the archive office"
UPPER, LOWER = "Morning harvest report", "Evening weather forecast"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[Service]:
    with up(folder / "data") as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client


def read(client: httpx.Client, content: bytes, **fields: str) -> Mapping[str, Any]:
    made = upload(client, content, **fields)
    assert ended(client, made["jobs"][0], seconds=60)["state"] == "done"
    return made


def search(client: httpx.Client, q: str, **query: str) -> list[dict[str, Any]]:
    answer = client.get("/v1/search", params={"q": q, **query})
    assert answer.status_code == 200, answer.text
    hits: list[dict[str, Any]] = answer.json()["data"]
    return hits


@contextmanager
def another(service: Service, name: str) -> Iterator[httpx.Client]:
    """A client of another tenant."""
    headers = {"Authorization": f"Bearer {new_key(service.database_url, name)}"}
    with httpx.Client(base_url=service.url, headers=headers, trust_env=False, timeout=60) as client:
        yield client


def test_what_the_file_says_and_what_was_read_by_ocr_are_found_once_each(client: httpx.Client) -> None:
    body = placed("I", x=72, y=300, width=432, height=180) + line(HEADER, y=740) + line(FOOTER, y=60)
    made = read(client, document(Leaf(content=body, things={"I": picture(drawn(UPPER, LOWER))})))
    for sentence in (HEADER, UPPER, LOWER, FOOTER):
        (hit,) = search(client, f'"{sentence}"', document_id=made["id"])
        assert (hit["document_id"], hit["page"]) == (made["id"], 1)
        assert "<mark>" in hit["snippet"]
    assert search(client, f'"{FOOTER} {HEADER}"') == []


def test_the_words_beside_what_no_store_holds_are_found(client: httpx.Client) -> None:
    text = "\ufeffzephyr\0 quokka ".encode("utf-16-le") + b"\x00\xd8" + " narwhal".encode("utf-16-le")
    made = read(client, text * 3, name="beasts.txt")
    for word in ("zephyr", "quokka", "narwhal"):
        assert {hit["document_id"] for hit in search(client, word)} == {made["id"]}


def test_a_ligature_of_the_file_is_found_by_its_letters(client: httpx.Client) -> None:
    made = read(
        client, "The \N{LATIN SMALL LIGATURE FI}nancial a\N{LATIN SMALL LIGATURE FFI}davit".encode(), name="l.txt"
    )
    for word in ("financial", "affidavit", "\N{LATIN SMALL LIGATURE FI}nancial"):
        assert {hit["document_id"] for hit in search(client, word)} == {made["id"]}


def test_forms_of_a_word_are_found_by_the_rules_of_the_documents_language(client: httpx.Client) -> None:
    made = read(client, b"Invoices were paid by several companies", name="e.txt")
    (hit,) = search(client, "invoice company")
    assert hit["document_id"] == made["id"]
    assert "<mark>Invoices</mark>" in hit["snippet"]
    assert client.get("/v1/search", params={"q": "were by"}).status_code == 422


def test_a_snippet_can_be_put_into_a_page_as_it_is(client: httpx.Client) -> None:
    read(client, b"<p>&lt;script&gt;alert('armadillo')&lt;/script&gt;</p>", name="s.html")
    (hit,) = search(client, "armadillo")
    assert hit["snippet"].count("<mark>armadillo</mark>") == 1
    assert hit["snippet"].count("<") == 2
    assert "script&gt;alert" in hit["snippet"]


@pytest.mark.threat(1, 39)
def test_another_tenant_finds_nothing_of_it_and_a_deleted_document_is_found_no_more(
    service: Service, client: httpx.Client
) -> None:
    made = read(client, b"A pangolin crossed the road", name="p.txt")
    with another(service, "globex") as other:
        theirs = read(other, b"The pangolin of globex", name="g.txt")
        assert [hit["document_id"] for hit in search(other, "pangolin")] == [theirs["id"]]
        assert search(other, "pangolin", document_id=made["id"]) == search(other, "road") == []
        assert [hit["document_id"] for hit in search(client, "pangolin")] == [made["id"]]
        assert client.delete(f"/v1/documents/{made['id']}").status_code == 204
        assert search(client, "pangolin") == []
        assert [hit["document_id"] for hit in search(other, "pangolin")] == [theirs["id"]]
        used = other.get("/v1/usage").json()["total"]
    assert (used["documents"], used["pages"], used["bytes"]) == (1, 1, len(b"The pangolin of globex"))


def test_a_document_that_is_read_again_is_found_once(client: httpx.Client) -> None:
    made = read(client, document(Leaf(content=line("A wombat digs"))))
    again = client.post(f"/v1/documents/{made['id']}/jobs", json={"kind": "ocr", "mode": "force"}).json()
    assert ended(client, again, seconds=60)["state"] == "done"
    assert [hit["document_id"] for hit in search(client, "wombat")] == [made["id"]]
