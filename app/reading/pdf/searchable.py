"""Searchable PDFs: a copy of a PDF, or images as pages, with the recognised text added invisibly.

The content of a PDF's own pages is not changed.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import BinaryIO, Protocol

import pikepdf
from pikepdf import Array, Dictionary, Name, Pdf, Stream

from app.domain.errors import DocumentFault
from app.domain.pages import Page
from app.reading.geometry import Box
from app.reading.image.file import ImageFile
from app.reading.pdf.glyphless_font import GlyphlessFont
from app.reading.pdf.image_embedding import ImageXObject, xobject_of
from app.reading.pdf.invisible_text import text_content

FONT = "/DairaText"
_LETTER = (0.0, 0.0, 612.0, 792.0)
"""The box of a page without a size, as in PDFium."""
_DEEPEST = 50
"""Levels of the page tree that are searched for a page's inherited values."""
_COORDINATES = 4
_BLAMED_ON_THE_FILE = (
    pikepdf.PdfError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RuntimeError,
    ArithmeticError,
)
"""Exceptions that pikepdf raises on objects of the wrong kind."""


class SearchableCopy(Protocol):
    """A copy that gets its pages' text, and is then saved."""

    def lay(self, page: Page) -> None:
        """Add the page's text to the copy. Pages come in order; those left out get no text."""
        ...

    def save(self, out: BinaryIO) -> None: ...


class PdfCopy:
    """Copies a PDF with its pages' text. Raises DocumentFault (corrupt)."""

    def __init__(self, source: Path | BinaryIO, *, page_count: int) -> None:
        self._glyphs = GlyphlessFont()
        self._laid: list[tuple[pikepdf.Object, str]] = []
        """Pages, and the name of the new font in each."""
        with _faults():
            self._pdf = Pdf.open(source)
            self._pages = list(self._pdf.pages)
        if len(self._pages) != page_count:
            # If PDFium and pikepdf count different pages, no text can be assigned to a page with certainty.
            raise _damaged()

    def lay(self, page: Page) -> None:
        with _faults():
            target = self._pages[page.number - 1].obj
            bounds, rotation, font = _bounds(target), _rotation(target), _free_name(target)
            if content := text_content(page, font=font, glyphs=self._glyphs, bounds=bounds, rotation=rotation):
                _put_first(self._pdf, target, content)
                self._laid.append((target, font))

    def save(self, out: BinaryIO) -> None:
        with _faults():
            _add_font(self._pdf, self._laid, self._glyphs)
            if self._pdf.is_encrypted:
                # The owner's restrictions stay. qpdf has to decode the streams to encrypt them anew.
                self._pdf.save(out, encryption=True, fix_metadata_version=False)
                return
            # Streams are copied without decoding them: that is safe and loses no data.
            raw = pikepdf.StreamDecodeLevel.none
            self._pdf.save(out, compress_streams=False, stream_decode_level=raw, fix_metadata_version=False)


class ImageCopy:
    """Makes a PDF of an image file's frames with their text. Raises DocumentFault (corrupt, too_large)."""

    def __init__(self, file: ImageFile) -> None:
        self._file = file
        self._glyphs = GlyphlessFont()
        self._laid: list[tuple[pikepdf.Object, str]] = []
        self._pdf = Pdf.new()

    def lay(self, page: Page) -> None:
        self._show(page.number)
        target = self._pdf.pages[page.number - 1].obj
        if content := text_content(page, font=FONT, glyphs=self._glyphs, bounds=_bounds(target), rotation=0):
            _put_first(self._pdf, target, content)
            self._laid.append((target, FONT))

    def save(self, out: BinaryIO) -> None:
        self._show(self._file.page_count)
        _add_font(self._pdf, self._laid, self._glyphs)
        self._pdf.save(out, compress_streams=False)

    def _show(self, last: int) -> None:
        """Add all images up to number `last` as pages."""
        for number in range(len(self._pdf.pages) + 1, last + 1):
            with self._file.frame(number) as frame:
                xobject, (width, height) = xobject_of(frame), frame.size
            self._pdf.add_blank_page(page_size=(max(width, 3), max(height, 3)))
            target = self._pdf.pages[-1].obj
            target.Resources = Dictionary(XObject=Dictionary(Image=_image(self._pdf, xobject)))
            matrix = " ".join(f"{value:.3f}" for value in xobject.placed(width, height))
            target.Contents = Stream(self._pdf, f"q {matrix} cm /Image Do Q".encode())


