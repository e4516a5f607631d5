"""A copy of a document as a PDF with what was read in it: the file's own pages, untouched, or its images as pages."""

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
from app.reading.pdf.image_embedding import ImageXObject, image_xobject
from app.reading.pdf.invisible_text import invisible_text

FONT = "/DairaText"
_LETTER = (0.0, 0.0, 612.0, 792.0)
"""The size of a page that does not say its own; PDFium assumes the same."""
_DEEPEST = 50
"""Levels of the page tree that are climbed for what a page inherits."""
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
"""Exceptions that pikepdf raises on malformed objects."""


class SearchableCopy(Protocol):
    def lay(self, page: Page) -> None:
        """Set the page's text upon it. Pages come in order; those left out have none."""
        ...

    def save(self, out: BinaryIO) -> None: ...


class PdfCopy:
    """Raises DocumentFault (corrupt)."""

    def __init__(self, source: Path | BinaryIO, *, page_count: int) -> None:
        self._glyphs = GlyphlessFont()
        self._laid: list[tuple[pikepdf.Object, str]] = []
        """Pages, and what their new font is called there."""
        with _faults():
            self._pdf = Pdf.open(source)
            self._pages = list(self._pdf.pages)
        if len(self._pages) != page_count:
            # Whose pages are counted in two ways has no page that a text certainly belongs to.
            raise _damaged()

    def lay(self, page: Page) -> None:
        with _faults():
            target = self._pages[page.number - 1].obj
            bounds, rotation, font = _bounds(target), _rotation(target), _free_name(target)
            if content := invisible_text(page, font=font, glyphs=self._glyphs, bounds=bounds, rotation=rotation):
                _put_first(self._pdf, target, content)
                self._laid.append((target, font))

    def save(self, out: BinaryIO) -> None:
        with _faults():
            _add_font(self._pdf, self._laid, self._glyphs)
            if self._pdf.is_encrypted:
                # What its owner forbids stays forbidden. qpdf has to open the streams to encrypt them anew.
                self._pdf.save(out, encryption=True, fix_metadata_version=False)
                return
            # Streams as they are: what is not looked at can do no harm, and nothing of it is lost.
            raw = pikepdf.StreamDecodeLevel.none
            self._pdf.save(out, compress_streams=False, stream_decode_level=raw, fix_metadata_version=False)


class ImageCopy:
    """Raises DocumentFault (corrupt, too_large)."""

    def __init__(self, file: ImageFile) -> None:
        self._file = file
        self._glyphs = GlyphlessFont()
        self._laid: list[tuple[pikepdf.Object, str]] = []
        self._pdf = Pdf.new()

    def lay(self, page: Page) -> None:
        self._show(page.number)
        target = self._pdf.pages[page.number - 1].obj
        if content := invisible_text(page, font=FONT, glyphs=self._glyphs, bounds=_bounds(target), rotation=0):
            _put_first(self._pdf, target, content)
            self._laid.append((target, FONT))

    def save(self, out: BinaryIO) -> None:
        self._show(self._file.page_count)
        _add_font(self._pdf, self._laid, self._glyphs)
        self._pdf.save(out, compress_streams=False)

    def _show(self, last: int) -> None:
        """Have all images up to that one as pages."""
        for number in range(len(self._pdf.pages) + 1, last + 1):
            with self._file.frame(number) as frame:
                plate, (width, height) = image_xobject(frame), frame.size
            self._pdf.add_blank_page(page_size=(max(width, 3), max(height, 3)))
            target = self._pdf.pages[-1].obj
            target.Resources = Dictionary(XObject=Dictionary(Image=_image(self._pdf, plate)))
            matrix = " ".join(f"{value:.3f}" for value in plate.placed(width, height))
            target.Contents = Stream(self._pdf, f"q {matrix} cm /Image Do Q".encode())


def _image(pdf: Pdf, plate: ImageXObject) -> pikepdf.Object:
    image = Stream(pdf, plate.data)
    image.Type, image.Subtype = Name.XObject, Name.Image
    image.Width, image.Height = plate.width, plate.height
    image.BitsPerComponent = plate.bits
    image.ColorSpace = _colours(pdf, plate)
    image.Filter = Name(plate.filter)
    if plate.predicted:
        image.DecodeParms = Dictionary(
            Predictor=15, Colors=plate.channels, BitsPerComponent=plate.bits, Columns=plate.width
        )
    if plate.inverted:
        image.Decode = Array([1, 0] * 4)
    return pdf.make_indirect(image)


def _colours(pdf: Pdf, plate: ImageXObject) -> pikepdf.Object:
    space: pikepdf.Object = Name(plate.colours)
    if plate.palette is not None:
        return Array([Name.Indexed, space, len(plate.palette) // 3 - 1, pikepdf.String(plate.palette)])
    if plate.profile is not None:
        return Array([Name.ICCBased, Stream(pdf, plate.profile, N=plate.channels, Alternate=space)])
    return space


def _put_first(pdf: Pdf, page: pikepdf.Object, content: bytes) -> None:
    """Ahead of the page's own content, whose graphics state is nobody's to rely on."""
    own = page.get(Name.Contents)
    streams = list(own) if isinstance(own, Array) else [own] if isinstance(own, Stream) else []
    page.Contents = Array([pdf.make_indirect(Stream(pdf, content)), *streams])


def _add_font(pdf: Pdf, pages: list[tuple[pikepdf.Object, str]], glyphs: GlyphlessFont) -> None:
    """At the end, when all its characters are known. Pages may share their resources: each gets its own."""
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
    """The displayed box of the page, in PDF space."""
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
    """Turn pikepdf's exceptions on a malformed file into a fault of the file."""
    try:
        yield
    except _BLAMED_ON_THE_FILE as error:
        raise _damaged() from error


def _damaged() -> DocumentFault:
    return DocumentFault("corrupt", "The PDF is damaged: save it anew and upload it again.")
