"""In which order lines are read: tables by rows, columns one after the other, whatever an engine took them for."""

from dataclasses import replace

import numpy as np
import pytest

from app.reading.engine import RecognizedWord
from app.reading.engines.word_split import LetterBox, LineStrip, split_words
from app.reading.geometry import rotated_by_quarters, rotated_size
from app.reading.layout.lines import Region, WordLine, lines_of, with_even_heights
from app.reading.layout.reading_order import in_columns, in_reading_order
from app.reading.layout.table_rows import tables_by_rows

HEIGHT = 20


def line(text: str, x: float, y: float) -> list[RecognizedWord]:
    """Letters are 10 wide."""
    words = []
    for word in text.split():
        words.append(
            RecognizedWord(text=word, box=(x, y, x + 10 * len(word), y + HEIGHT), confidence=1.0, line=0, block=0)
        )
        x += 10 * (len(word) + 1)
    return words


def column(*texts: str, x: float, y: float = 0, pitch: float = 30) -> Region:
    return [[line(text, x, y + pitch * row) for row, text in enumerate(texts)]]


def read(regions: list[Region]) -> list[str]:
    return [" ".join(word.text for word in each) for region in regions for each in lines_of(region)]


ITEMS = column("Brass fitting", "Copper pipe", "Hose clamp", x=0)
PROSE = (
    "one two three four five",
    "six seven eight nine ten",
    "eleven twelve thirteen",
    "and so on it goes",
    "until it ends",
)


def test_columns_of_cells_are_read_by_rows() -> None:
    prices = column("50.40", "75.00", "21.25", x=300)
    assert read(tables_by_rows([ITEMS, prices])) == ["Brass fitting 50.40", "Copper pipe 75.00", "Hose clamp 21.25"]


def test_what_stands_above_a_column_of_a_table_is_read_before_its_rows() -> None:
    goods, prices = column("Brass fitting", "Copper pipe", "Hose clamp", x=0, y=90), column("1", "2", "3", x=300, y=90)
    above, below = [[line("above the prices stands a line", 300, 0)]], [[line("and one below", 300, 200)]]
    assert read(tables_by_rows([goods, above, below, prices])) == [
        "above the prices stands a line", "Brass fitting 1", "Copper pipe 2", "Hose clamp 3", "and one below",
    ]  # fmt: skip


def test_a_cell_that_is_missing_leaves_the_others_in_their_rows() -> None:
    prices = [[line("50.40", 300, 0), line("21.25", 300, 61), line("9.99", 300, 90)]]
    assert read(tables_by_rows([[[*ITEMS[0], line("Delivery", 0, 90)]], prices])) == [
        "Brass fitting 50.40", "Copper pipe", "Hose clamp 21.25", "Delivery 9.99",
    ]  # fmt: skip


def test_columns_of_prose_stay_columns() -> None:
    left, right = column(*PROSE, x=0), column(*PROSE, x=300)
    assert tables_by_rows([left, right]) == [left, right]


def test_cells_at_other_heights_are_no_table() -> None:
    notes = column("see", "also", "page", x=300, y=15)
    assert tables_by_rows([ITEMS, notes]) == [ITEMS, notes]


def test_columns_are_read_one_after_the_other_below_what_spans_them() -> None:
    head = line("A headline that spans both of the columns below it indeed", 0, 0)
    left, right = lines_of(column(*PROSE, x=0, y=40)), lines_of(column(*PROSE[::-1], x=300, y=40))
    foot = line("A foot that spans both of the columns above it indeed yes", 0, 220)
    shuffled = [foot, *right[::-1], head, *left[::2], *left[1::2]]
    assert read(in_columns(shuffled)) == [
        *read([[[head]]]), *PROSE, *PROSE[::-1], *read([[[foot]]]),
    ]  # fmt: skip


def test_columns_end_where_a_line_spans_them() -> None:
    pieces: list[WordLine] = [
        line("left above", 0, 0), line("right above", 300, 0),
        line("a line that goes from the left column to the right", 0, 30),
        line("left below", 0, 60), line("right below", 300, 60),
    ]  # fmt: skip
    assert [text.split()[:2] for text in read(in_columns(pieces[::-1]))] == [
        ["left", "above"], ["right", "above"], ["a", "line"], ["left", "below"], ["right", "below"],
    ]  # fmt: skip


