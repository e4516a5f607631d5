"""Pages that are partly text and partly picture: everything once, each word with its source, in reading order."""

from collections.abc import Sequence

import pytest

from app.domain.pages import Page, Source
from app.ports.reading import Mode
from tests.support.pdfs import Leaf, document, line, paragraph, picture, placed
from tests.support.reading import Reader
from tests.support.sample_documents import drawn

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEADER, FOOTER = "Ledger heading of the department", "Printed by the archive office"
UPPER, LOWER = "Morning harvest report", "Evening weather forecast"
SENTINELS = (HEADER, UPPER, LOWER, FOOTER)

BODY = placed("I", x=72, y=300, width=432, height=180)
HEAD_AND_FOOT = line(HEADER, y=740) + line(FOOTER, y=60)
STRIP = {"I": picture(drawn(UPPER, LOWER))}
"""A scanned body between a digital header and footer."""
FULL = {"I": picture(drawn("", *[UPPER] * 3, LOWER, size=(1275, 1650)))}
"""A scan as large as the page, with header and footer printed onto it."""


def sources(page: Page) -> dict[str, Source]:
    return {word.text: word.source for word in page.words}


def in_order(text: str, sentences: Sequence[str]) -> bool:
    places = [text.index(sentence) for sentence in sentences]
    return places == sorted(places)


async def test_header_body_and_footer_are_there_once_each_with_their_source(reader: Reader) -> None:
    page = (await reader.read(document(Leaf(content=BODY + HEAD_AND_FOOT, things=STRIP)))).page
    assert [page.text.count(sentence) for sentence in SENTINELS] == [1, 1, 1, 1]
    assert in_order(page.text, SENTINELS)
    assert {sources(page)[word] for word in (HEADER + " " + FOOTER).split()} == {"text_layer"}
    assert {sources(page)[word] for word in (UPPER + " " + LOWER).split()} == {"ocr"}
    assert (page.source, page.warnings) == (Source.OCR, ())


async def test_forced_all_four_are_read_by_ocr(reader: Reader) -> None:
    page = (await reader.read(document(Leaf(content=BODY + HEAD_AND_FOOT, things=STRIP)), mode=Mode.FORCE)).page
    assert [page.text.count(sentence) for sentence in SENTINELS] == [1, 1, 1, 1]
    assert {word.source for word in page.words} == {"ocr"}


async def test_skipped_only_the_two_that_the_file_carries_are_there(reader: Reader) -> None:
    page = (await reader.read(document(Leaf(content=BODY + HEAD_AND_FOOT, things=STRIP)), mode=Mode.SKIP)).page
    assert [page.text.count(sentence) for sentence in SENTINELS] == [1, 0, 0, 1]
    assert page.source is Source.TEXT_LAYER


async def test_text_printed_onto_a_full_scan_is_not_read_twice(reader: Reader) -> None:
    content = placed("I", x=0, y=0, width=612, height=792) + HEAD_AND_FOOT
    page = (await reader.read(document(Leaf(content=content, things=FULL)))).page
    assert [page.text.count(sentence) for sentence in SENTINELS] == [1, 3, 1, 1]
    assert in_order(page.text, SENTINELS)
    assert {sources(page)[word] for word in HEADER.split()} == {"text_layer"}


async def test_what_was_typed_into_a_scanned_form_stands_on_its_line(reader: Reader) -> None:
    form = {"I": picture(drawn("Surname", "Birthday", size=(1275, 1650)))}
    # The labels lie 60 and 148 pixels from the top of 1650, the page is 792 points high.
    typed = line("Gwendolyn", x=160, y=792 - 46) + line("Wednesday", x=160, y=792 - 88)
    page = (
        await reader.read(document(Leaf(content=placed("I", x=0, y=0, width=612, height=792) + typed, things=form)))
    ).page
    assert page.text.split() == ["Surname", "Gwendolyn", "Birthday", "Wednesday"]
    assert page.words[0].line == page.words[1].line
    assert sources(page)["Gwendolyn"] is Source.TEXT_LAYER


