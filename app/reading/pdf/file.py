"""A PDF, page by page: the text that a reader of the page sees, from its text layer if it is right, else by OCR.

PDFium is not thread-safe and a file may crash it, so this module runs only in child processes.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image

from app.domain.errors import DocumentFault
from app.domain.pages import Page, Source, Word, confidence_of, source_of, text_of
from app.domain.warnings import WarningCode
from app.ports.reading import Mode
from app.reading.engine import OcrEngine, RecognizedWord, RenderFiner
from app.reading.geometry import POINTS_PER_INCH, Box, render_dpi
from app.reading.image.scan import read_scan
from app.reading.pdf.embedded_images import EmbeddedImages
from app.reading.pdf.font_check import FontCheck
from app.reading.pdf.hidden_text import visibility_of
from app.reading.pdf.ocr_regions import ocr_regions
from app.reading.pdf.opening import open_document, warnings_about
from app.reading.pdf.page_assembly import merged_words, with_blocks, without_duplicates
from app.reading.pdf.page_objects import objects_of
from app.reading.pdf.rendering import page_image, render
from app.reading.pdf.text_layer import text_layer
from app.reading.sandbox import CpuTimeLimit

_JUNK_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _LayerJudgement:
    """The visible words of a page's text layer, and the regions that OCR has to read."""

    words: list[Word]
    regions: list[Box]
    warnings: tuple[WarningCode, ...]
    is_trusted: bool


