"""The invisible text of a page: recognised words, placed on the ink that they were read from.

It goes before the page's own content, so that the latter need not be parsed or changed.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from app.domain.pages import Page, Source, Word
from app.reading.geometry import Box
from app.reading.pdf.glyphless_font import ADVANCE, EM, GlyphlessFont

_ONE_BASELINE = 0.3
"""Share of a word's height by which its bottom may differ from the line's baseline and still be moved to it. Descenders
hang by less. Readers take words on several baselines for several lines."""
_SMALLEST = 1.0
"""Points of font size at least. A flatter box is that of a dash, which would give a font without a size."""
_NARROWEST = 0.1
"""Ems of a letter's width at least, because readers take equal letters that are closer for one drawn twice."""

TextMatrix = tuple[float, float, float, float, float, float]
Direction = tuple[int, int]
"""The direction of text on the displayed page: along x (rightwards) and y (downwards)."""

_RIGHT, _LEFT = (1, 0), (-1, 0)
_LIFTED = 0.8
"""Ems by which spaces of an upside-down line are lifted off its baseline. PDFium sorts text on one baseline from left
to right, which would reverse such a line."""


_PlacedText = tuple[str, Box]


@dataclass(frozen=True, slots=True, kw_only=True)
class _TextWriter:
    """The font and the page height that words are written with."""

    font: str
    glyphs: GlyphlessFont
    height: float
    """The page's height, to measure from the bottom."""


def text_content(page: Page, *, font: str, glyphs: GlyphlessFont, bounds: Box, rotation: int) -> bytes:
    """Content for a page that shows `bounds` (of PDF space) turned clockwise by `rotation`; empty without words by OCR.

    `font` is the name of the glyphs' font on the page.
    """
    words = [word for word in page.words if word.source is Source.OCR and word.text]
    if not words or not page.width or not page.height:
        return b""
    left, bottom, right, top = bounds
    width, height = (right - left, top - bottom) if rotation in {0, 180} else (top - bottom, right - left)
    scale = (width / page.width, height / page.height)
    lines = [_scaled(list(line), scale) for _, line in groupby(words, key=lambda word: word.line)]
    usual = _direction([word for line in lines for word in _ends(line)], otherwise=_RIGHT)
    pen = _TextWriter(font=font, glyphs=glyphs, height=height)
    shown = "\n".join(part for line in lines for part in _line(line, pen, usual=usual))
    matrix = " ".join(f"{value:.3f}" for value in to_pdf_space(bounds, rotation=rotation))
    return f"q {matrix} cm BT 3 Tr\n{shown}\nET Q\n".encode("ascii")


def to_pdf_space(bounds: Box, *, rotation: int) -> TextMatrix:
    """The matrix from the displayed page, with its origin bottom left and y upwards, to PDF space."""
    left, bottom, right, top = bounds
    match rotation:
        case 90:
            return (0, 1, -1, 0, right, bottom)
        case 180:
            return (-1, 0, 0, -1, right, top)
        case 270:
            return (0, -1, 1, 0, left, top)
        case _:
            return (1, 0, 0, 1, left, bottom)


def _scaled(words: Sequence[Word], scale: tuple[float, float]) -> list[tuple[str, Box]]:
    x, y = scale
    return [(word.text, (word.box[0] * x, word.box[1] * y, word.box[2] * x, word.box[3] * y)) for word in words]


def _line(words: list[_PlacedText], pen: _TextWriter, *, usual: Direction) -> list[str]:
    direction = _direction(_ends(words), otherwise=usual)
    # An upside-down line among upright ones is an error of the reading order.
    if direction == (-usual[0], -usual[1]):
        direction = usual
    seen = [(text, _along(box, direction)) for text, box in words]
    baseline = median(box[3] for _, box in seen)
    return [_word(word, pen, baseline=baseline, direction=direction) for word in seen]


def _word(word: _PlacedText, pen: _TextWriter, *, baseline: float, direction: Direction) -> str:
    text, (start, top, end, bottom) = word
    if abs(bottom - baseline) <= _ONE_BASELINE * (bottom - top):
        bottom = baseline
    size = max(bottom - top, _SMALLEST)
    natural = len(text) * size * ADVANCE / EM
    stretch = max((end - start) / natural, _NARROWEST * EM / ADVANCE) * 100
    x, y = _back((start, bottom), direction)
    right, down = direction
    place = f"{right} {-down} {down} {right} {x:.2f} {pen.height - y:.2f} Tm"
    shown = text[::-1] if _is_leftwards(text) else text
    # The space separates words, however a reader treats the gap, at a line's end too.
    drawn = f"<{pen.glyphs.encoded(shown + ' ')}> Tj"
    if direction == _LEFT:
        drawn = f"<{pen.glyphs.encoded(shown)}> Tj {size * _LIFTED:.2f} Ts <{pen.glyphs.encoded(' ')}> Tj 0 Ts"
    return f"{pen.font} {size:.2f} Tf {stretch:.2f} Tz {place} {drawn}"


def _along(box: Box, direction: Direction) -> Box:
    """The box on the page turned so that the text goes rightwards."""
    x0, y0, x1, y1 = box
    match direction:
        case (-1, 0):
            return (-x1, -y1, -x0, -y0)
        case (0, 1):
            return (y0, -x1, y1, -x0)
        case (0, -1):
            return (-y1, x0, -y0, x1)
        case _:
            return box


def _back(point: tuple[float, float], direction: Direction) -> tuple[float, float]:
    along, down = point
    match direction:
        case (-1, 0):
            return (-along, -down)
        case (0, 1):
            return (-down, along)
        case (0, -1):
            return (down, -along)
        case _:
            return point


def _ends(line: list[_PlacedText]) -> list[_PlacedText]:
    return [line[0], line[-1]] if len(line) > 1 else []


def _direction(ends: list[_PlacedText], *, otherwise: Direction) -> Direction:
    """The direction of lines, from their first and last words. Lines of a right-to-left script count the other way."""
    x = y = 0.0
    for (first, a), (_, b) in zip(ends[::2], ends[1::2], strict=True):
        sign = -1 if _is_leftwards(first) else 1
        x += sign * (b[0] + b[2] - a[0] - a[2])
        y += sign * (b[1] + b[3] - a[1] - a[3])
    if not x and not y:
        return otherwise
    if abs(x) >= abs(y):
        return (1, 0) if x > 0 else (-1, 0)
    return (0, 1) if y > 0 else (0, -1)


def _is_leftwards(text: str) -> bool:
    """Return true for a right-to-left script. PDF has its letters in visual order, and readers reverse them."""
    if text.isascii():
        return False
    strong = (unicodedata.bidirectional(character) for character in text)
    return next((kind in {"R", "AL"} for kind in strong if kind in {"L", "R", "AL"}), False)
