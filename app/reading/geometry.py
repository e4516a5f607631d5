"""Boxes and sizes in points of the displayed page, with the origin top left; and words built from columns of fields."""

import math
from collections.abc import Iterable
from typing import Any

from app.domain.errors import DocumentFault
from app.domain.pages import Source, Word

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1. y grows downwards unless stated otherwise."""

POINTS_PER_INCH = 72
MAX_PIXELS = 50_000_000
"""Pixels of an image at most. A page of A4 at 600 dpi has 35 million; Tesseract needs about 5 bytes for each."""
MAX_SIDE = 32_766
"""Pixels of a side at most, because Leptonica and Tesseract hold coordinates in 16 bits."""
MIN_DPI = 72
"""The least resolution: below it body text is under 10 pixels high and can't be read."""


def render_dpi(*, width: float, height: float, wanted: int) -> int:
    """The dpi, at most `wanted`, at which a page of this size in points stays within the pixel limits.

    Raises DocumentFault (too_large) if the page exceeds them even at MIN_DPI.
    """
    by_area = POINTS_PER_INCH * math.sqrt(MAX_PIXELS / max(width * height, 1))
    by_side = POINTS_PER_INCH * MAX_SIDE / max(width, height, 1)
    dpi = math.floor(min(wanted, by_area, by_side))
    if dpi < min(MIN_DPI, wanted):
        inches = f"{width / POINTS_PER_INCH:.0f} x {height / POINTS_PER_INCH:.0f} inches"
        raise DocumentFault("too_large", f"A page measures {inches}: scale it down and upload it again.")
    return dpi


def check_pixels(*, width: int, height: int) -> None:
    """Raise DocumentFault (too_large) for an image beyond the pixel limits."""
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE:
        raise too_many_pixels()


def too_many_pixels() -> DocumentFault:
    return DocumentFault(
        "too_large",
        f"An image may have {MAX_PIXELS // 1_000_000} megapixels and {MAX_SIDE} pixels a side at most: "
        "scale it down and upload it again.",
    )


def displayed_box(box: Box, *, bounds: Box, rotation: int) -> Box:
    """The box, given in PDF space (y grows upwards), on the page that shows `bounds` turned clockwise by `rotation`."""
    x0, y0, x1, y1 = box
    left, bottom, right, top = bounds
    match rotation:
        case 90:
            return (y0 - bottom, x0 - left, y1 - bottom, x1 - left)
        case 180:
            return (right - x1, y0 - bottom, right - x0, y1 - bottom)
        case 270:
            return (top - y1, right - x1, top - y0, right - x0)
        case _:
            return (x0 - left, top - y1, x1 - left, top - y0)


def rotated_back(box: Box, *, degrees: float, size: tuple[int, int], original: tuple[int, int]) -> Box:
    """Map a box from an image of `size`, which was turned counterclockwise, back to the `original` image.

    Both images share their centre. The result is the upright box around the tilted one.
    """
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    corners = [(x - size[0] / 2, y - size[1] / 2) for x in box[::2] for y in box[1::2]]
    xs = [x * cos - y * sin + original[0] / 2 for x, y in corners]
    ys = [x * sin + y * cos + original[1] / 2 for x, y in corners]
    return clipped_box((min(xs), min(ys), max(xs), max(ys)), width=original[0], height=original[1])


def rotated_by_quarters(box: Box, *, quarters: int, size: tuple[int, int]) -> Box:
    """The box after its image of `size` was turned counterclockwise by this number of quarter circles."""
    x0, y0, x1, y1 = box
    width, height = size
    match quarters % 4:
        case 1:
            return (y0, width - x1, y1, width - x0)
        case 2:
            return (width - x1, height - y1, width - x0, height - y0)
        case 3:
            return (height - y1, x0, height - y0, x1)
        case _:
            return box


def rotated_size(size: tuple[int, int], *, quarters: int) -> tuple[int, int]:
    return size if quarters % 2 == 0 else (size[1], size[0])


def scaled_box(box: Box, *, x: float, y: float) -> Box:
    return (box[0] * x, box[1] * y, box[2] * x, box[3] * y)


def enclosing(boxes: list[Box]) -> Box:
    x0s, y0s, x1s, y1s = zip(*boxes, strict=True)
    return (min(x0s), min(y0s), max(x1s), max(y1s))


def contains(box: Box, other: Box) -> bool:
    """Return true if the centre of the other box lies in the box."""
    x, y = (other[0] + other[2]) / 2, (other[1] + other[3]) / 2
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def area(box: Box) -> float:
    return max(box[2] - box[0], 0) * max(box[3] - box[1], 0)


def clipped_box(box: Box, *, width: float, height: float) -> Box:
    """The part of the box that lies on the page, rounded to hundredths."""
    x0, y0, x1, y1 = box
    return (
        round(min(max(x0, 0), width), 2),
        round(min(max(y0, 0), height), 2),
        round(min(max(x1, 0), width), 2),
        round(min(max(y1, 0), height), 2),
    )


_SETTERS: list[Any] = [getattr(Word, name).__set__ for name in ("text", "box", "confidence", "source", "line", "block")]


def words_from_columns(
    *,
    texts: Iterable[str],
    boxes: Iterable[Box],
    confidences: Iterable[float],
    sources: Iterable[Source],
    lines: Iterable[int],
    blocks: Iterable[int],
) -> list[Word]:
    """Words made from columns of their fields, up to 300,000 for a book.

    A frozen dataclass sets each attribute through a check: 300,000 words take 0.4 s, on either side of the pipe.
    Setting the slots directly takes 0.15 s.
    """
    new = Word.__new__
    set_text, set_box, set_confidence, set_source, set_line, set_block = _SETTERS
    words = []
    for text, box, confidence, source, line, block in zip(
        texts, boxes, confidences, sources, lines, blocks, strict=True
    ):
        word = new(Word)
        set_text(word, text)
        set_box(word, box)
        set_confidence(word, confidence)
        set_source(word, source)
        set_line(word, line)
        set_block(word, block)
        words.append(word)
    return words
