"""Text layers that say other than the page shows are noticed, and the page is read by OCR instead."""

import pytest
from PIL import ImageDraw

from app.domain.pages import Source
from app.domain.warnings import WarningCode
from app.ports.reading import Mode
from tests.support.pdfs import (
    HELVETICA,
    Leaf,
    cipher,
    ciphered,
    document,
    in_cipher,
    line,
    paragraph,
    picture,
    placed,
    unmapped,
)
from tests.support.reading import Reader
from tests.support.sample_documents import drawn

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEADING = "Annual Report"
BODY = [
    "The committee met on Tuesday and agreed the budget",
    "for the coming year without any further changes",
    "and thanked the treasurer for the careful work.",
]
UNTRUSTED = (WarningCode.TEXT_LAYER_UNTRUSTED,)


async def test_a_cipher_font_is_seen_through(reader: Reader) -> None:
    content = document(Leaf(content=paragraph(BODY), fonts={"F": ciphered()}), objects={900: cipher()})
    page = (await reader.read(content)).page
    assert page.text.split() == " ".join(BODY).split()
    assert (page.source, page.warnings) == (Source.OCR, UNTRUSTED)
    skipped = (await reader.read(content, mode=Mode.SKIP)).page
    assert skipped.text.split() == in_cipher(" ".join(BODY)).split()


async def test_a_clean_page_has_no_such_warning(reader: Reader) -> None:
    page = (await reader.read(document(Leaf(content=line(HEADING, y=740, size=24) + paragraph(BODY))))).page
    assert (page.source, page.warnings) == (Source.TEXT_LAYER, ())
    assert page.text.split() == [*HEADING.split(), *" ".join(BODY).split()]


async def test_a_heading_in_a_broken_font_is_enough(reader: Reader) -> None:
    fonts = {"F": HELVETICA, "H": ciphered()}
    content = line(HEADING, y=740, size=24, font="H") + paragraph(BODY)
    page = (await reader.read(document(Leaf(content=content, fonts=fonts), objects={900: cipher()}))).page
    assert page.text.split() == [*HEADING.split(), *" ".join(BODY).split()]
    assert page.warnings == UNTRUSTED
    assert {word.source for word in page.words} == {"ocr"}


async def test_a_font_without_a_mapping_is_read_by_ocr(reader: Reader) -> None:
    font, shown, glyphs = unmapped("Quick foxes jump over every brown barrier")
    content = document(Leaf(content=f"BT /F 14 Tf 72 700 Td {shown} ET", fonts={"F": font}), objects=glyphs)
    page = (await reader.read(content)).page
    assert page.text.split()[:3] == ["Quick", "foxes", "jump"]
    assert page.warnings == UNTRUSTED


async def test_fonts_of_one_name_are_told_apart_from_page_to_page(reader: Reader) -> None:
    clean = Leaf(content=paragraph(BODY))
    broken = Leaf(content=paragraph(BODY), fonts={"F": ciphered()})
    read = await reader.read(document(clean, broken, clean, broken, objects={900: cipher()}))
    assert [page.source for page in read.pages] == ["text_layer", "ocr", "text_layer", "ocr"]
    assert [page.warnings for page in read.pages] == [(), UNTRUSTED, (), UNTRUSTED]
    assert all(page.text.split() == " ".join(BODY).split() for page in read.pages)


async def test_an_honest_recognition_of_a_scan_is_kept(reader: Reader) -> None:
    scan = {"I": picture(drawn(*BODY, size=(1275, 1650)))}
    laid = "".join(line(text, x=38, y=746 - row * 42.2, size=19.5, before="3 Tr") for row, text in enumerate(BODY))
    content = placed("I", x=0, y=0, width=612, height=792) + laid
    page = (await reader.read(document(Leaf(content=content, things=scan)))).page
    assert (page.source, page.warnings) == (Source.TEXT_LAYER, ())
    assert page.text.split() == " ".join(BODY).split()


async def test_a_scan_that_was_read_is_not_read_again_for_its_picture(reader: Reader) -> None:
    scan = drawn(*BODY, size=(1275, 1650))
    ImageDraw.Draw(scan).ellipse((300, 700, 1000, 1400), fill=60)
    laid = "".join(line(text, x=38, y=746 - row * 42.2, size=19.5, before="3 Tr") for row, text in enumerate(BODY))
    content = placed("I", x=0, y=0, width=612, height=792) + laid
    page = (await reader.read(document(Leaf(content=content, things={"I": picture(scan)})))).page
    assert (page.source, page.text.split()) == (Source.TEXT_LAYER, " ".join(BODY).split())


async def test_a_recognition_that_says_something_else_is_replaced(reader: Reader) -> None:
    scan = {"I": picture(drawn(*BODY, size=(1275, 1650)))}
    laid = "".join(
        line(in_cipher(text), x=38, y=746 - row * 42.2, size=19.5, before="3 Tr") for row, text in enumerate(BODY)
    )
    content = placed("I", x=0, y=0, width=612, height=792) + laid
    page = (await reader.read(document(Leaf(content=content, things=scan)))).page
    assert page.text.split() == " ".join(BODY).split()
    assert page.warnings == UNTRUSTED


@pytest.mark.parametrize("size", [6, 9, 40])
async def test_small_and_large_print_is_believed(reader: Reader, size: int) -> None:
    page = (
        await reader.read(document(Leaf(content=paragraph(["Minutes of meeting", "by the secretary"], size=size))))
    ).page
    assert (page.source, page.warnings) == (Source.TEXT_LAYER, ())


@pytest.mark.parametrize("base", ["Times-Italic", "Courier-Bold", "Times-Roman", "Helvetica-BoldOblique"])
async def test_common_fonts_are_believed(reader: Reader, base: str) -> None:
    fonts = {"F": HELVETICA.replace("Helvetica", base)}
    page = (await reader.read(document(Leaf(content=paragraph(BODY), fonts=fonts)))).page
    assert (page.source, page.warnings) == (Source.TEXT_LAYER, ())


@pytest.mark.parametrize("base", ["Symbol", "ZapfDingbats"])
async def test_symbols_are_no_lies(reader: Reader, base: str) -> None:
    fonts = {"F": HELVETICA, "S": HELVETICA.replace("Helvetica", base)}
    content = paragraph(BODY) + line("abcdefgh ijklmnop qrstuvwx", font="S", y=600)
    page = (await reader.read(document(Leaf(content=content, fonts=fonts)))).page
    assert page.source is Source.TEXT_LAYER
