"""Formats that have text, through the child that reads everything: what is done, and how bad files end."""

import io
import time
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from app.domain.errors import DocumentFault
from app.domain.filetypes import types
from app.domain.filetypes.types import IMAGES, NAMES, PDF
from app.ports.reading import Mode
from app.reading.recognizer import ProcessRecognizer
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
from tests.support.reading import Written, pages_of, type_of
from tests.support.sample_documents import SENTENCE

SAMPLES = {
    types.DOCX: docx(),
    types.XLSX: xlsx(rows(tuple(SENTENCE.split()))),
    types.PPTX: pptx(shape(SENTENCE)),
    types.ODT: odt(),
    types.ODS: open_document(
        f"<table:table><table:table-row><table:table-cell><text:p>{SENTENCE}</text:p></table:table-cell>"
        "</table:table-row></table:table>",
        kind="spreadsheet",
    ),
    types.ODP: open_document(f"<draw:page><text:p>{SENTENCE}</text:p></draw:page>", kind="presentation"),
    types.RTF: rtf(),
    types.HTML: html(),
    types.EML: mail(),
    types.TEXT: SENTENCE.encode(),
}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def recognizer() -> AsyncIterator[ProcessRecognizer]:
    recognizer = ProcessRecognizer(children=1, max_pages=50)
    await recognizer.start()
    yield recognizer
    await recognizer.close()


async def test_every_type_that_has_text_has_a_sample() -> None:
    assert set(SAMPLES) == set(NAMES) - IMAGES - {PDF}


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("media_type", SAMPLES)
async def test_every_type_is_read_whatever_the_mode(
    recognizer: ProcessRecognizer, written: Written, media_type: str, mode: Mode
) -> None:
    path = written(SAMPLES[media_type])
    [page] = await pages_of(recognizer, path, media_type=type_of(SAMPLES[media_type]), mode=mode)
    assert SENTENCE.split() == page.text.split()[-9:]


async def test_a_child_that_has_seen_none_has_loaded_no_reader_of_them() -> None:
    recognizer = ProcessRecognizer(children=1)
    await recognizer.start()
    try:
        [child] = recognizer._pool._living
        loaded = mapped(child.pid)
        assert "tesserocr" in loaded
        assert not [name for name in ("lxml", "pi_heif", "charset_normalizer") if name in loaded]
    finally:
        await recognizer.close()


async def test_a_file_that_was_read_whole_is_not_opened_again_by_others(written: Written) -> None:
    recognizer = ProcessRecognizer(children=2)
    await recognizer.start()
    try:
        assert len(await pages_of(recognizer, written(b"a\fb" * 100), media_type=types.TEXT)) == 101
        assert sorted(child.files for child in recognizer._pool._living) == [0, 1]
    finally:
        await recognizer.close()


async def test_a_document_with_a_password_says_so(recognizer: ProcessRecognizer, written: Written) -> None:
    content = compound_file("EncryptionInfo", "EncryptedPackage")
    with pytest.raises(DocumentFault, match="remove its password") as fault:
        await pages_of(recognizer, written(content), media_type=type_of(content))
    assert fault.value.code == "encrypted"


def huge(size: int, filling: bytes, *, shown: int | None = None) -> bytes:
    """A DOCX whose text unpacks to `size` bytes, and may claim another number."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in package("word/document.xml", {}).items():
            archive.writestr(name, content)
        with archive.open("word/document.xml", "w", force_zip64=False) as stream:
            stream.write(b"<document>")
            for _ in range(size // len(filling)):
                stream.write(filling)
    told = bytearray(out.getvalue())
    if shown is not None:
        at = told.rindex(b"PK\1\2") + 24
        told[at : at + 4] = shown.to_bytes(4, "little")
    return bytes(told)


def with_document(text: str | bytes) -> bytes:
    return zipped(package("word/document.xml", {"word/document.xml": text}))


def nested_mail(depth: int) -> bytes:
    return mail(
        b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(depth))
    )


def mapped(pid: int) -> str:
    """Names of the files whose code it has loaded, among others."""
    return Path(f"/proc/{pid}/maps").read_text()


def resident(pid: int) -> int:
    """Bytes of memory in use."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


LAUGHS = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>'
OUTSIDE = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'
MEGABYTE = bytes(1024 * 1024)
PARAGRAPHS = b"<p><r><t>a few words</t></r></p>" * 30_000


