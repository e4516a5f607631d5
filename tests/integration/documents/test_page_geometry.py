"""Odd boxes, units and turns: a word's box lies on its ink, as the page is displayed."""

from collections.abc import Callable

import numpy as np
import pypdfium2
import pytest
from PIL import Image

from app.domain.pages import Page, Source
from app.domain.warnings import WarningCode
from app.ports.reading import Mode
from tests.support.pdfs import Leaf, document, line, paragraph, picture, placed
from tests.support.reading import Reader
from tests.support.sample_documents import drawn, encoded

pytestmark = pytest.mark.asyncio(loop_scope="module")

LINES = ["The quick brown fox jumps", "over the lazy dog and runs", "through the field at noon"]
TEXT = " ".join(LINES).split()
HELLO = line("Hello", y=400, x=200, size=24)

BOXES = {
    "plain": Leaf(content=HELLO),
    "inverted": Leaf(content=HELLO, box="/MediaBox[612 792 0 0]"),
    "away from the origin": Leaf(content=HELLO, box="/MediaBox[100 100 712 892]"),
    "cropped": Leaf(content=HELLO, box="/MediaBox[0 0 612 792]/CropBox[150 350 400 500]"),
    "cropped beyond": Leaf(content=HELLO, box="/MediaBox[0 0 612 792]/CropBox[-100 -100 2000 2000]"),
    "missing": Leaf(content=HELLO, box=""),
    "empty": Leaf(content=HELLO, box="/MediaBox[0 0 0 0]"),
    "no numbers": Leaf(content=HELLO, box="/MediaBox[/a (b) null true]"),
    "exponents": Leaf(content=HELLO, box="/MediaBox[0 0 612. 7.92e2]"),
    "in units of 100 points": Leaf(content=HELLO, extra="/UserUnit 100"),
    "turned by 45": Leaf(content=HELLO, extra="/Rotate 45"),
    "turned by a quarter": Leaf(content=HELLO, extra="/Rotate 90"),
    "turned back": Leaf(content=HELLO, extra="/Rotate -90"),
    "turned and cropped": Leaf(content=HELLO, box="/MediaBox[0 0 612 792]/CropBox[150 350 400 500]/Rotate 270"),
}


def overlap_with_ink(content: bytes, page: Page, *, word: int = 0) -> float:
    """Of a word's box and the dark pixels of the page: their common part, over all of both."""
    assert page.width is not None
    with pypdfium2.PdfDocument(content) as opened:
        shown = opened[0].render(scale=4, grayscale=True).to_numpy().squeeze()
    assert shown.shape[1] == pytest.approx(page.width * 4, abs=2)
    y, x = np.nonzero(shown < 128)
    ink = (x.min() / 4, y.min() / 4, (x.max() + 1) / 4, (y.max() + 1) / 4)
    box = page.words[word].box
    shared = max(min(ink[2], box[2]) - max(ink[0], box[0]), 0) * max(min(ink[3], box[3]) - max(ink[1], box[1]), 0)
    both = sum((b[2] - b[0]) * (b[3] - b[1]) for b in (ink, box)) - shared
    return float(shared / both)


@pytest.mark.parametrize("leaf", BOXES.values(), ids=BOXES)
@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.FORCE])
async def test_a_words_box_lies_on_its_ink(reader: Reader, leaf: Leaf, mode: Mode) -> None:
    content = document(leaf)
    page = (await reader.read(content, mode=mode)).page
    assert page.text == "Hello"
    assert overlap_with_ink(content, page) > 0.5


@pytest.mark.parametrize("box", ["[0 0 0 792]", "[0 0 612 0]", "[5 5 5 5]", "[0 0 nan nan]", "[0 0 1e-9 1e-9]"])
@pytest.mark.parametrize("mode", list(Mode))
async def test_a_page_without_an_area_is_read_or_refused(reader: Reader, box: str, mode: Mode) -> None:
    read = await reader.read(document(Leaf(content=HELLO, box=f"/MediaBox{box}")), mode=mode)
    assert all(page.text in {"Hello", ""} for page in read.pages)
    assert all(page.fault.code in {"corrupt", "too_large"} for page in read.unreadable)


async def test_a_huge_page_is_read_at_a_low_resolution_and_this_is_said(reader: Reader) -> None:
    # 72 dpi give 36 megapixels, 200 dpi 278.
    leaf = Leaf(content=line("Hello", x=1000, y=3000, size=48), box="/MediaBox[0 0 6000 6000]")
    page = (await reader.read(document(leaf), mode=Mode.FORCE)).page
    assert page.text == "Hello"
    assert page.warnings == (WarningCode.RESOLUTION_REDUCED,)


@pytest.mark.parametrize("side", [14_400, 2_000_000, 2_147_483_648])
async def test_a_page_beyond_that_is_too_large_to_be_drawn_but_not_to_be_read(reader: Reader, side: int) -> None:
    content = document(Leaf(content=HELLO, box=f"/MediaBox[0 0 {side} {side}]"))
    [refused] = (await reader.read(content, mode=Mode.FORCE)).unreadable
    assert refused.fault.code == "too_large"
    read = await reader.read(content)
    assert [page.text for page in read.pages] == ["Hello"] or read.unreadable[0].fault.code == "too_large"


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
async def test_a_turned_page_has_the_same_text(reader: Reader, turn: int) -> None:
    content = document(Leaf(content=paragraph(LINES), extra=f"/Rotate {turn}"))
    for mode in (Mode.AUTO, Mode.FORCE):
        page = (await reader.read(content, mode=mode)).page
        assert sorted(page.text.split()) == sorted(TEXT)
        assert page.rotation == turn


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
async def test_a_scan_that_lies_on_its_side_has_the_same_text(reader: Reader, turn: int) -> None:
    scan = drawn(*LINES * 3, size=(1275, 1275)).rotate(-turn, expand=True)
    leaf = Leaf(
        content=placed("I", x=0, y=0, width=612, height=612), things={"I": picture(scan)}, box="/MediaBox[0 0 612 612]"
    )
    page = (await reader.read(document(leaf))).page
    assert page.text.split() == TEXT * 3
    assert page.source is Source.OCR


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
async def test_photos_are_read_as_their_exif_displays_them(reader: Reader, orientation: int, kind: str) -> None:
    stored: Callable[[Image.Image], Image.Image] = {
        1: lambda image: image,
        2: lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        3: lambda image: image.transpose(Image.Transpose.ROTATE_180),
        4: lambda image: image.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        5: lambda image: image.transpose(Image.Transpose.TRANSPOSE),
        6: lambda image: image.transpose(Image.Transpose.ROTATE_90),
        7: lambda image: image.transpose(Image.Transpose.TRANSVERSE),
        8: lambda image: image.transpose(Image.Transpose.ROTATE_270),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    page = (await reader.read(encoded(stored(drawn(*LINES)), kind, exif=exif))).page
    assert page.text.split() == TEXT
    assert page.rotation == {1: 0, 2: 0, 3: 180, 4: 180, 5: 90, 6: 90, 7: 270, 8: 270}[orientation]
