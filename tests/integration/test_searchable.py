"""The searchable copy: it looks as the document does, its text is the document's, and it lies on the ink."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image, ImageChops, ImageStat

from app.domain.pages import Page, Source, Word, text_of
from app.reading.recognizer import ProcessRecognizer
from app.reading.renderer import ProcessRenderer
from tests.support.reading import pages_of
from tests.support.sample_documents import LETTER, SENTENCE, Sheet, encoded, pdf
from tests.support.scans import DPI, Scan, found, jpeg, page_image, scan, searchable, selected, share_on_the_ink

PDF, PNG, TIFF, JPEG = "application/pdf", "image/png", "image/tiff", "image/jpeg"
SCAN = scan()
WIDE = (LETTER[1], LETTER[0])

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def recognizer() -> AsyncIterator[ProcessRecognizer]:
    recognizer = ProcessRecognizer(children=1)
    yield recognizer
    await recognizer.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def renderer() -> AsyncIterator[ProcessRenderer]:
    renderer = ProcessRenderer(children=1)
    yield renderer
    await renderer.close()


Read = Callable[..., Awaitable[list[Page]]]


@pytest.fixture
def read(recognizer: ProcessRecognizer, tmp_path: Path) -> Read:
    """The pages of a content, as a worker reads them."""

    def read(content: bytes, *, media_type: str = PDF) -> Awaitable[list[Page]]:
        path = tmp_path / "upload"
        path.write_bytes(content)
        return pages_of(recognizer, path, media_type=media_type)

    return read


def scanned(drawn: Scan, *, size: tuple[int, int] = LETTER, extra: str = "") -> bytes:
    return pdf(Sheet(image=drawn.image, size=size, extra=extra))


PDFS = {
    "upright": (scanned(SCAN), SCAN),
    "rotate 90": (scanned(SCAN.turned(1), size=WIDE, extra="/Rotate 90"), SCAN),
    "rotate 180": (scanned(SCAN.turned(2), extra="/Rotate 180"), SCAN),
    "rotate 270": (scanned(SCAN.turned(3), size=WIDE, extra="/Rotate 270"), SCAN),
    "rotate -90": (scanned(SCAN.turned(3), size=WIDE, extra="/Rotate -90"), SCAN),
    "lying left": (scanned(SCAN.turned(1), size=WIDE), SCAN.turned(1)),
    "upside down": (scanned(SCAN.turned(2)), SCAN.turned(2)),
    "lying right": (scanned(SCAN.turned(3), size=WIDE), SCAN.turned(3)),
}


@pytest.mark.parametrize("name", PDFS)
async def test_a_scanned_pdf_looks_the_same_and_its_text_lies_on_the_ink(
    read: Read, renderer: ProcessRenderer, name: str
) -> None:
    content, drawn = PDFS[name]
    [page] = await read(content)
    copy = await searchable(renderer, content, [page])
    assert selected(copy).split() == page.text.split()
    before, after = await page_image(renderer, content), await page_image(renderer, copy)
    assert before.tobytes() == after.tobytes()
    assert page.width is not None
    assert share_on_the_ink(found(copy), drawn, after, points=page.width) >= 0.95


async def test_a_cropped_page_has_its_text_on_what_is_left(read: Read, renderer: ProcessRenderer) -> None:
    content = scanned(SCAN.turned(1), size=WIDE, extra="/CropBox[36 36 750 600]/Rotate 90")
    [page] = await read(content)
    assert (page.width, page.height) == (564, 714)
    copy = await searchable(renderer, content, [page])
    assert selected(copy).split() == page.text.split()
    # Half an inch is gone from the left and from the top.
    cut = DPI // 2
    left = Scan(
        image=SCAN.image.crop((cut, cut, 600 * DPI // 72, 750 * DPI // 72)),
        words=[(text, (x0 - cut, y0 - cut, x1 - cut, y1 - cut)) for text, (x0, y0, x1, y1) in SCAN.words],
    )
    shown = await page_image(renderer, copy, width=left.image.width)
    assert share_on_the_ink(found(copy), left, shown, points=564) >= 0.95


IMAGES = {
    "png": (encoded(SCAN.image, "PNG", dpi=(DPI, DPI)), PNG),
    "jpeg": (jpeg(SCAN.image), JPEG),
    "tiff": (encoded(SCAN.image.convert("1"), "TIFF", compression="group4", dpi=(DPI, DPI)), TIFF),
    "colour": (encoded(SCAN.image.convert("RGB"), "TIFF", compression="tiff_lzw", dpi=(DPI, DPI)), TIFF),
    **{f"exif {n}": (jpeg(SCAN.image, orientation=n), JPEG) for n in range(2, 9)},
    "png exif 6": (jpeg(SCAN.image, orientation=6, kind="PNG"), PNG),
}


@pytest.mark.parametrize("name", IMAGES)
async def test_an_image_becomes_a_pdf_of_its_size_with_the_text_on_the_ink(
    read: Read, renderer: ProcessRenderer, name: str
) -> None:
    content, media_type = IMAGES[name]
    [page] = await read(content, media_type=media_type)
    copy = await searchable(renderer, content, [page], media_type=media_type)
    assert selected(copy).split() == page.text.split()
    shown = await page_image(renderer, copy, width=SCAN.image.width)
    assert looks_like(shown, await page_image(renderer, content, width=SCAN.image.width, media_type=media_type))
    assert page.width is not None
    assert share_on_the_ink(found(copy), SCAN, shown, points=page.width) >= 0.95


def looks_like(one: Image.Image, other: Image.Image) -> bool:
    """But for how edges were smoothed."""
    assert abs(one.width - other.width) + abs(one.height - other.height) <= 2
    difference = ImageChops.difference(one.convert("L"), other.convert("L").resize(one.size))
    return ImageStat.Stat(difference).mean[0] < 3


async def test_all_frames_of_a_tiff_are_pages_read_or_not(read: Read, renderer: ProcessRenderer) -> None:
    frames = [scan(f"This is frame number {number} of four").image for number in range(4)]
    content = encoded(frames[0], "TIFF", save_all=True, append_images=frames[1:], dpi=(DPI, DPI))
    pages = await read(content, media_type=TIFF)
    copy = await searchable(renderer, content, [pages[1]], media_type=TIFF)
    texts = [text.split() for text in selected(copy).split("\f")]
    assert texts == [[], pages[1].text.split(), [], []]
    for number, frame in enumerate(frames, start=1):
        shown = await page_image(renderer, copy, number=number, width=frame.width)
        assert looks_like(shown, frame)


async def test_words_that_the_file_has_already_are_not_doubled(read: Read, renderer: ProcessRenderer) -> None:
    content = pdf(Sheet(lines=(SENTENCE,)), Sheet(image=SCAN.image), Sheet(), Sheet(lines=(SENTENCE, "The last page")))
    pages = await read(content)
    copy = await searchable(renderer, content, pages)
    assert [text.split() for text in selected(copy).split("\f")] == [page.text.split() for page in pages]
    assert len(copy) - len(content) < 20_000


async def test_a_text_is_found_as_it_is_whatever_it_is_written_in(renderer: ProcessRenderer) -> None:
    texts = ["naïve", "Ελλάδα", "請求書", "𝒜𝒷", "😀", "(a)", "<b>", "\\", "l", "l", "l", ".", ".", "-"]
    page = typed(texts)
    copy = await searchable(renderer, pdf(Sheet()), [page])
    assert selected(copy).split() == texts
    assert [text for text, _ in found(copy)][:3] == texts[:3]


@pytest.mark.parametrize("texts", [["שלום", "עולם", "זה"], ["مرحبا", "بالعالم", "العربي"]])
async def test_what_is_written_leftwards_comes_in_the_order_of_reading(
    renderer: ProcessRenderer, texts: list[str]
) -> None:
    copy = await searchable(renderer, pdf(Sheet()), [typed(texts, leftwards=True)])
    assert selected(copy).split() == texts


def typed(texts: list[str], *, leftwards: bool = False) -> Page:
    """One line of text."""
    words, x = [], 500.0 if leftwards else 72.0
    for text in texts:
        wide = 8.0 * len(text)
        box = (x - wide, 100.0, x, 112.0) if leftwards else (x, 100.0, x + wide, 112.0)
        words.append(Word(text=text, box=box, confidence=1.0, source=Source.OCR, line=0, block=0))
        x += -(wide + 5) if leftwards else wide + 5
    return Page(
        number=1,
        text=text_of(words),
        source=Source.OCR,
        confidence=1.0,
        width=612.0,
        height=792.0,
        rotation=0,
        language="eng",
        words=tuple(words),
    )