def test_pieces_of_one_line_are_joined_and_neighbouring_columns_are_not() -> None:
    assert read(in_columns([line("of one", 67, 1), line("pieces", 0, 0)])) == ["pieces of one"]
    assert len(in_columns([line("apart", 100, 0), line("far", 0, 0)])) == 2


def test_a_word_with_the_height_of_its_row_gets_that_of_its_line() -> None:
    low, tall, high = line("low tall high", 0, 20)
    tall = replace(tall, box=(40, 5, 80, 60))
    assert [word.box[1::2] for word in with_even_heights([low, tall, high])] == [(20, 40)] * 3
    initial = replace(low, box=(0, 20, 30, 90))
    assert with_even_heights([initial, tall, high])[0] == initial


def test_labels_and_figures_alone_are_read_by_the_rows_of_the_page() -> None:
    labels = ("Total", "Cash", "Change given", "VAT")
    pieces = [line(text, 0, 90 * row) for row, text in enumerate(labels)]
    pieces += [line("9.00", 300, 90 * row + 3) for row in range(4)]
    assert read(in_reading_order(pieces[::-1])) == [f"{label} 9.00" for label in labels]
    assert in_reading_order([]) == []


def test_a_page_without_lines_has_no_order() -> None:
    assert in_columns([]) == []
    assert tables_by_rows([]) == []


def test_a_column_beside_columns_that_end_waits_for_what_follows_them() -> None:
    pieces: list[WordLine] = [
        line("a one", 0, 1), line("b one", 300, 5), line("b two", 300, 35),
        line("c one", 600, 0), line("c two", 600, 30),
        line("across the first column and the second column", 0, 70),
        line("a three", 0, 100), line("b three", 300, 100),
    ]  # fmt: skip
    order = ["a one", "b one", "b two", "across the", "a three", "b three", "c one", "c two"]
    assert [" ".join(text.split()[:2]) for text in read(in_columns(pieces))] == order


def test_very_many_lines_are_read_from_the_top() -> None:
    lines = [line(f"{column}{row}", x, 30 * row) for column, x in (("a", 0), ("b", 300)) for row in range(400)]
    assert read(in_columns(lines))[:4] == ["a0", "b0", "a1", "b1"]


@pytest.mark.parametrize("quarters", range(4))
def test_a_box_turned_there_and_back_is_the_same(quarters: int) -> None:
    size, box = (400, 300), (10.0, 20.0, 50.0, 30.0)
    turned = rotated_by_quarters(box, quarters=quarters, size=size)
    assert rotated_by_quarters(turned, quarters=4 - quarters, size=rotated_size(size, quarters=quarters)) == box


@pytest.mark.parametrize("quarters", range(4))
@pytest.mark.parametrize("ink", [0, 255])
def test_a_strip_is_cut_into_words_at_its_gaps(quarters: int, ink: int) -> None:
    upright = np.full((60, 200), 255 - ink, dtype=np.uint8)
    upright[20:40, 30:80] = upright[20:40, 100:170] = ink
    # The stem of a letter stands apart a little.
    upright[20:40, 76:78] = 255 - ink
    letters = [LetterBox("a", 0.2, 1.0), LetterBox("b", 0.35, 0.5), LetterBox(" ", 0.0, 1.0), LetterBox("c", 0.6, 1.0)]
    image = np.rot90(upright, -quarters)
    strip = LineStrip.cut(image, (0, 0, image.shape[1], image.shape[0]), quarters=quarters, letters=letters)
    first, second = split_words(strip)
    assert (first.text, second.text) == ("ab", "c")
    assert (first.confidence, second.confidence) == (0.75, 1.0)
    size = (image.shape[1], image.shape[0])
    assert rotated_by_quarters(first.box, quarters=quarters, size=size) == (30, 20, 80, 40)
    assert rotated_by_quarters(second.box, quarters=quarters, size=size) == (100, 20, 170, 40)
