"""The text layer of a PDF page, word by word in the file's order."""

import ctypes
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pypdfium2
import pypdfium2.raw as pdfium

from app.domain.errors import DocumentFault
from app.reading.faults import is_junk, scrubbed
from app.reading.geometry import Box, clipped_box, displayed_box, enclosing
from app.reading.pdf import pdfium_calls

_MOST_CHARACTERS = 250_000
"""Characters of one page at most. A dense page has 10,000."""
_HYPHENS = frozenset("\x02\ufffe")
"""Characters that PDFium returns for the hyphen of a word that continues in the next line."""
_WORD = re.compile(r"\S+")
_LINE_END = re.compile("\n")
_DOUBLE = ctypes.sizeof(ctypes.c_double)

Boxes = npt.NDArray[np.float64]


class LayerWord(NamedTuple):
    """A word of the text layer. It is a tuple, because a page has 500 words and a data class takes twice the time."""

    text: str
    box: Box
    """The word's box on the displayed page."""
    line: int
    """The number of the line as PDFium splits lines, from 0."""
    start: int
    """The index of its first character in the text page."""
    thing: int
    """The address of the text object that draws its first character; 0 for none. It is valid while the page is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayer:
    """A page's words, and figures on text that was left out or is unreadable."""

    words: list[LayerWord]
    boxes: Boxes
    """The boxes of the words, a row each."""
    has_more: bool
    """True if there is text outside the page or its crop box."""
    junk_share: float
    """The share of invisible characters."""


def text_layer(page: pypdfium2.PdfPage, textpage: pypdfium2.PdfTextPage) -> TextLayer:
    """The page's text layer. Raises DocumentFault (too_large) if it has more than 250,000 characters."""
    count = textpage.count_chars()
    if count > _MOST_CHARACTERS:
        raise DocumentFault(
            "too_large", f"A page may have at most {_MOST_CHARACTERS:,} characters: split it and upload the parts."
        )
    return _LayerReader(page, textpage).read(_text(textpage, count))


