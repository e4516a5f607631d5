"""A check of a PDF's fonts: some words of each are recognised and compared with the text layer.

A font that maps its glyphs to wrong characters yields fluent nonsense, which looks like text in an unknown language.
Only words that Tesseract reads differently with certainty count against a font.
"""

import ctypes
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image

from app.reading.engine import OcrEngine, RecognizedWord
from app.reading.geometry import Box, enclosing
from app.reading.pdf import pdfium_calls
from app.reading.pdf.rendering import RenderedPage, render
from app.reading.pdf.text_layer import LayerWord

_MOST_CHECKS = 30
"""Fonts of one file that are checked at most, because some writers embed fonts anew on every page."""
_FEWEST = 8
"""Characters of words that a font must draw to be checked. A heading has as many, a page number has fewer."""
_SHORTEST = 3
"""Characters of a word that is compared, at least."""
_MOST_RUNS = 3
_LONGEST_RUN = 24
"""Characters of a run at most. Reading them takes Tesseract 25 ms, and they suffice to detect a cipher."""
_SURE = 0.7
"""Least confidence of text that was read differently. Clean print has 0.9 and more, an unknown script 0.5."""
_ALIKE = 0.6
_UNLIKE = 0.4
"""Share of equal letters. Small print read by OCR has 0.8 and more, a cipher less than 0.2."""
_CAPITAL = 32
"""Height of a capital letter of the sample in pixels."""
_MARGIN = 40
_DPI = 300
_WIDEST = 2400
_PROBES = "aeginorstALNSTW0158"
_DRAWN_PROBES = "aens"
_BAD_SHARE = 0.1

_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Adjacent words of one line."""

    text: str
    box: Box


class FontCheck:
    """Checks the fonts of one file, each once, on the first page with enough text in it."""

    def __init__(self, engine: OcrEngine, *, language: str) -> None:
        self._engine = engine
        self._language = language
        self._is_bad: dict[_Key, bool] = {}

    def are_bad(self, page: pypdfium2.PdfPage, words: Sequence[LayerWord]) -> bool:
        """Return true if fonts with wrong characters draw a heading, or so much that the page's text is unreliable."""
        # A handle is valid for one page: the next may have another font at the same address.
        fonts = {thing: pdfium_calls.get_font(thing) or 0 for thing in {word.thing for word in words} if thing}
        known_by = {font: _fingerprint(font) for font in set(fonts.values()) if font}
        if all(self._is_bad.get(key) is False for key in known_by.values()):
            return False
        by_font: dict[int, list[LayerWord]] = {font: [] for font in known_by}
        for word in words:
            if font := fonts.get(word.thing):
                by_font[font].append(word)
        bad = sum(_letters(drawn) for font, drawn in by_font.items() if self._is_wrong(page, known_by[font], drawn))
        return bad > 0 and (bad >= _FEWEST or bad > _BAD_SHARE * _letters(words))

    def _is_wrong(self, page: pypdfium2.PdfPage, known_by: _Key, words: list[LayerWord]) -> bool:
        if known_by in self._is_bad or len(self._is_bad) >= _MOST_CHECKS:
            return self._is_bad.get(known_by, False)
        runs = _runs(words)
        if sum(len(run.text) for run in runs) < _FEWEST:
            return False
        self._is_bad[known_by] = self._reads_otherwise(page, runs)
        return self._is_bad[known_by]

    def _reads_otherwise(self, page: pypdfium2.PdfPage, runs: list[_Run]) -> bool:
        verdicts = []
        # One by one: mostly the first decides. For a longer sample Tesseract would detect the orientation, in 0.1 s.
        for run in runs:
            read = self._engine.words(_typeset(page, run.box), language=self._language, dpi=_DPI)
            verdicts.append(_are_alike(run.text, read))
            if verdicts[-1]:
                return False
        return False in verdicts