async def test_stripes_of_one_scan_are_read_as_one_picture(reader: Reader) -> None:
    scan = drawn(UPPER, LOWER)
    stripes = {f"I{row}": picture(scan.crop((0, row * 10, scan.width, row * 10 + 10))) for row in range(50)}
    strips = "".join(placed(f"I{row}", x=72, y=476.4 - row * 3.6, width=432, height=3.6) for row in range(50))
    page = (await reader.read(document(Leaf(content=strips + HEAD_AND_FOOT, things=stripes)))).page
    assert [page.text.count(sentence) for sentence in SENTINELS] == [1, 1, 1, 1]


async def test_an_icon_is_not_worth_a_look(reader: Reader) -> None:
    content = HEAD_AND_FOOT + placed("I", x=72, y=720, width=20, height=20)
    page = (await reader.read(document(Leaf(content=content, things=STRIP)))).page
    assert page.source is Source.TEXT_LAYER


async def test_paragraphs_begin_where_the_gap_is_wider_than_between_lines(reader: Reader) -> None:
    first = ["A paragraph has several lines", "that follow each other closely", "until it ends."]
    second = ["Another begins below", "and ends likewise."]
    page = (await reader.read(document(Leaf(content=paragraph(first, y=700) + paragraph(second, y=640))))).page
    assert page.text == "\n".join(first) + "\n\n" + "\n".join(second)
    assert [word.block for word in page.words] == [0] * 13 + [1] * 6


async def test_two_columns_are_read_as_the_file_gives_them(reader: Reader) -> None:
    left = [f"Left column line {number}" for number in range(8)]
    right = [f"Right column line {number}" for number in range(8)]
    page = (await reader.read(document(Leaf(content=paragraph(left, x=60) + paragraph(right, x=330))))).page
    assert page.text == "\n".join(left) + "\n\n" + "\n".join(right)


async def test_a_picture_in_the_second_column_is_read_after_what_stands_above_it(reader: Reader) -> None:
    left = [f"Left column line {number} of the report" for number in range(12)]
    above, below = ["Right column begins here"], ["Right column ends here"]
    content = paragraph(left, x=40) + paragraph(above, x=320) + paragraph(below, x=320, y=540)
    content += placed("I", x=320, y=560, width=250, height=104)
    page = (await reader.read(document(Leaf(content=content, things=STRIP)))).page
    assert in_order(page.text, [left[-1], above[0], UPPER, LOWER, below[0]])


@pytest.mark.parametrize("said", ["Morning harvest report", "Mornlng harvezt rep0rt"])
async def test_of_a_scanners_own_recognition_and_ours_only_one_is_there(reader: Reader, said: str) -> None:
    scan = {"I": picture(drawn(*[UPPER] * 4, size=(1275, 1650)))}
    # Lines of 44 pixels, 88 apart: 21 and 42 points.
    laid = "".join(line(said, x=38, y=792 - 46 - row * 42.2, size=19, before="3 Tr") for row in range(4))
    page = (
        await reader.read(document(Leaf(content=placed("I", x=0, y=0, width=612, height=792) + laid, things=scan)))
    ).page
    assert len(page.words) == 12
    assert len({word.source for word in page.words}) == 1


async def test_forced_a_bad_recognition_is_replaced(reader: Reader) -> None:
    scan = {"I": picture(drawn("ALPHA", size=(1275, 1650)))}
    content = placed("I", x=0, y=0, width=612, height=792) + line("ALPH4", x=38, y=746, size=19, before="3 Tr")
    for mode in (Mode.FORCE, Mode.AUTO):
        page = (await reader.read(document(Leaf(content=content, things=scan)), mode=mode)).page
        assert page.text in {"ALPHA", "ALPH4"}
        assert mode is Mode.AUTO or page.text == "ALPHA"