class _LayerReader:
    def __init__(self, page: pypdfium2.PdfPage, textpage: pypdfium2.PdfTextPage) -> None:
        self._textpage = pdfium_calls.address_of(textpage.raw)
        self._bounds, self._rotation = page.get_bbox(), page.get_rotation()
        self._width, self._height = page.get_size()

    def read(self, text: str) -> TextLayer:
        spans = [match.span() for match in _WORD.finditer(text)]
        texts = [text[start:stop] for start, stop in spans]
        placed = self._on_page(self._boxes(spans))
        inside = self._within(placed)
        boxes: list[Box] = list(map(tuple, self._clipped(placed).tolist()))
        lost = 0
        for index in np.flatnonzero(~inside).tolist():
            kept, boxes[index] = self._part(text, *spans[index])
            lost += len(texts[index]) - len(kept)
            texts[index] = kept
        together = "".join(texts)
        if not together.isprintable():
            texts = [scrubbed(written) for written in texts]
        starts = [start for start, _ in spans]
        lines = self._lines(text, starts)
        things = self._things(starts, lines)
        words = list(map(LayerWord._make, zip(texts, boxes, lines, starts, things, strict=True)))
        if "" in texts:
            words = [word for word in words if word.text]
        return TextLayer(
            words=words,
            boxes=np.array([word.box for word in words]) if len(words) < len(boxes) or lost else self._clipped(placed),
            has_more=lost > 0,
            junk_share=_junk(together) / max(len(together) + len(words), 1),
        )

    def _lines(self, text: str, starts: list[int]) -> list[int]:
        ends = [match.start() for match in _LINE_END.finditer(text)]
        before = np.searchsorted(ends, starts)
        lines: list[int] = np.unique(before, return_inverse=True)[1].tolist()
        return lines

    def _things(self, starts: list[int], lines: list[int]) -> list[int]:
        """The text object of each word. One that draws a line's first and last word also draws those between."""
        things = [0] * len(starts)
        todo = [(first, last) for first, last in _stretches(lines)]
        while todo:
            first, last = todo.pop()
            things[first] = things[first] or pdfium_calls.text_object(self._textpage, starts[first]) or 0
            things[last] = things[last] or pdfium_calls.text_object(self._textpage, starts[last]) or 0
            if things[first] == things[last]:
                things[first : last + 1] = [things[first]] * (last + 1 - first)
            elif last - first > 1:
                middle = (first + last) // 2
                todo += [(first, middle), (middle, last)]
        return things

    def _clipped(self, boxes: Boxes) -> Boxes:
        limits = np.array([self._width, self._height] * 2)
        lying: Any = np.round(np.clip(boxes, 0.0, limits), 2)
        return np.asarray(lying, dtype=np.float64)

    def _boxes(self, spans: list[tuple[int, int]]) -> Boxes:
        """Left, top, right, bottom of each word in PDF space, which PDFium writes directly into the array."""
        boxes = np.zeros((len(spans), 4))
        at, step = boxes.ctypes.data, boxes.strides[0]
        textpage, count_rects, get_rect = self._textpage, pdfium_calls.count_rects, pdfium_calls.get_rect
        for index, (start, stop) in enumerate(spans):
            parts = count_rects(textpage, start, stop - start)
            if parts == 1:
                get_rect(textpage, 0, at, at + _DOUBLE, at + 2 * _DOUBLE, at + 3 * _DOUBLE)
            else:
                boxes[index] = self._box_of_parts(start, stop, parts)
            at += step
        return np.nan_to_num(boxes)

    def _box_of_parts(self, start: int, stop: int, parts: int) -> Box:
        """Left, top, right, bottom of a word drawn by several objects, or by glyphs without an extent."""
        boxes = [self._rectangle(part) for part in range(parts)] or [self._character(i) for i in range(start, stop)]
        left, bottom, right, top = enclosing(boxes)
        return (left, top, right, bottom)

    def _character(self, index: int) -> Box:
        """The character's left, bottom, right, top in PDF space."""
        box = (ctypes.c_double * 4)()
        at = ctypes.addressof(box)
        pdfium_calls.get_char_box(self._textpage, index, at, at + 2 * _DOUBLE, at + _DOUBLE, at + 3 * _DOUBLE)
        left, bottom, right, top = box
        return (left, bottom, right, top)

    def _rectangle(self, index: int) -> Box:
        """Left, bottom, right, top in PDF space of one of the rectangles that were counted last."""
        box = (ctypes.c_double * 4)()
        at = ctypes.addressof(box)
        pdfium_calls.get_rect(self._textpage, index, at, at + 3 * _DOUBLE, at + 2 * _DOUBLE, at + _DOUBLE)
        left, bottom, right, top = box
        return (left, bottom, right, top)

    def _on_page(self, boxes: Boxes) -> Boxes:
        left, top, right, bottom = boxes.T
        lying: Any = displayed_box((left, bottom, right, top), bounds=self._bounds, rotation=self._rotation)
        return np.column_stack(lying)

    def _within(self, boxes: Boxes) -> npt.NDArray[np.bool_]:
        x0, y0, x1, y1 = boxes.T
        whole: npt.NDArray[np.bool_] = (x0 >= 0) & (y0 >= 0) & (x1 <= self._width) & (y1 <= self._height)
        return whole

    def _part(self, text: str, start: int, stop: int) -> tuple[str, Box]:
        """The part of a word that lies on the page.

        A reader can't see text outside the page or its crop box, so instructions can be hidden there.
        """
        kept, boxes = "", []
        for index in range(start, stop):
            box = displayed_box(self._character(index), bounds=self._bounds, rotation=self._rotation)
            x0, y0, x1, y1 = box
            if 0 <= (x0 + x1) / 2 <= self._width and 0 <= (y0 + y1) / 2 <= self._height:
                kept += text[index]
                boxes.append(box)
        return kept, clipped_box(enclosing(boxes), width=self._width, height=self._height) if boxes else (
            0.0,
            0.0,
            0.0,
            0.0,
        )


def _stretches(lines: list[int]) -> Iterator[tuple[int, int]]:
    """The first and the last word of each line."""
    first = 0
    for index in range(1, len(lines) + 1):
        if index == len(lines) or lines[index] != lines[first]:
            yield first, index - 1
            first = index


def _junk(text: str) -> int:
    # The replacement character is the only junk that counts as printable.
    kinds = {"\ufffd"} if text.isprintable() else set(text)
    return sum(text.count(character) for character in kinds if is_junk(character))


def _text(textpage: pypdfium2.PdfTextPage, count: int) -> str:
    """The page's text with exactly one character for each of the text page."""
    units = (ctypes.c_ushort * (count + 1))()
    written = pdfium.FPDFText_GetText(textpage, 0, count, units)
    text = bytes(units)[: 2 * max(written - 1, 0)].decode("utf-16-le", "surrogatepass")
    if len(text) != count:
        # PDFium leaves some out: get the characters one by one.
        where = pdfium_calls.address_of(textpage.raw)
        text = "".join(chr(min(pdfium_calls.get_unicode(where, index), sys.maxunicode)) for index in range(count))
    return "".join(_hyphens_put_back(textpage, text)) if _HYPHENS & set(text) else text


def _hyphens_put_back(textpage: pypdfium2.PdfTextPage, text: str) -> Iterator[str]:
    for index, character in enumerate(text):
        is_hyphen = character in _HYPHENS and pdfium.FPDFText_IsHyphen(textpage, index) == 1
        yield "-" if is_hyphen else character
