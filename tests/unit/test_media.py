"""The type of a file is told from its bytes alone."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from app.domain.errors import Unsupported
from app.domain.filetypes import types
from app.domain.filetypes.sniff import LONGEST_DIRECTORY, Sniffer
from app.domain.filetypes.types import HEAD, NAMES, PDF, SUPPORTED
from tests.support.heic import heic
from tests.support.office import (
    compound_file,
    docx,
    html,
    mail,
    odt,
    open_document,
    package,
    pptx,
    rows,
    rtf,
    shape,
    xlsx,
    zipped,
)
from tests.support.sample_documents import SENTENCE


def told(content: bytes, *, step: int | None = None) -> str | None:
    """None for what is refused."""
    try:
        return sniffed(content, step=step)
    except Unsupported:
        return None


def sniffed(content: bytes, *, step: int | None = None) -> str:
    sniffer = Sniffer(content[:HEAD])
    for at in range(0, len(content), step or len(content) or 1):
        sniffer.feed(content[at : at + (step or len(content))])
    return sniffer.media_type()


def written(encoder: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (8, 8)).save(out, format=encoder)
    return out.getvalue()


def test_the_readme_lists_every_type_that_is_read() -> None:
    told = (Path(__file__).parents[2] / "README.md").read_text()
    assert [name for name in NAMES.values() if name not in told] == []


@pytest.mark.parametrize("encoder", ["PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP", "AVIF", "PDF"])
def test_every_image_and_pdf_is_told_as_encoders_write_it(encoder: str) -> None:
    assert NAMES[sniffed(written(encoder))].upper() == encoder


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (docx(), types.DOCX),
        (xlsx(rows((1,))), types.XLSX),
        (pptx(shape("a")), types.PPTX),
        (odt(), types.ODT),
        (open_document("", kind="spreadsheet"), types.ODS),
        (open_document("", kind="presentation"), types.ODP),
        (heic(), types.HEIC),
        (heic(major=b"mif1"), types.HEIC),
        (html(), types.HTML),
        (b"\xef\xbb\xbf<?xml version='1.0'?><!-- x --><HTML>", types.HTML),
        (html().decode().encode("utf-16"), types.HTML),
        (mail(), types.EML),
        (b"Received: from a\r\n by b\r\nFrom: c\r\n\r\n", types.EML),
        (b"Return-Path: <a@b>\nX-A: " + b"x" * 2000, types.EML),
        (rtf(), types.RTF),
        (compound_file("EncryptionInfo", "EncryptedPackage"), types.ENCRYPTED),
    ],
)
@pytest.mark.parametrize("step", [None, 1000, 7])
def test_every_type_is_told_in_whatever_pieces_it_comes(content: bytes, media_type: str, step: int | None) -> None:
    assert told(content, step=step) == media_type


@pytest.mark.parametrize(
    "content",
    [
        b"hello",
        b"a,b\r\n1,2\r\n",
        b"# Title\n\n- one\n",
        SENTENCE.encode("utf-16"),
        SENTENCE.encode("utf-16-le"),
        "Привет, мир".encode("utf-16-be"),
        SENTENCE.encode("utf-32"),
        "Größe".encode("latin-1"),
        "\N{GRINNING FACE}".encode() * 400,
        b"x" * (HEAD - 1) + "é".encode(),
        b"the end of a DOS text\r\n\x1a",
        b"Dear Sir: this is no mail\nSubject: nor this\n",
        b"BMW builds cars",
        b"\xff\xfea\0\xd8\xd8b\0\0\0" + SENTENCE.encode("utf-16-le"),
    ],
)
def test_text_is_text_in_whatever_character_set(content: bytes) -> None:
    assert told(content) == types.TEXT


@pytest.mark.threat(55)
@pytest.mark.parametrize(
    "content",
    [
        b"\x00\x01\x02\x03",
        b"MZ\x90\0",
        b"\x7fELF\x02\x01\x01\0",
        b"<svg xmlns=",
        b"<?xml version='1.0'?><!-- a --><svg ",
        b"%!PS-Adobe-3.0",
        b"RIFF\x10\0\0\0WAVE",
        b"text\0and zeros",
        b" \x89PNG\r\n\x1a\n",
        b"\0\0\0\x18ftypisom\0\0\0\0isommp41",
        bytes(range(256)) * 4,
        b"\xff\xfe" + bytes(range(256)) * 4,
        b"PK\x03\x04",
        zipped({"letter.txt": "x"}),
        zipped({"word/document.xml": "x"}),
        zipped({"mimetype": "application/epub+zip", "META-INF/container.xml": ""}, stored=("mimetype",)),
        docx()[:-30],
        compound_file("Something"),
    ],
)
def test_anything_else_is_refused_with_what_can_be_sent(content: bytes) -> None:
    with pytest.raises(Unsupported) as refused:
        sniffed(content)
    assert SUPPORTED in str(refused.value) or "save it again" in str(refused.value)


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (compound_file("WordDocument"), "DOCX"),
        (compound_file("Workbook"), "XLSX"),
        (compound_file("Book"), "XLSX"),
        (compound_file("PowerPoint Document"), "PPTX"),
        (compound_file("__properties_version1.0"), "EML"),
        (zipped(package("xl/workbook.bin", {"xl/workbook.bin": b""})), "XLSX"),
    ],
)
def test_formats_of_old_are_refused_with_what_to_save_them_as(content: bytes, advice: str) -> None:
    with pytest.raises(Unsupported, match=f"save it as .*{advice}"):
        sniffed(content)


def test_the_parts_of_a_document_may_come_in_any_order_and_far_from_its_beginning() -> None:
    parts = package("word/document2.xml", {"word/document2.xml": "<x/>"})
    turned = {"word/media/image1.png": bytes(100_000), **dict(reversed(list(parts.items())))}
    content = zipped(turned, stored=("word/media/image1.png",))
    assert content.index(b"word/document2.xml") > HEAD
    assert told(content, step=5000) == types.DOCX


def test_a_workbook_within_a_letter_does_not_make_the_letter_a_workbook() -> None:
    parts: dict[str, str | bytes] = {"word/embeddings/book.xlsx": xlsx(rows((1,))), "word/document.xml": "<x/>"}
    assert told(zipped(package("word/document.xml", parts), stored=tuple(parts))) == types.DOCX


def test_of_a_zip_no_more_is_kept_than_its_directory_may_measure() -> None:
    sniffer = Sniffer(b"PK\x03\x04")
    for _ in range(100):
        sniffer.feed(bytes(100_000))
        assert len(sniffer._container._kept) <= 2 * LONGEST_DIRECTORY + 100_000  # type: ignore[union-attr]
    with pytest.raises(Unsupported):
        sniffer.media_type()


def test_a_name_in_the_text_of_an_old_document_is_no_entry_of_its_directory() -> None:
    content = compound_file("WordDocument") + b"xx" + "EncryptedPackage\0".encode("utf-16-le")
    assert told(content) is None


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n%PDF-1.7", types.PNG),
        (b"GIF89a%PDF-1.7", types.GIF),
        (zipped({"a.pdf": b"%PDF-1.7"}, stored=("a.pdf",)), None),
        (b"%PDF-1.7\n" + docx(), PDF),
        (b"{\\rtf1 %PDF-1.7", types.RTF),
        (b"<html>%PDF-1.7", PDF),
        (b"From: a\nTo: b\nSubject: c\n\n<html>", types.EML),
        (b"<html>\nFrom: a\nTo: b\nSubject: c\n", types.HTML),
    ],
)
def test_a_file_that_could_be_two_things_is_always_the_same_one(content: bytes, media_type: str | None) -> None:
    assert told(content) == media_type


@pytest.mark.parametrize("head", [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"])
def test_tiff_is_told_in_both_byte_orders_and_both_sizes(head: bytes) -> None:
    assert told(head + b"....") == types.TIFF


def test_a_pdf_may_have_junk_before_its_header_but_not_beyond_the_head() -> None:
    assert told(b"x" * (HEAD - 5) + b"%PDF-1.7") == PDF
    assert told(b"x" * (HEAD - 4) + b"%PDF-1.7") == types.TEXT
    assert told(b"\0" * HEAD * 10 + b"%PDF-1.7") is None


@given(content=st.binary(max_size=64))
def test_any_bytes_get_an_answer(content: bytes) -> None:
    assert told(content) in {None, *NAMES}


@given(content=st.binary(max_size=200), start=st.sampled_from([b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"]))
def test_any_container_gets_an_answer(content: bytes, start: bytes) -> None:
    assert told(start + content) is None


@given(at=st.integers(min_value=0, max_value=2000), byte=st.integers(min_value=0, max_value=255))
def test_a_damaged_archive_gets_an_answer(at: int, byte: int) -> None:
    content = bytearray(docx())
    content[at % len(content)] = byte
    assert told(bytes(content)) in {None, *NAMES}
