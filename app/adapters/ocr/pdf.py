"""A PDF, page by page: its text layer where that can be trusted, else a rendering for OCR.

PDFium is not safe for threads and not safe from every file: only the child process comes here.
"""

from itertools import islice
from pathlib import Path

import pypdfium2
import pypdfium2.raw as pdfium

from app.adapters.ocr.engine import Engine
from app.adapters.ocr.geometry import POINTS_PER_INCH, Box, around, render_dpi
from app.adapters.ocr.scan import read_scan
from app.adapters.ocr.text_layer import TextLayer, is_trustworthy, text_layer
from app.domain.errors import DocumentFault
from app.domain.pages import Page, Source, text_of
from app.domain.warnings import DocumentWarning
from app.ports.ocr import Mode

_MOST_OBJECTS = 20_000
"""Looked at to see what a page consists of; a drawing may have millions."""
_DRAWN = frozenset({pdfium.FPDF_PAGEOBJ_IMAGE, pdfium.FPDF_PAGEOBJ_PATH, pdfium.FPDF_PAGEOBJ_SHADING})


class PdfFile:
    """Raises DocumentFault (encrypted, corrupt, empty)."""

    def __init__(self, path: Path, *, engine: Engine, language: str, dpi: int) -> None:
        self._engine = engine
        self._language = language
        self._dpi = dpi
        try:
            self._document = pypdfium2.PdfDocument(path)
        except pypdfium2.PdfiumError as error:
            raise _why_not_opened(path, error) from error
        self.page_count = len(self._document)
        self.warnings: list[DocumentWarning] = []

    def read(self, number: int, *, mode: Mode) -> Page:
        try:
            page = self._flattened(number)
            try:
                return self._read(page, number=number, mode=mode)
            finally:
                page.close()
        except pypdfium2.PdfiumError as error:
            raise DocumentFault(
                "corrupt", f"Page {number} is damaged: save the document anew and upload it again."
            ) from error

    def close(self) -> None:
        self._document.close()

    def _flattened(self, number: int) -> pypdfium2.PdfPage:
        """The page with what was filled into its form and noted on it: neither is part of the text otherwise."""
        page = self._document[number - 1]
        if pdfium.FPDFPage_GetAnnotCount(page) <= 0:
            return page
        pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY)
        page.close()
        return self._document[number - 1]

    def _read(self, page: pypdfium2.PdfPage, *, number: int, mode: Mode) -> Page:
        width, height = page.get_size()
        if mode is Mode.FORCE:
            return self._scanned(page, number=number)
        layer = text_layer(page, width=width, height=height)
        drawn, coverage = _drawings(page)
        is_blank = layer.characters == 0 and not drawn
        trusted = is_trustworthy(characters=layer.characters, junk=layer.junk, coverage=coverage)
        if mode is Mode.SKIP or is_blank or trusted:
            return self._carried(page, layer, number=number)
        return self._scanned(page, number=number)

    def _carried(self, page: pypdfium2.PdfPage, layer: TextLayer, *, number: int) -> Page:
        return Page(
            number=number,
            text=text_of(layer.words),
            source=Source.TEXT_LAYER,
            confidence=1.0 if layer.words else None,
            width=round(page.get_width(), 2),
            height=round(page.get_height(), 2),
            rotation=page.get_rotation(),
            language=self._language,
            words=layer.words,
        )

    def _scanned(self, page: pypdfium2.PdfPage, *, number: int) -> Page:
        width, height = page.get_size()
        dpi = render_dpi(width=width, height=height, wanted=self._dpi)
        bitmap = page.render(scale=dpi / POINTS_PER_INCH, grayscale=True, limit_image_cache=True)
        try:
            # A copy: the bitmap's memory is PDFium's and goes with it.
            image = bitmap.to_pil().copy()
        finally:
            bitmap.close()
        return read_scan(
            self._engine,
            image,
            number=number,
            size=(width, height),
            rotation=page.get_rotation(),
            language=self._language,
            dpi=dpi,
        )


def _drawings(page: pypdfium2.PdfPage) -> tuple[bool, float]:
    """Whether anything but text is drawn, and the share of the page that images cover (overlaps count twice)."""
    left, bottom, right, top = page.get_bbox()
    area = max((right - left) * (top - bottom), 1)
    drawn, covered = False, 0.0
    for thing in islice(page.get_objects(), _MOST_OBJECTS):
        drawn = drawn or thing.type in _DRAWN
        if thing.type == pdfium.FPDF_PAGEOBJ_IMAGE:
            x0, y0, x1, y1 = _bounds_on_page(thing)
            covered += max(min(x1, right) - max(x0, left), 0) * max(min(y1, top) - max(y0, bottom), 0)
    return drawn, min(covered / area, 1.0)


def _bounds_on_page(thing: pypdfium2.PdfObject) -> Box:
    """A form's contents are measured in the form's own space, and a form may hold forms."""
    box: Box = thing.get_bounds()
    form = thing.container
    while form is not None:
        matrix = form.get_matrix()
        corners = [matrix.on_point(x, y) for x in box[::2] for y in box[1::2]]
        box = around([(x, y, x, y) for x, y in corners])
        form = form.container
    return box


def _why_not_opened(path: Path, error: pypdfium2.PdfiumError) -> DocumentFault:
    if error.err_code in {pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY}:
        return DocumentFault("encrypted", "The PDF is encrypted: remove its password and upload it again.")
    if _opens_without_pages(path):
        return DocumentFault("empty", "The PDF has no pages: nothing to read.")
    return DocumentFault("corrupt", "The PDF is damaged: save it anew and upload it again.")


def _opens_without_pages(path: Path) -> bool:
    # The error code of the library's wrapper is that of an older failure when a document opens without pages.
    document = pdfium.FPDF_LoadDocument(f"{path}\0".encode(errors="surrogateescape"), None)
    if document:
        pdfium.FPDF_CloseDocument(document)
    return bool(document)
