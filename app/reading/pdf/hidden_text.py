"""Words of a text layer that a reader of the page can't see: in the ground's colour, covered, tiny or turned off.

Most words are plainly visible: dark, opaque, on a known light ground. For the others two renderings are compared, with
them and without them; words that make no difference are hidden. Invisible text over ink is kept, because scanners store
their own recognition in that way.
"""

import ctypes
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pypdfium2
import pypdfium2.raw as pdfium

from app.reading.geometry import Box, enclosing
from app.reading.pdf import pdfium_calls
from app.reading.pdf.page_objects import Colour, PageObjects, colour_of, is_clipped
from app.reading.pdf.rendering import RenderedPage, render
from app.reading.pdf.text_layer import LayerWord, TextLayer

_UNPAINTED = frozenset({pdfium.FPDF_TEXTRENDERMODE_INVISIBLE, pdfium.FPDF_TEXTRENDERMODE_CLIP})
_OUTLINED = frozenset({pdfium.FPDF_TEXTRENDERMODE_STROKE, pdfium.FPDF_TEXTRENDERMODE_STROKE_CLIP})
_SWITCH = "OC\0".encode("utf-16-le")
"""The tag of content that belongs to an optional layer."""
_WHITE: Colour = (255, 255, 255)
_OPAQUE = 255
_PLAIN = 64
"""Levels, in some channel, between a text and its ground from which it is taken for visible without a rendering."""
_SEEN = 24
"""Levels by which a pixel must differ to be visible. Paler text can't be read."""
_SEEN_SHARE = 0.01
"""Share of the pixels of a word's box that must be visible. The thinnest letters fill a tenth of it."""
_INK = 60
"""Levels between the dark and the light parts of a box from which it has ink."""
_TINY = 2.2
"""Points of height with ascenders and descenders. The smallest print in use has 4."""
_BRIGHTNESS = np.array([0.114, 0.587, 0.299])
"""Weights of blue, green and red (ITU-R BT.601)."""
_MOST_PIXELS = 6_000_000
_LETTER = 12
"""Height of a word in pixels that the renderings aim at."""

_Pixels = npt.NDArray[np.int16]
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class WordVisibility:
    """The indices of words that are hidden, or that lie invisibly over ink."""

    hidden: frozenset[int]
    laid: frozenset[int]
    """Words that are not painted themselves, but lie over ink that shows them."""