def _fingerprint(font: int) -> _Key:
    """The font's name, and widths and shapes of letters by its own mapping. PDFium has no identifier for fonts."""
    handle = ctypes.cast(font, pdfium.FPDF_FONT)
    name = ctypes.create_string_buffer(128)
    pdfium.FPDFFont_GetBaseFontName(handle, name, len(name))
    width = ctypes.c_float()
    widths = []
    for probe in _PROBES:
        width.value = 0
        pdfium.FPDFFont_GetGlyphWidth(handle, ord(probe), 10, width)
        widths.append(width.value)
    paths = (pdfium.FPDFFont_GetGlyphPath(handle, ord(probe), 10) for probe in _DRAWN_PROBES)
    shapes = [pdfium.FPDFGlyphPath_CountGlyphSegments(path) if path else 0 for path in paths]
    return (name.value, *widths, *shapes)


def _letters(words: Iterable[LayerWord]) -> int:
    return sum(len(word.text) for word in words)


def _runs(words: list[LayerWord]) -> list[_Run]:
    """The longest runs, each within one line."""
    runs: list[list[LayerWord]] = []
    for word in words:
        if not _is_level(word):
            continue
        if runs and _goes_on(runs[-1], word):
            runs[-1].append(word)
        else:
            runs.append([word])
    made = [_Run(text="".join(w.text for w in run), box=enclosing([w.box for w in run])) for run in runs]
    longest = sorted(made, key=lambda run: -min(len(run.text), _LONGEST_RUN))
    distinct = {run.text: run for run in longest if len(run.text) >= _SHORTEST}
    return list(distinct.values())[:_MOST_RUNS]


def _is_level(word: LayerWord) -> bool:
    x0, y0, x1, y1 = word.box
    return x1 > x0 and y1 > y0 and (len(word.text) < _SHORTEST or y1 - y0 < 2 * (x1 - x0))


def _goes_on(run: list[LayerWord], word: LayerWord) -> bool:
    last = run[-1]
    height = last.box[3] - last.box[1]
    return (
        last.line == word.line
        and sum(len(w.text) for w in run) + len(word.text) <= _LONGEST_RUN
        and 0 <= word.box[0] - last.box[2] < 2 * height
        and abs(word.box[3] - last.box[3]) < height
    )


def _typeset(page: pypdfium2.PdfPage, box: Box) -> Image.Image:
    """The run as a single line on a white sheet."""
    high = box[3] - box[1]
    x0, y0, x1, y1 = (box[0] - high / 3, box[1] - high / 3, box[2] + high / 3, box[3] + high / 3)
    scale = min(_CAPITAL / high, _WIDEST / (x1 - x0))
    line = _on_white(render(page, scale=scale, box=(x0, y0, x1, y1)))
    sheet = Image.new("L", (line.width + 2 * _MARGIN, line.height + 2 * _MARGIN), 255)
    sheet.paste(line, (_MARGIN, _MARGIN))
    return sheet


def _on_white(picture: RenderedPage) -> Image.Image:
    """The picture dark on white in any case. The commonest grey level is taken for the ground."""
    levels = picture.pixels.astype(np.int16)
    away = np.abs(levels - np.bincount(picture.pixels.ravel()).argmax())
    return Image.fromarray((255 - away * 255 // max(away.max(), 1)).astype(np.uint8))


def _are_alike(written: str, read: list[RecognizedWord]) -> bool | None:
    """Return true if the texts are alike, false if they differ; None if that is uncertain."""
    said, seen = _plain(written), _plain("".join(found.text for found in read))
    if not said and not seen:
        return None
    alike = SequenceMatcher(None, said, seen, autojunk=False).ratio()
    if alike >= _ALIKE:
        return True
    confidence = sum(found.confidence for found in read) / max(len(read), 1)
    is_certain = len(seen) >= _SHORTEST and confidence >= _SURE and (_is_latin(said) or not _is_latin(seen))
    return False if is_certain and alike < _UNLIKE else None


def _plain(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())


def _is_latin(text: str) -> bool:
    """Return true if at least half is Latin. Text in a script that was not requested can't be compared."""
    return 2 * sum(c.isascii() or "LATIN" in unicodedata.name(c, "") for c in text) >= len(text)
