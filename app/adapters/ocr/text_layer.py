"""The text a PDF page carries, and whether to believe it."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

import pypdfium2
import pypdfium2.raw as pdfium

from app.adapters.ocr.geometry import Box, around, clipped, displayed
from app.adapters.ocr.scrub import is_junk, scrubbed
from app.domain.errors import DocumentFault
from app.domain.pages import Source, Word

FEWEST_CHARACTERS = 25
"""Fewer are as likely a page number or a stamp as the page's text."""
FEWEST_OVER_A_SCAN = 100
"""A stamp on a scan had 25."""
SCAN_COVERAGE = 0.8
JUNK_SHARE = 0.1

_MOST_CHARACTERS = 250_000
"""Of one page; a dense one has 10,000."""
_HYPHENS = frozenset("\x02\ufffe")
"""What PDFium hands out for the hyphen of a word that goes on in the next line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayer:
    words: tuple[Word, ...]
    characters: int
    """On the part of the page that is displayed, white space included."""
    junk: int
    """Those of them that no reader would see."""


@dataclass(frozen=True, slots=True)
class _Character:
    text: str
    box: Box | None
    """On the displayed page; None for white space."""


def is_trustworthy(*, characters: int, junk: int, coverage: float) -> bool:
    """Whether the text layer says what the page shows; `coverage` is the share of it that images cover."""
    if characters < FEWEST_CHARACTERS:
        return False
    if coverage > SCAN_COVERAGE and characters < FEWEST_OVER_A_SCAN:
        return False
    return junk / characters < JUNK_SHARE


def text_layer(page: pypdfium2.PdfPage, *, width: float, height: float) -> TextLayer:
    """Raises DocumentFault (too_large) for more text than one page can hold."""
    textpage = page.get_textpage()
    try:
        count = textpage.count_chars()
        if count > _MOST_CHARACTERS:
            raise DocumentFault(
                "too_large", f"A page may have {_MOST_CHARACTERS:,} characters: split it and upload the parts."
            )
        shown = [c for c in _characters(textpage, page, count) if _is_on_page(c, width=width, height=height)]
    finally:
        textpage.close()
    return TextLayer(
        words=tuple(_words(shown, width=width, height=height)),
        characters=len(shown),
        junk=sum(is_junk(c.text) for c in shown),
    )


def _characters(textpage: pypdfium2.PdfTextPage, page: pypdfium2.PdfPage, count: int) -> Iterator[_Character]:
    bounds, rotation = page.get_bbox(), page.get_rotation()
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    for index in range(count):
        text = chr(pdfium.FPDFText_GetUnicode(textpage, index))
        if text.isspace():
            # Line ends come as CR and LF.
            if text != "\r":
                yield _Character(text, None)
            continue
        if text in _HYPHENS and pdfium.FPDFText_IsHyphen(textpage, index) == 1:
            text = "-"
        pdfium.FPDFText_GetCharBox(textpage, index, left, right, bottom, top)
        box = (left.value, bottom.value, right.value, top.value)
        yield _Character(text, displayed(box, bounds=bounds, rotation=rotation))


def _is_on_page(character: _Character, *, width: float, height: float) -> bool:
    """Text beside the page or cropped away is nothing a reader sees: a hiding place for instructions."""
    if character.box is None:
        return True
    x0, y0, x1, y1 = character.box
    return 0 <= (x0 + x1) / 2 <= width and 0 <= (y0 + y1) / 2 <= height


def _words(characters: list[_Character], *, width: float, height: float) -> Iterator[Word]:
    letters: list[str] = []
    boxes: list[Box] = []
    line = 0
    begun = False
    for character in [*characters, _Character(" ", None)]:
        if character.box is not None:
            letters.append(character.text)
            boxes.append(character.box)
            continue
        if letters:
            if text := scrubbed("".join(letters)):
                yield Word(
                    text=text,
                    box=clipped(around(boxes), width=width, height=height),
                    confidence=1.0,
                    source=Source.TEXT_LAYER,
                    line=line,
                    block=0,
                )
                begun = True
            letters, boxes = [], []
        if character.text == "\n" and begun:
            line, begun = line + 1, False
