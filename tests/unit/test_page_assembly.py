"""Words of two sources made one page, and paragraphs told by the gaps between lines."""

import pytest

from app.domain.pages import Source, Word, text_of
from app.reading.geometry import Box
from app.reading.pdf.page_assembly import merged_words, with_blocks, without_duplicates
from app.reading.pdf.text_layer import LayerWord


def word(text: str, box: Box, *, line: int = 0, block: int = 0, source: Source = Source.TEXT_LAYER) -> Word:
    return Word(text=text, box=box, confidence=1, source=source, line=line, block=block)


def found(text: str, box: Box, *, line: int = 0, block: int = 0) -> Word:
    return word(text, box, line=line, block=block, source=Source.OCR)


def lines(*boxes: Box) -> list[LayerWord]:
    return [LayerWord(f"w{line}", box, line, line, 1) for line, box in enumerate(boxes)]


@pytest.mark.parametrize(
    ("box", "is_kept"),
    [
        ((10, 10, 50, 20), False),
        ((12, 11, 52, 21), False),
        ((10, 10, 30, 20), False),
        ((0, 0, 500, 40), False),
        ((45, 10, 85, 20), True),
        ((10, 18, 50, 28), True),
        ((60, 10, 90, 20), True),
    ],
    ids=["same", "near", "part", "around", "beside and touching", "below and touching", "apart"],
)
def test_what_the_text_layer_says_is_not_said_again(box: Box, *, is_kept: bool) -> None:
    known = [word("known", (10, 10, 50, 20))]
    assert bool(without_duplicates([found("again", box)], beside=known)) is is_kept


def test_a_block_begins_after_a_wide_gap_and_in_another_column() -> None:
    steps = [(0, 0, 90, 10), (0, 14, 90, 24), (0, 28, 90, 38), (0, 56, 90, 66), (200, 0, 290, 10)]
    assert [w.block for w in with_blocks(lines(*steps))] == [0, 0, 0, 1, 2]


def test_double_spaced_lines_are_one_paragraph() -> None:
    assert {w.block for w in with_blocks(lines((0, 0, 90, 10), (0, 24, 90, 34), (0, 48, 90, 58)))} == {0}


def test_a_superscript_begins_no_block() -> None:
    assert {w.block for w in with_blocks(lines((0, 10, 90, 20), (80, 6, 95, 12), (0, 24, 90, 34)))} == {0}


def test_no_words_are_no_page() -> None:
    assert with_blocks([]) == []
    assert merged_words([], [], regions=[]) == ()


def test_blocks_found_stand_below_what_is_above_them_in_their_column() -> None:
    carried = [
        word("left", (0, 0, 90, 200), block=0),
        word("above", (200, 0, 290, 10), line=1, block=1),
        word("below", (200, 100, 290, 110), line=2, block=2),
    ]
    page = merged_words(carried, [found("between", (200, 50, 290, 60))], regions=[(200, 40, 290, 70)])
    assert text_of(page) == "left\n\nabove\n\nbetween\n\nbelow"
    assert [w.line for w in page] == [0, 1, 2, 3]


def test_what_is_found_at_the_top_comes_first() -> None:
    page = merged_words([word("below", (0, 100, 90, 110))], [found("top", (0, 0, 90, 10))], regions=[(0, 0, 90, 20)])
    assert text_of(page) == "top\n\nbelow"


def test_a_line_beside_a_region_is_not_drawn_into_it() -> None:
    carried = [word("column", (0, 50, 90, 60))]
    page = merged_words(carried, [found("picture", (100, 50, 190, 60))], regions=[(95, 0, 200, 100)])
    assert len({w.block for w in page}) == 2