def _image(pdf: Pdf, xobject: ImageXObject) -> pikepdf.Object:
    image = Stream(pdf, xobject.data)
    image.Type, image.Subtype = Name.XObject, Name.Image
    image.Width, image.Height = xobject.width, xobject.height
    image.BitsPerComponent = xobject.bits
    image.ColorSpace = _colours(pdf, xobject)
    image.Filter = Name(xobject.filter)
    if xobject.predicted:
        image.DecodeParms = Dictionary(
            Predictor=15, Colors=xobject.channels, BitsPerComponent=xobject.bits, Columns=xobject.width
        )
    if xobject.inverted:
        image.Decode = Array([1, 0] * 4)
    return pdf.make_indirect(image)


def _colours(pdf: Pdf, xobject: ImageXObject) -> pikepdf.Object:
    space: pikepdf.Object = Name(xobject.colours)
    if xobject.palette is not None:
        return Array([Name.Indexed, space, len(xobject.palette) // 3 - 1, pikepdf.String(xobject.palette)])
    if xobject.profile is not None:
        return Array([Name.ICCBased, Stream(pdf, xobject.profile, N=xobject.channels, Alternate=space)])
    return space


def _put_first(pdf: Pdf, page: pikepdf.Object, content: bytes) -> None:
    """Put the content before the page's own, whose graphics state can't be relied on."""
    own = page.get(Name.Contents)
    streams = list(own) if isinstance(own, Array) else [own] if isinstance(own, Stream) else []
    page.Contents = Array([pdf.make_indirect(Stream(pdf, content)), *streams])


def _add_font(pdf: Pdf, pages: list[tuple[pikepdf.Object, str]], glyphs: GlyphlessFont) -> None:
    """Add the font to the pages, at the end, when all its characters are known.

    Pages may share their resources, so each gets a copy.
    """
    font = glyphs.embedded(pdf)
    for page, name in pages:
        resources = _copied(_inherited(page, Name.Resources))
        resources.Font = _copied(resources.get(Name.Font))
        resources.Font[name] = font
        page.Resources = resources


def _free_name(page: pikepdf.Object) -> str:
    fonts = _copied(_copied(_inherited(page, Name.Resources)).get(Name.Font))
    return next(name for number in count() if (name := f"{FONT}{number or ''}") not in fonts)


def _copied(value: pikepdf.Object | None) -> pikepdf.Object:
    return copy.copy(value) if isinstance(value, Dictionary) else Dictionary()


def _bounds(page: pikepdf.Object) -> Box:
    """The visible part of the page, in PDF space."""
    media = _box(page, Name.MediaBox) or _LETTER
    crop = _box(page, Name.CropBox) or media
    return (max(media[0], crop[0]), max(media[1], crop[1]), min(media[2], crop[2]), min(media[3], crop[3]))


def _box(page: pikepdf.Object, name: Name) -> Box | None:
    corners = _inherited(page, name)
    if not isinstance(corners, Array) or len(corners) != _COORDINATES:
        return None
    x0, y0, x1, y1 = (float(value) for value in corners)
    box = (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
    return box if box[0] < box[2] and box[1] < box[3] else None


def _rotation(page: pikepdf.Object) -> int:
    turns = _inherited(page, Name.Rotate)
    return int(int(turns) / 90) % 4 * 90 if turns is not None else 0


def _inherited(page: pikepdf.Object, name: Name) -> pikepdf.Object | None:
    node: pikepdf.Object | None = page
    for _ in range(_DEEPEST):
        if not isinstance(node, Dictionary):
            return None
        if name in node:
            return node[name]
        node = node.get(Name.Parent)
    return None


@contextmanager
def _faults() -> Iterator[None]:
    """Turn pikepdf's exceptions on malformed files into DocumentFault (corrupt)."""
    try:
        yield
    except _BLAMED_ON_THE_FILE as error:
        raise _damaged() from error


def _damaged() -> DocumentFault:
    return DocumentFault("corrupt", "The PDF is damaged: save it anew and upload it again.")
