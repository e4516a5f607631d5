"""Damaged, locked and empty PDFs: what can be saved is read and said to be repaired, the rest ends in its code."""

import io

import pikepdf
import pytest

from app.domain.errors import DocumentFault
from app.domain.warnings import WarningCode
from tests.support.pdfs import Leaf, document, filed, line
from tests.support.reading import Read, Reader
from tests.support.sample_documents import encrypted_pdf

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.threat(53)]

SENTENCE = "Hello from a damaged file"
WHOLE = document(Leaf(content=line(SENTENCE)))


def codes(read: Read) -> list[WarningCode]:
    return [warning.code for warning in read.warnings]


def encrypted(*, user: str, owner: str = "owner", **allowed: bool) -> bytes:
    out = io.BytesIO()
    permissions = pikepdf.Permissions(**allowed)
    with pikepdf.open(io.BytesIO(WHOLE)) as file:
        file.save(out, encryption=pikepdf.Encryption(user=user, owner=owner, allow=permissions))
    return out.getvalue()


def without_pages(pages: bytes) -> bytes:
    return filed({1: b"<</Type/Catalog/Pages 2 0 R>>", 2: pages})


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 5_000 + WHOLE,
        b"From: somebody\r\n" * 300 + WHOLE,
        WHOLE[: WHOLE.index(b"xref")],
        WHOLE[: WHOLE.index(b"endstream")],
        WHOLE[: WHOLE.index(b"endstream") + 9],
        WHOLE[:-120],
        WHOLE.replace(b"endobj", b"", 2)[:-40],
    ],
    ids=[
        "zeros before it",
        "mail before it",
        "no table",
        "within a stream",
        "within an object",
        "cut short",
        "marks and end lost",
    ],
)
async def test_what_can_be_saved_is_read(reader: Reader, content: bytes) -> None:
    read = await reader.read(content)
    assert read.text == SENTENCE
    assert codes(read) in ([], [WarningCode.DOCUMENT_REPAIRED])


async def test_a_repair_is_said(reader: Reader) -> None:
    assert codes(await reader.read(WHOLE[: WHOLE.index(b"xref")])) == [WarningCode.DOCUMENT_REPAIRED]
    assert codes(await reader.read(WHOLE)) == []


@pytest.mark.parametrize(
    ("code", "content"),
    [
        ("empty", b""),
        ("empty", without_pages(b"<</Type/Pages/Kids[]/Count 0>>")),
        ("empty", filed({1: b"<</Type/Catalog>>"})),
        ("empty", without_pages(b"null")),
        ("corrupt", b"%PDF-1.4\n%%EOF"),
        ("corrupt", WHOLE[:40]),
        ("corrupt", b"%PDF-1.7\n" + b"\xff" * 50_000),
        ("corrupt", b"no such header"),
        ("encrypted", encrypted(user="secret")),
        ("encrypted", encrypted(user="secret")[:-30]),
        ("encrypted", b"\0" * 2_000 + encrypted(user="secret")),
        ("encrypted", encrypted_pdf()),
    ],
    ids=[
        "no bytes",
        "no page",
        "no page tree",
        "page tree is null",
        "header alone",
        "cut in the first object",
        "noise",
        "no PDF",
        "locked",
        "locked and cut short",
        "locked behind zeros",
        "locked by nobody",
    ],
)
async def test_the_rest_ends_in_its_code(reader: Reader, code: str, content: bytes) -> None:
    with pytest.raises(DocumentFault) as ended:
        await reader.read(content)
    assert ended.value.code == code


async def test_a_locked_file_does_not_colour_the_next_one(reader: Reader) -> None:
    with pytest.raises(DocumentFault):
        await reader.read(encrypted(user="secret"))
    with pytest.raises(DocumentFault) as ended:
        await reader.read(without_pages(b"<</Type/Pages/Kids[]/Count 0>>"))
    assert ended.value.code == "empty"


async def test_an_owners_restrictions_are_said_and_hinder_nobody(reader: Reader) -> None:
    read = await reader.read(encrypted(user="", extract=False))
    assert read.text == SENTENCE
    assert codes(read) == [WarningCode.RESTRICTED_PERMISSIONS]


async def test_an_owner_who_allows_everything_restricts_nothing(reader: Reader) -> None:
    assert codes(await reader.read(encrypted(user="", modify_assembly=True))) == []


async def test_a_page_without_a_dictionary_is_unreadable_alone(reader: Reader) -> None:
    content = document(Leaf(content=line(SENTENCE)), Leaf(content=line(SENTENCE)), Leaf(content=line(SENTENCE)))
    read = await reader.read(content.replace(b"20 0 obj\n<<", b"20 0 obj\n (", 1))
    assert [page.text for page in read.pages if page.text] == [SENTENCE, SENTENCE]
    assert all(unreadable.fault.code == "corrupt" for unreadable in read.unreadable)
