"""Scans of which it is known where each word's ink is, and what a reader of a PDF finds where."""

import ctypes
import io
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image, ImageDraw, ImageFont

from app.domain.pages import Page
from app.ports.reading import Renderer
from app.reading.geometry import displayed_box
from tests.support.sample_documents import SENTENCE, encoded

Box = tuple[float, float, float, float]
Placed = tuple[str, Box]

LINES = (SENTENCE, "Pack my box with five dozen liquor jugs", "Sphinx of black quartz judge my vow") * 3
SIZE = (1275, 1650)
"""Letter at 150 dpi."""
DPI = 150
_DARK = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    image: Image.Image
    words: Sequence[Placed]
    """With the box that each was drawn in, in pixels."""

    def turned(self, quarter_turns: int) -> "Scan":
        """Counterclockwise, as somebody may lay it on the glass."""
        scan = self
        for _ in range(quarter_turns % 4):
            width = scan.image.width
            words = [(text, (y0, width - x1, y1, width - x0)) for text, (x0, y0, x1, y1) in scan.words]
            scan = Scan(image=scan.image.transpose(Image.Transpose.ROTATE_90), words=words)
        return scan


def scan(*lines: str, size: tuple[int, int] = SIZE, letters: int = 34) -> Scan:
    image = Image.new("L", size, 255)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=letters)
    words: list[Placed] = []
    for row, line in enumerate(lines or LINES):
        x, y = 110.0, 120 + row * letters * 2.5
        for word in line.split():
            draw.text((x, y), word, fill=0, font=font)
            words.append((word, draw.textbbox((x, y), word, font=font)))
            x += font.getlength(f"{word} ")
    return Scan(image=image, words=words)


async def searchable(
    renderer: Renderer, content: bytes, pages: Sequence[Page], *, media_type: str = "application/pdf"
) -> bytes:
    out = io.BytesIO()
    await renderer.searchable(whole(content), media_type=media_type, pages=batches(pages), into=out)
    return out.getvalue()


async def page_image(
    renderer: Renderer, content: bytes, *, number: int = 1, width: int = 1000, media_type: str = "application/pdf"
) -> Image.Image:
    out = io.BytesIO()
    await renderer.page_image(whole(content), media_type=media_type, number=number, width=width, into=out)
    return Image.open(out)


async def whole(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def batches(pages: Sequence[Page]) -> AsyncIterator[Sequence[Page]]:
    for first in range(0, len(pages), 2):
        yield pages[first : first + 2]


def selected(content: bytes) -> str:
    """What "select all" and "copy" yield."""
    document = pypdfium2.PdfDocument(content)
    try:
        return "\f".join(page.get_textpage().get_text_bounded() for page in document)
    finally:
        document.close()


def found(content: bytes, *, number: int = 1) -> list[Placed]:
    """The words of a page with their boxes, in points of the page as displayed."""
    document = pypdfium2.PdfDocument(content)
    page = document[number - 1]
    text, bounds, rotation = page.get_textpage(), page.get_bbox(), page.get_rotation()
    edges = [ctypes.c_double() for _ in range(4)]
    words: list[Placed] = []
    letters = ""
    boxes: list[Box] = []
    for index in range(text.count_chars()):
        letter = chr(pdfium.FPDFText_GetUnicode(text, index))
        if letter.isspace():
            if letters:
                words.append((letters, _around(boxes)))
            letters, boxes = "", []
            continue
        pdfium.FPDFText_GetCharBox(text, index, *edges)
        left, right, bottom, top = (edge.value for edge in edges)
        letters += letter
        boxes.append(displayed_box((left, bottom, right, top), bounds=bounds, rotation=rotation))
    document.close()
    return words


def share_on_the_ink(words: Sequence[Placed], drawn: Scan, shown: Image.Image, *, points: float) -> float:
    """Of the drawn words, those that are found on their ink: more than half of both is one and the same.

    The ink is where the image of the page, `points` wide, is dark around the place where the word was drawn.
    """
    to_points = points / shown.width
    from_scan = shown.width / drawn.image.width
    hits = 0
    for text, box in drawn.words:
        ink = _ink(shown, tuple(edge * from_scan for edge in box))
        place = tuple(edge * to_points for edge in ink)
        hits += any(word == text and overlap(place, found_at) > 0.5 for word, found_at in words)
    return hits / len(drawn.words)


def overlap(a: Sequence[float], b: Sequence[float]) -> float:
    """Intersection over union."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def _ink(shown: Image.Image, box: Sequence[float]) -> Box:
    left, top = int(box[0]) - 3, int(box[1]) - 3
    region = shown.convert("L").crop((left, top, int(box[2]) + 4, int(box[3]) + 4))
    inked = region.point(lambda value: 255 * (value < _DARK)).getbbox()
    assert inked is not None, "nothing is shown where a word was drawn"
    return (left + inked[0], top + inked[1], left + inked[2], top + inked[3])


def _around(boxes: Sequence[Box]) -> Box:
    x0s, y0s, x1s, y1s = zip(*boxes, strict=True)
    return (min(x0s), min(y0s), max(x1s), max(y1s))


def jpeg(image: Image.Image, *, orientation: int = 1, kind: str = "JPEG", **options: object) -> bytes:
    """The image as it looks, stored in one of EXIF's eight orientations."""
    back = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    exif = Image.Exif()
    exif[0x112] = orientation
    stored = image.transpose(back[orientation]) if orientation in back else image
    return encoded(stored, kind, exif=exif, dpi=(DPI, DPI), **options)