class PdfFile:
    """Reads and draws the pages of one PDF. Raises DocumentFault (encrypted, corrupt, empty)."""

    def __init__(
        self,
        path: Path,
        *,
        engine: OcrEngine,
        font_engine: OcrEngine,
        cpu_limit: CpuTimeLimit,
        language: str,
        dpi: int,
    ) -> None:
        """`engine` reads pages and pictures. `font_engine` reads samples of fonts, of a few letters each."""
        self._engine = _UnlimitedEngine(engine, cpu_limit)
        self._cpu_limit = cpu_limit
        self._language = language
        self._dpi = dpi
        self._fonts = FontCheck(_UnlimitedEngine(font_engine, cpu_limit), language=language)
        self._pictures = EmbeddedImages(self._engine, language=language)
        with self._cpu_limit.counting():
            self._document, self.repaired = open_document(path)
            """The repaired bytes of the file; None if it opened unchanged."""
            self.page_count = len(self._document)
            self.warnings = list(warnings_about(self._document, repaired=self.repaired is not None))

    def read(self, number: int, *, mode: Mode) -> Page:
        try:
            with self._cpu_limit.counting():
                page = self._flattened(number)
                try:
                    return self._read(page, number=number, mode=mode)
                finally:
                    page.close()
        except pypdfium2.PdfiumError as error:
            raise _damaged_page(number) from error

    def page_image(self, number: int, *, width: int) -> Image.Image:
        """The page as displayed, in colour."""
        try:
            with self._cpu_limit.counting():
                page = self._flattened(number)
                try:
                    return page_image(page, width=width)
                finally:
                    page.close()
        except pypdfium2.PdfiumError as error:
            raise _damaged_page(number) from error

    def close(self) -> None:
        self._document.close()

    def _flattened(self, number: int) -> pypdfium2.PdfPage:
        """The page with form fields and annotations merged into it; otherwise they are not part of its text."""
        page = self._document[number - 1]
        if pdfium.FPDFPage_GetAnnotCount(page) <= 0:
            return page
        pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY)
        page.close()
        return self._document[number - 1]

    def _read(self, page: pypdfium2.PdfPage, *, number: int, mode: Mode) -> Page:
        if mode is Mode.FORCE:
            return self._scanned(page, number=number, warnings=())
        layer = self._layer(page, mode=mode)
        if not layer.is_trusted:
            return self._scanned(page, number=number, warnings=layer.warnings)
        if not layer.regions:
            return self._made_of(layer.words, page, number=number, warnings=layer.warnings)
        if not layer.words and layer.regions == [_whole(page)]:
            return self._scanned(page, number=number, warnings=layer.warnings)
        return self._mixed(page, layer, number=number)

    def _layer(self, page: pypdfium2.PdfPage, *, mode: Mode) -> _LayerJudgement:
        textpage = page.get_textpage()
        try:
            layer = text_layer(page, textpage)
            on = objects_of(page)
            seen = visibility_of(page, textpage, layer, on=on)
        finally:
            textpage.close()
        shown = layer.words
        if seen.hidden:
            shown = [word for index, word in enumerate(layer.words) if index not in seen.hidden]
        warnings = (WarningCode.HIDDEN_TEXT,) if seen.hidden or layer.has_more else ()
        if mode is Mode.SKIP:
            return _LayerJudgement(words=with_blocks(shown), regions=[], warnings=warnings, is_trusted=True)
        if layer.junk_share >= _JUNK_SHARE or self._fonts.are_bad(page, shown):
            untrusted = (*warnings, WarningCode.TEXT_LAYER_UNTRUSTED)
            return _LayerJudgement(words=[], regions=[], warnings=untrusted, is_trusted=False)
        regions = ocr_regions(page, layer.words, visibility=seen, on=on)
        return _LayerJudgement(words=with_blocks(shown), regions=regions, warnings=warnings, is_trusted=True)

    def _mixed(self, page: pypdfium2.PdfPage, layer: _LayerJudgement, *, number: int) -> Page:
        found: list[Word] = []
        warnings = layer.warnings
        for region in layer.regions:
            dpi = render_dpi(width=region[2] - region[0], height=region[3] - region[1], wanted=self._dpi)
            warnings = _reduced(warnings, dpi=dpi, wanted=self._dpi)
            # Paint known words over: half of one at an edge would be read as another word.
            picture = render(page, scale=dpi / POINTS_PER_INCH, box=region).without(word.box for word in layer.words)
            found += self._pictures.words(picture, within=region, after=found, dpi=dpi)
        words = merged_words(layer.words, without_duplicates(found, beside=layer.words), regions=layer.regions)
        return self._made_of(words, page, number=number, warnings=warnings)

    def _made_of(
        self,
        words: "list[Word] | tuple[Word, ...]",
        page: pypdfium2.PdfPage,
        *,
        number: int,
        warnings: tuple[WarningCode, ...],
    ) -> Page:
        return Page(
            number=number,
            text=text_of(words),
            source=source_of(words, otherwise=Source.TEXT_LAYER),
            confidence=confidence_of(words),
            width=round(page.get_width(), 2),
            height=round(page.get_height(), 2),
            rotation=page.get_rotation(),
            language=self._language,
            words=tuple(words),
            warnings=warnings,
        )

    def _scanned(self, page: pypdfium2.PdfPage, *, number: int, warnings: tuple[WarningCode, ...]) -> Page:
        width, height = page.get_size()
        dpi = render_dpi(width=width, height=height, wanted=self._dpi)
        read = read_scan(
            self._engine,
            render(page, scale=dpi / POINTS_PER_INCH).image,
            number=number,
            size=(width, height),
            rotation=page.get_rotation(),
            language=self._language,
            dpi=dpi,
            # Small letters may be sharper in the file's scan than in a rendering at 200 dpi.
            finer=lambda times: render(page, scale=times * dpi / POINTS_PER_INCH).image,
        )
        return replace(read, warnings=(*read.warnings, *_reduced(warnings, dpi=dpi, wanted=self._dpi)))


class _UnlimitedEngine:
    """Wraps an engine so that its CPU time does not count towards PDFium's limit."""

    def __init__(self, engine: OcrEngine, cpu_limit: CpuTimeLimit) -> None:
        self._engine = engine
        self._cpu_limit = cpu_limit

    def words(
        self, image: Image.Image, *, language: str, dpi: int, finer: RenderFiner | None = None
    ) -> list[RecognizedWord]:
        def limited(times: float) -> Image.Image:
            assert finer is not None, "the engine got `limited` only if there is a `finer`"
            with self._cpu_limit.counting():
                return finer(times)

        with self._cpu_limit.paused():
            return self._engine.words(image, language=language, dpi=dpi, finer=limited if finer is not None else None)


def _damaged_page(number: int) -> DocumentFault:
    return DocumentFault("corrupt", f"Page {number} is damaged: save the document anew and upload it again.")


def _whole(page: pypdfium2.PdfPage) -> Box:
    width, height = page.get_size()
    return (0.0, 0.0, width, height)


def _reduced(warnings: tuple[WarningCode, ...], *, dpi: int, wanted: int) -> tuple[WarningCode, ...]:
    if dpi >= wanted or WarningCode.RESOLUTION_REDUCED in warnings:
        return warnings
    return (*warnings, WarningCode.RESOLUTION_REDUCED)
