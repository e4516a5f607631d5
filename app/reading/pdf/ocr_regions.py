"""The parts of a page that have to be recognised, because its text layer does not contain the text that they show."""

from collections.abc import Sequence

import numpy as np
import pypdfium2

from app.reading.geometry import Box, area, clipped_box, contains, enclosing
from app.reading.pdf.hidden_text import WordVisibility
from app.reading.pdf.page_objects import PageObjects
from app.reading.pdf.rendering import render
from app.reading.pdf.text_layer import LayerWord

FEWEST_CHARACTERS = 25
"""Characters of a page with drawings below which its text may be drawn as outlines, beside a real page number."""
FEWEST_OVER_A_SCAN = 100
"""Invisible characters on a page-sized picture from which it counts as recognised before. A stamp had 25."""
_MOST_PICTURES = 200
_TOUCHING = 2.0
"""Points between pictures that belong together, because scanners store a page as stripes."""
_LEAST = (36.0, 8.0)
"""Points of width and height below which a picture has no text, such as an icon or a bullet."""
_LEAST_AREA = 1_200.0
_DPI = 72.0
_INK = 48
_UNREAD_INK = 0.002
"""Share of a picture's pixels that are ink outside all words, from which it shows more text. Dust stays below."""


def ocr_regions(
    page: pypdfium2.PdfPage, words: Sequence[LayerWord], *, visibility: WordVisibility, on: PageObjects
) -> list[Box]:
    """The boxes on the displayed page that OCR has to read.

    `words` without the hidden ones are the text that the page has already.
    """
    if not on.is_drawn_on:
        return []
    width, height = page.get_size()
    everything: Box = (0.0, 0.0, width, height)
    seen = [word for index, word in enumerate(words) if index not in visibility.hidden]
    characters = sum(len(word.text) + 1 for word in seen)
    if characters < FEWEST_CHARACTERS and (not on.pictures or _is_drawing(on)):
        return [everything]
    boxes = [box for box in (clipped_box(box, width=width, height=height) for box in on.pictures) if area(box) > 0]
    if len(boxes) > _MOST_PICTURES:
        boxes = [enclosing(boxes)]
    laid = [word for index, word in enumerate(words) if index in visibility.laid]
    return [
        box
        for box in _merged(boxes)
        if _may_have_text(box) and not _was_read(box, laid, page=area(everything)) and _shows_more(page, box, seen)
    ]


def _is_drawing(on: PageObjects) -> bool:
    return len(on.areas) > len(on.pictures)


def _merged(boxes: list[Box]) -> list[Box]:
    """The boxes, with those that touch one another merged."""
    merged: list[Box] = []
    for box in sorted(boxes, key=lambda box: (box[1], box[0])):
        grown, apart = box, []
        for other in merged:
            if _touch(grown, other):
                grown = enclosing([grown, other])
            else:
                apart.append(other)
        merged = [*apart, grown]
    return sorted(merged, key=lambda box: (box[1], box[0]))


def _touch(a: Box, b: Box) -> bool:
    return (
        a[0] <= b[2] + _TOUCHING and b[0] <= a[2] + _TOUCHING and a[1] <= b[3] + _TOUCHING and b[1] <= a[3] + _TOUCHING
    )


def _may_have_text(box: Box) -> bool:
    return box[2] - box[0] >= _LEAST[0] and box[3] - box[1] >= _LEAST[1] and area(box) >= _LEAST_AREA


def _was_read(box: Box, laid: Sequence[LayerWord], *, page: float) -> bool:
    """Return true if a scanner's recognition left invisible words on the box, as many as text would have."""
    characters = sum(len(word.text) + 1 for word in laid if contains(box, word.box))
    return characters >= max(FEWEST_OVER_A_SCAN * area(box) / page, 1)


def _shows_more(page: pypdfium2.PdfPage, box: Box, words: Sequence[LayerWord]) -> bool:
    """Return true if there is ink where no word is."""
    within = [word for word in words if contains(box, word.box)]
    if not within:
        return True
    scale = min(_DPI / 72, (2_000_000 / area(box)) ** 0.5)
    picture = render(page, scale=scale, box=box)
    ink = np.abs(picture.pixels.astype(np.int16) - np.median(picture.pixels)) > _INK
    for word in within:
        x0, y0, x1, y1 = word.box
        ink[picture.spot((x0 - 1, y0 - 2, x1 + 1, y1 + 2))] = False
    return bool(ink.mean() > _UNREAD_INK)
