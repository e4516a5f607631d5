"""The objects that a PDF page draws besides text, in order: pictures, and areas that may hide text."""

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import pypdfium2
import pypdfium2.raw as pdfium

from app.reading.geometry import Box, displayed_box, enclosing
from app.reading.pdf import pdfium_calls

_MOST_OBJECTS = 20_000
"""Objects of a page that are inspected at most. A drawing may have millions."""
_MOST_AREAS = 2_000
_DEEPEST = 8
"""Levels of forms within forms that are entered."""
_LEAST_SIDE = 3.0
"""Points of a side below which an area is a line and covers no word."""
_DRAWN = frozenset({pdfium.FPDF_PAGEOBJ_IMAGE, pdfium.FPDF_PAGEOBJ_PATH, pdfium.FPDF_PAGEOBJ_SHADING})
_OPAQUE = 255

Matrix = tuple[float, float, float, float, float, float]
Colour = tuple[int, int, int]

_SAME: Matrix = (1, 0, 0, 1, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaintedArea:
    """A filled area or a picture."""

    order: int
    box: Box
    """The area's box on the displayed page."""
    colour: Colour | None
    """The area's colour; None if it has several or it is unknown."""
    is_solid: bool
    """True for an opaque rectangle, which hides all objects under it."""


@dataclass(slots=True)
class PageObjects:
    """The pictures and areas of a page, and the drawing order of its text."""

    is_drawn_on: bool = False
    """True if the page draws more than text."""
    pictures: list[Box] = field(default_factory=list)
    """The boxes of pictures on the displayed page."""
    areas: list[PaintedArea] = field(default_factory=list)
    """Areas in drawing order, pictures included."""
    order: dict[int, int] = field(default_factory=dict)
    """The drawing order of text objects by address, in the same count as that of areas."""
    veiled: set[int] = field(default_factory=set)
    """Text objects within forms that are drawn with transparency as a whole."""


def objects_of(page: pypdfium2.PdfPage) -> PageObjects:
    return _ObjectWalker(page).objects()


def colour_of(thing: int, *, stroke: bool = False) -> tuple[Colour | None, int]:
    """The colour that an object is painted with (None for a pattern), and its alpha."""
    parts = (ctypes.c_uint * 4)()
    at = ctypes.addressof(parts)
    get = pdfium_calls.get_stroke if stroke else pdfium_calls.get_fill
    if not get(thing, at, at + 4, at + 8, at + 12):
        return None, _OPAQUE
    red, green, blue, alpha = parts[:]
    return (red, green, blue), alpha


def is_clipped(thing: int) -> bool:
    clip = pdfium_calls.get_clip(thing)
    return bool(clip) and pdfium_calls.count_clips(clip) > 0


class _ObjectWalker:
    """Walks a page's objects, forms included, and collects what they paint."""

    def __init__(self, page: pypdfium2.PdfPage) -> None:
        self._page = pdfium_calls.address_of(page.raw)
        self._bounds, self._rotation = page.get_bbox(), page.get_rotation()
        self._found = PageObjects()
        self._seen = 0

    def objects(self) -> PageObjects:
        things = (pdfium_calls.get_object(self._page, index) for index in range(pdfium_calls.count_objects(self._page)))
        self._walk(things, matrix=_SAME, depth=0, veiled=False)
        return self._found

    def _walk(self, things: Iterator[int], *, matrix: Matrix, depth: int, veiled: bool) -> None:
        for thing in things:
            self._seen += 1
            if self._seen > _MOST_OBJECTS:
                return
            kind = pdfium_calls.get_type(thing or 0)
            if kind == pdfium.FPDF_PAGEOBJ_TEXT:
                self._found.order[thing] = self._seen
                if veiled:
                    self._found.veiled.add(thing)
            elif kind == pdfium.FPDF_PAGEOBJ_FORM:
                if depth < _DEEPEST:
                    self._enter(thing, matrix=matrix, depth=depth, veiled=veiled)
            elif kind in _DRAWN:
                self._found.is_drawn_on = True
                self._note(thing, kind, matrix)

    def _enter(self, form: int, *, matrix: Matrix, depth: int, veiled: bool) -> None:
        things = (
            pdfium_calls.get_form_object(form, index) for index in range(max(pdfium_calls.count_form_objects(form), 0))
        )
        veiled = veiled or pdfium_calls.has_transparency(form) == 1
        self._walk(things, matrix=_product(_matrix_of(form), matrix), depth=depth + 1, veiled=veiled)

    def _note(self, thing: int, kind: int, matrix: Matrix) -> None:
        box = self._box(thing, matrix)
        if kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            self._found.pictures.append(box)
        if min(box[2] - box[0], box[3] - box[1]) < _LEAST_SIDE or len(self._found.areas) >= _MOST_AREAS:
            return
        if kind != pdfium.FPDF_PAGEOBJ_PATH:
            self._found.areas.append(PaintedArea(order=self._seen, box=box, colour=None, is_solid=False))
        elif _is_filled(thing):
            colour, alpha = colour_of(thing)
            is_whole = alpha == _OPAQUE and pdfium_calls.has_transparency(thing) != 1 and not is_clipped(thing)
            is_solid = colour is not None and is_whole and _is_upright(matrix) and _is_rectangle(thing)
            self._found.areas.append(PaintedArea(order=self._seen, box=box, colour=colour, is_solid=is_solid))

    def _box(self, thing: int, matrix: Matrix) -> Box:
        """The object's box on the displayed page. PDFium gives bounds in the space of the form that holds it."""
        edges = (ctypes.c_float * 4)()
        at = ctypes.addressof(edges)
        pdfium_calls.get_bounds(thing, at, at + 4, at + 8, at + 12)
        box: Box = tuple(edge if math.isfinite(edge) else 0.0 for edge in edges)  # type: ignore[assignment] # four
        if matrix is not _SAME:
            a, b, c, d, e, f = matrix
            corners = [(a * x + c * y + e, b * x + d * y + f) for x in box[::2] for y in box[1::2]]
            box = enclosing([(x, y, x, y) for x, y in corners])
        return displayed_box(box, bounds=self._bounds, rotation=self._rotation)


def _matrix_of(thing: int) -> Matrix:
    parts = (ctypes.c_float * 6)(*_SAME)
    pdfium_calls.get_matrix(thing, ctypes.addressof(parts))
    a, b, c, d, e, f = parts
    return (a, b, c, d, e, f)


def _is_upright(matrix: Matrix) -> bool:
    """Return true if the matrix does not turn, or by quarter circles only."""
    a, b, c, d, _, _ = matrix
    return a == d == 0 or b == c == 0


def _product(inner: Matrix, outer: Matrix) -> Matrix:
    """The matrix that applies the inner one, then the outer one."""
    a, b, c, d, e, f = inner
    p, q, r, s, t, u = outer
    return (a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u)


def _is_filled(path: int) -> bool:
    modes = (ctypes.c_int * 2)()
    at = ctypes.addressof(modes)
    return pdfium_calls.get_draw_mode(path, at, at + 4) == 1 and modes[0] != pdfium.FPDF_FILLMODE_NONE


def _is_rectangle(path: int) -> bool:
    """Return true for an upright rectangle. Its corners are checked: a diagonal stroke has the same bounds."""
    count = pdfium_calls.count_segments(path)
    if not (4 <= count <= 6 and _is_upright(_matrix_of(path))):  # noqa: PLR2004 - corners, and the way back
        return False
    point = (ctypes.c_float * 2)()
    at = ctypes.addressof(point)
    corners = set()
    for index in range(count):
        pdfium_calls.get_point(pdfium_calls.get_segment(path, index), at, at + 4)
        corners.add((round(point[0], 2), round(point[1], 2)))
    xs, ys = {x for x, _ in corners}, {y for _, y in corners}
    return len(corners) == 4 and len(xs) == 2 and len(ys) == 2  # noqa: PLR2004 - two sides either way