@pytest.mark.threat(51, 54)
@pytest.mark.parametrize(
    ("codes", "make"),
    [
        pytest.param({"too_large"}, lambda: huge(1024 * len(MEGABYTE), MEGABYTE), id="a gigabyte of zeros"),
        pytest.param({"too_large"}, lambda: huge(64 * len(MEGABYTE), b" " * len(MEGABYTE)), id="blanks"),
        pytest.param({"too_many_pages"}, lambda: huge(400 * len(MEGABYTE), PARAGRAPHS), id="endless paragraphs"),
        pytest.param({"corrupt"}, lambda: huge(64 * len(MEGABYTE), MEGABYTE, shown=99), id="a size that lies"),
        pytest.param(
            {"too_large"}, lambda: huge(64 * len(MEGABYTE), MEGABYTE, shown=2**32 - 2), id="a size beyond all"
        ),
        pytest.param(
            {"too_large"},
            lambda: zipped(
                {**package("word/document.xml", {"word/document.xml": "<a/>"}), **{f"{n}": "" for n in range(10_001)}}
            ),
            id="ten thousand parts",
        ),
        pytest.param({"corrupt"}, lambda: with_document("<!DOCTYPE document><document/>"), id="a DTD"),
        pytest.param({"corrupt"}, lambda: with_document(LAUGHS), id="entities that grow"),
        pytest.param({"corrupt"}, lambda: with_document(LAUGHS.encode("utf-16")), id="entities in UTF-16"),
        pytest.param({"corrupt"}, lambda: with_document(OUTSIDE), id="entities from outside"),
        pytest.param({"corrupt"}, lambda: with_document("<a>" * 100_000), id="elements without end"),
        pytest.param(
            {"too_large", "corrupt"}, lambda: with_document(f"<a><p><t>{'x' * 11_000_000}"), id="one long word"
        ),
        pytest.param(
            {"too_many_pages"}, lambda: docx('<w:p><w:r><w:t>x</w:t><w:br w:type="page"/></w:r></w:p>' * 51), id="pages"
        ),
        pytest.param(
            {"too_many_pages"},
            lambda: xlsx("<sheetData>" + '<row><c r="XFD1"><v>1</v></c></row>' * 20_000 + "</sheetData>"),
            id="rows as wide as a sheet can be",
        ),
        pytest.param({"too_many_pages"}, lambda: pptx(*[shape("x")] * 51), id="slides"),
        pytest.param({None}, lambda: html("<div>" * 100_000 + "x"), id="HTML a hundred thousand deep"),
        pytest.param({None}, lambda: html("<p " + " ".join(f"a{n}=1" for n in range(100_000)) + ">x"), id="attributes"),
        pytest.param({"too_many_pages"}, lambda: html("<table><tr>" + "<td>x" * 500_000), id="one row of HTML"),
        pytest.param({"too_many_pages"}, lambda: b"x" * 100_000_000, id="one line of 100 MB"),
        pytest.param({"too_many_pages"}, lambda: b"\n" * 99_000_000 + b"x", id="a hundred million lines"),
        pytest.param(
            {"too_large"},
            lambda: mail(b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\n\r\nx\r\n" * 10_000),
            id="ten thousand parts of a mail",
        ),
        pytest.param({"corrupt"}, lambda: nested_mail(5000), id="a mail nested without end"),
        pytest.param({None}, lambda: mail(fields="Cc: " + "=?utf-8?q?a?= ,(" * 100_000 + "\r\n"), id="a long header"),
        pytest.param({"corrupt"}, lambda: b"{\\rtf1 " + b"{" * 1_000_000, id="groups of RTF"),
        pytest.param({None}, lambda: rtf("{\\pict " + "0a" * 5_000_000 + "}x"), id="a picture in RTF"),
    ],
)
async def test_a_bomb_ends_soon_within_memory_and_costs_no_child(
    recognizer: ProcessRecognizer, written: Written, codes: set[str | None], make: Callable[[], bytes]
) -> None:
    content = make()
    path, media_type = written(content), type_of(content)
    [child] = recognizer._pool._living
    ended, began = None, time.monotonic()
    try:
        await pages_of(recognizer, path, media_type=media_type)
    except DocumentFault as fault:
        ended = fault.code
    assert ended in codes
    assert time.monotonic() - began < 30
    assert [each.pid for each in recognizer._pool._living] == [child.pid]
    assert resident(child.pid) < 500_000_000