_ALL_VISIBLE = WordVisibility(hidden=frozenset(), laid=frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class _TextPaint:
    """The paint of a text object."""

    colour: Colour | None
    is_painted: bool
    is_odd: bool
    """True if it is transparent, clipped or switchable, so that only a rendering shows if it is visible."""


_UNKNOWN_PAINT = _TextPaint(colour=(0, 0, 0), is_painted=True, is_odd=False)
"""Assumed for text without a PDFium text object. It can't be left out of a comparison rendering."""


def visibility_of(
    page: pypdfium2.PdfPage, textpage: pypdfium2.PdfTextPage, layer: TextLayer, *, on: PageObjects
) -> WordVisibility:
    words = layer.words
    if not words:
        return _ALL_VISIBLE
    things = _TextObjects(words, textpage, on=on)
    doubtful = np.flatnonzero(_doubtful(layer, things, on=on) & ~things.tiny)
    hidden: set[int] = set(np.flatnonzero(things.tiny).tolist())
    laid: set[int] = set()
    if doubtful.size:
        pictures = _rendering_pair(page, [words[index] for index in doubtful])
        for index in doubtful.tolist():
            box = words[index].box
            if not things.painted[index]:
                (laid if pictures.has_ink(box) else hidden).add(index)
            elif not pictures.shows(box):
                hidden.add(index)
    return WordVisibility(hidden=frozenset(hidden), laid=frozenset(laid))


class _TextObjects:
    """Arrays of the words' properties, taken from the few text objects that draw them."""

    def __init__(self, words: list[LayerWord], textpage: pypdfium2.PdfTextPage, *, on: PageObjects) -> None:
        firsts = {word.thing: word.start for word in reversed(words)}
        places = {thing: place for place, thing in enumerate(firsts)}
        of_words = np.array([places[word.thing] for word in words])
        paints = [_paint_of(thing, veiled=thing in on.veiled) if thing else _UNKNOWN_PAINT for thing in firsts]
        self.order = np.array([on.order.get(thing, 0) for thing in firsts])[of_words]
        self.odd = np.array([paint.is_odd or not paint.is_painted or paint.colour is None for paint in paints])[
            of_words
        ]
        self.painted = np.array([paint.is_painted for paint in paints])[of_words]
        self.inks = np.array([paint.colour or _WHITE for paint in paints], dtype=np.int16)[of_words]
        self.tiny = np.array(_tiny(textpage, firsts.values()))[of_words]


def _paint_of(thing: int, *, veiled: bool) -> _TextPaint:
    mode = pdfium_calls.get_render_mode(thing)
    colour, alpha = colour_of(thing, stroke=mode in _OUTLINED)
    return _TextPaint(
        colour=colour,
        is_painted=mode not in _UNPAINTED,
        is_odd=veiled
        or alpha < _OPAQUE
        or pdfium_calls.has_transparency(thing) == 1
        or is_clipped(thing)
        or _is_switchable(thing),
    )


def _is_switchable(thing: int) -> bool:
    """Return true if the object belongs to a layer that may be turned off."""
    return any(
        _name(pdfium_calls.get_mark(thing, index)) == _SWITCH
        for index in range(min(pdfium_calls.count_marks(thing), 8))
    )


def _name(mark: int) -> bytes:
    """The mark's name; zeros if it is longer than the buffer."""
    name, length = ctypes.create_string_buffer(len(_SWITCH)), ctypes.c_ulong()
    if mark:
        pdfium_calls.get_mark_name(mark, ctypes.addressof(name), len(_SWITCH), ctypes.addressof(length))
    return name.raw


def _tiny(textpage: pypdfium2.PdfTextPage, firsts: Iterable[int]) -> list[bool]:
    """One value a text object: true if it is tiny, by one character with ascenders and descenders.

    A character's own box would not do: a dash is low in any size.
    """
    where = pdfium_calls.address_of(textpage.raw)
    edges = (ctypes.c_float * 4)()
    at = ctypes.addressof(edges)
    small = []
    for first in firsts:
        pdfium_calls.get_loose_box(where, first, at)
        left, top, right, bottom = edges
        small.append(0 < max(abs(right - left), abs(top - bottom)) < _TINY)
    return small


def _doubtful(layer: TextLayer, things: _TextObjects, *, on: PageObjects) -> _Mask:
    """The words that are not plainly visible."""
    x0s, y0s, x1s, y1s = layer.boxes.T
    x, y = (x0s + x1s) / 2, (y0s + y1s) / 2
    odd = things.odd
    contrast = _contrast(things.inks, _WHITE)
    for area in on.areas:
        x0, y0, x1, y1 = area.box
        within = (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)
        if not within.any():
            continue
        odd = odd | (within & (things.order < area.order))
        under = within & (things.order > area.order)
        ground = _contrast(things.inks, area.colour) if area.colour else np.zeros_like(contrast)
        contrast = np.where(under, ground if area.is_solid else np.minimum(contrast, ground), contrast)
    doubtful: _Mask = odd | (contrast < _PLAIN)
    return doubtful


def _contrast(inks: _Pixels, ground: Colour) -> _Pixels:
    levels: _Pixels = np.abs(inks - np.array(ground, dtype=np.int16)).max(axis=1)
    return levels


class _ComparisonRenderings:
    """Compares two renderings of a part of the page, with certain words and without them."""

    def __init__(self, shown: RenderedPage, without: RenderedPage) -> None:
        apart = np.abs(shown.pixels.astype(np.int16) - without.pixels)
        # Colours of equal brightness differ visibly, too, but half as much: dark blue can't be seen on black.
        self._difference = np.maximum(apart @ _BRIGHTNESS, apart.max(axis=2) / 2)
        self._without = without

    def shows(self, box: Box) -> bool:
        spot = self._difference[self._without.spot(box)]
        return bool(spot.size) and float((spot >= _SEEN).mean()) >= _SEEN_SHARE

    def has_ink(self, box: Box) -> bool:
        spot = self._without.pixels[self._without.spot(box)]
        if not spot.size:
            return False
        dark, light = np.percentile(spot.max(axis=2), (5, 95))
        return bool(light - dark >= _INK)


def _rendering_pair(page: pypdfium2.PdfPage, words: list[LayerWord]) -> _ComparisonRenderings:
    x0, y0, x1, y1 = enclosing([word.box for word in words])
    box = (x0 - 2, y0 - 2, x1 + 2, y1 + 2)
    low = sorted(max(word.box[3] - word.box[1], 1) for word in words)[len(words) // 4]
    most = math.sqrt(_MOST_PIXELS / max((box[2] - box[0]) * (box[3] - box[1]), 1))
    scale = min(max(_LETTER / low, 1.0), 4.0, most)
    things = {word.thing for word in words if word.thing}
    shown = render(page, scale=scale, box=box, colour=True)
    for thing in things:
        pdfium_calls.set_active(thing, 0)
    try:
        without = render(page, scale=scale, box=box, colour=True)
    finally:
        for thing in things:
            pdfium_calls.set_active(thing, 1)
    return _ComparisonRenderings(shown, without)
