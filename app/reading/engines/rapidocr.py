"""RapidOCR (PP-OCR models on ONNX) finds and reads lines; this module adds orientation, words and reading order.

It is optional: `daira[rapidocr]`. It reads receipts, photos and fax better than Tesseract, at several times the CPU
and memory. It has no languages to choose from; its models know Latin, Greek and CJK letters.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from app.reading.engine import RecognizedWord, RenderFiner
from app.reading.engines.word_split import LetterBox, LineStrip, split_words
from app.reading.geometry import rotated_by_quarters, rotated_size
from app.reading.layout.lines import numbered
from app.reading.layout.reading_order import in_reading_order

_SEARCHED_PIXELS = 2_900_000
"""Pixels of the image in which lines are searched: A4 with 2,000 on its longer side. With 1,400 it overlooks lines."""
_SLENDER = 8
"""Ratio of the sides from which paper is added, because the search enlarges the shorter side to 736 pixels."""
_LOWEST = 64
"""Pixels of the shorter side below which nothing is found."""
_DOUBTFUL = 0.5
"""Confidence of a line below which it is taken for a stain (RapidOCR's own threshold)."""
_CLASSIFIED = 20
"""Lines whose orientation is classified: one may be wrong, but the majority is right."""
_LONG = 3
"""Length of a line, in heights, from which it is accepted as running across the others."""
_SETTINGS: Mapping[str, str | int | bool] = MappingProxyType(
    {
        "Global.log_level": "critical",
        "Global.return_word_box": True,
        "Global.use_vertical_padding": False,
        "EngineConfig.onnxruntime.intra_op_num_threads": 1,
        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        # The arena would keep the memory that the largest page took.
        "EngineConfig.onnxruntime.enable_cpu_mem_arena": False,
    }
)
_Pixels = npt.NDArray[np.uint8]
_Quads = npt.NDArray[np.float32]
"""Four corners of each line, clockwise from the upper left."""


def is_installed() -> bool:
    return find_spec("rapidocr") is not None and find_spec("onnxruntime") is not None


class RapidOcrEngine:
    """Recognizes words with RapidOCR, in any orientation of the page."""

    def __init__(self) -> None:
        import cv2
        from rapidocr import RapidOCR
        from rapidocr.main import RapidOCRError

        # One core for each child, as with Tesseract.
        cv2.setNumThreads(1)
        self._reader: Any = RapidOCR(params=dict(_SETTINGS))
        self._nothing_found = RapidOCRError

    def warm(self) -> None:
        """Load the models, by reading one word: 1.5 s of CPU and 80 MB."""
        page = Image.new("L", (320, 64), 255)
        ImageDraw.Draw(page).text((16, 16), "Warm", fill=0, font_size=32)
        self.words(page, language="", dpi=200)

    def words(
        self,
        image: Image.Image,
        *,
        language: str,  # noqa: ARG002 - the protocol
        dpi: int,  # noqa: ARG002 - the protocol
        finer: RenderFiner | None = None,  # noqa: ARG002 - the protocol
    ) -> list[RecognizedWord]:
        strips, quarters = self._read(image)
        lines = [_turned(line, quarters, image.size) for strip in strips if (line := split_words(strip))]
        return _turned(numbered(in_reading_order(lines)), 4 - quarters, rotated_size(image.size, quarters=quarters))

    def _read(self, image: Image.Image) -> tuple[list[LineStrip], int]:
        """The lines, and the number of quarter turns, counterclockwise, that make the page upright."""
        picture = _on_wide_paper(image)
        quads = self._found(picture)
        if not len(quads):
            return [], 0
        cuts = self._reader.crop_text_regions(_coloured(picture), quads)
        cuts = [_upright_line(cut, quad) for cut, quad in zip(cuts, quads, strict=True)]
        quarters = self._quarters(cuts)
        turns = [_turn(cut, quarters) for cut in cuts]
        read = self._reader.recognize_txt([_rotated(cut, turn) for cut, turn in zip(cuts, turns, strict=True)])
        lines = zip(quads, turns, read.txts, read.scores, read.word_results, strict=True)
        grey = np.asarray(image)
        return [
            LineStrip.cut(grey, _around(quad, image), quarters=turn, letters=list(_letters(text, info)))
            for quad, turn, text, score, info in lines
            if score >= _DOUBTFUL and text.strip()
        ], quarters

    def _found(self, picture: Image.Image) -> _Quads:
        seen = _shrunk(picture)
        try:
            _, found = self._reader.detect_and_crop(_coloured(seen), {})
        except self._nothing_found:
            return np.empty((0, 4, 2), dtype=np.float32)
        quads: _Quads = found.boxes * np.array(
            [picture.width / seen.width, picture.height / seen.height], dtype=np.float32
        )
        return quads

    def _quarters(self, cuts: Sequence[_Pixels]) -> int:
        """The quarter turns that make the page upright, by its longest lines; a short one has no direction."""
        longest = sorted(cuts, key=lambda cut: max(cut.shape[:2]), reverse=True)[:_CLASSIFIED]
        runs_up = sum(cut.shape[0] - cut.shape[1] for cut in longest) > 0
        lines = [_rotated(cut, int(runs_up)) for cut in longest if (cut.shape[0] > cut.shape[1]) is runs_up]
        _, sides = self._reader.cls_and_rotate(lines)
        flipped = sum(score if "180" in side else -score for side, score in sides.cls_res) > 0
        return int(runs_up) + (2 if flipped else 0)


def _upright_line(cut: _Pixels, quad: _Quads) -> _Pixels:
    """The cut as it lies on the page. RapidOCR turns a cut that is higher than wide, such as the digit 1."""
    top, right, bottom, left = (float(np.linalg.norm(quad[i] - quad[(i + 1) % 4])) for i in range(4))
    is_high = max(left, right) > max(top, bottom)
    return _rotated(cut, 3) if is_high and cut.shape[1] > cut.shape[0] else cut


def _turn(cut: _Pixels, quarters: int) -> int:
    """The quarter turns of a line: those of the page, unless the line clearly runs across the others."""
    height, width = cut.shape[:2]
    along, across = (height, width) if quarters % 2 else (width, height)
    return (quarters + 1) % 4 if across > _LONG * along else quarters


def _rotated(cut: _Pixels, quarters: int) -> _Pixels:
    return np.ascontiguousarray(np.rot90(cut, quarters))


def _turned(words: Iterable[RecognizedWord], quarters: int, size: tuple[int, int]) -> list[RecognizedWord]:
    return [replace(word, box=rotated_by_quarters(word.box, quarters=quarters, size=size)) for word in words]


def _on_wide_paper(image: Image.Image) -> Image.Image:
    """The image, with paper added to the right or below if it is very slender."""
    least = max(math.ceil(max(image.size) / _SLENDER), _LOWEST)
    size = (max(image.width, least), max(image.height, least))
    if size == image.size:
        return image
    paper = Image.new("L", size, round(float(np.median(np.asarray(image)))))
    paper.paste(image, (0, 0))
    return paper


def _shrunk(picture: Image.Image) -> Image.Image:
    ratio = math.sqrt(_SEARCHED_PIXELS / (picture.width * picture.height))
    if ratio >= 1:
        return picture
    return picture.resize((round(picture.width * ratio), round(picture.height * ratio)), Image.Resampling.BOX)


def _coloured(image: Image.Image) -> _Pixels:
    return np.repeat(np.asarray(image)[:, :, None], 3, axis=2)


def _around(quad: _Quads, image: Image.Image) -> tuple[int, int, int, int]:
    x0, y0 = np.floor(quad.min(axis=0)).astype(int).tolist()
    x1, y1 = np.ceil(quad.max(axis=0)).astype(int).tolist()
    x0, y0 = min(max(x0, 0), image.width - 1), min(max(y0, 0), image.height - 1)
    return (x0, y0, min(max(x1, x0 + 1), image.width), min(max(y1, y0 + 1), image.height))


def _letters(text: str, info: Any) -> Iterator[LetterBox]:
    """The line's letters. RapidOCR gives each a confidence and, except white space, a place in columns of its own."""
    places = iter([place for word in info.word_cols for place in word])
    width = max(info.line_txt_len, 1.0)
    for letter, confidence in zip(text, info.confs, strict=True):
        place = 0.0 if letter.isspace() else (next(places) + 0.5) / width
        yield LetterBox(letter, min(place, 1.0), min(max(confidence, 0.0), 1.0))
