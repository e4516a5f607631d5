"""Tesseract as an engine: grey pixels in, words with boxes out.

Tesseract gets only decoded pixels, never a user's bytes, because its wheel bundles old codecs.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import tesserocr
from PIL import Image

from app.reading.engine import RecognizedWord, RenderFiner
from app.reading.engines.fallback import CellReader, missed_cells
from app.reading.faults import scrubbed
from app.reading.geometry import Box, rotated_by_quarters, rotated_size
from app.reading.layout.lines import Region, is_vertical, is_within, lines_of, numbered, with_even_heights
from app.reading.layout.table_rows import tables_by_rows

_MOST_LOADED = 3
"""Language models that stay in memory (10 to 40 MB each)."""
_TRANSPOSED = {1: Image.Transpose.ROTATE_90, 2: Image.Transpose.ROTATE_180, 3: Image.Transpose.ROTATE_270}
_WORD_LEVEL = "5"
_TSV_COLUMNS = 12


class TesseractEngine:
    """Recognizes words with Tesseract, in any orientation of the page, and reads tables by rows."""

    def __init__(self, *, tessdata: Path) -> None:
        self._tessdata = tessdata
        self._loaded: dict[str, tesserocr.PyTessBaseAPI] = {}
        # Detecting the orientation needs a model of its own; without it pages must come upright.
        has_osd = (tessdata / "osd.traineddata").is_file()
        self._layout = tesserocr.PSM.AUTO_OSD if has_osd else tesserocr.PSM.AUTO

    def load(self, language: str) -> tesserocr.PyTessBaseAPI:
        """Load a language's model, so that the first page is no slower than the next."""
        if language not in self._loaded:
            while len(self._loaded) >= _MOST_LOADED:
                self._loaded.pop(next(iter(self._loaded))).End()
            self._loaded[language] = tesserocr.PyTessBaseAPI(path=f"{self._tessdata}/", lang=language, psm=self._layout)
        return self._loaded[language]

    def words(
        self,
        image: Image.Image,
        *,
        language: str,
        dpi: int,
        finer: RenderFiner | None = None,  # noqa: ARG002 - the protocol
    ) -> list[RecognizedWord]:
        api = self.load(language)
        try:
            regions = _recognised(api, image, dpi=dpi)
            quarters = _quarters(api)
        finally:
            api.Clear()

        def read_cell(picture: Image.Image) -> RecognizedWord | None:
            api.SetPageSegMode(tesserocr.PSM.SINGLE_LINE)
            try:
                words = _all_words(_recognised(api, picture, dpi=dpi))
                return words[0] if len(words) == 1 else None
            finally:
                api.Clear()
                api.SetPageSegMode(self._layout)

        return _in_rows(regions, image, quarters=quarters, read_cell=read_cell)


def _recognised(api: tesserocr.PyTessBaseAPI, image: Image.Image, *, dpi: int) -> list[Region]:
    api.SetImageBytes(image.tobytes(), image.width, image.height, 1, image.width)
    api.SetSourceResolution(dpi)
    if not api.Recognize(0):
        raise RuntimeError("Tesseract gave up on a page")
    return _regions(api.GetTSVText(0))


def _regions(tsv: str) -> list[Region]:
    """The regions in Tesseract's TSV.

    Its columns: level, page, block, paragraph, line, word, left, top, width, height, confidence, text.
    """
    regions: dict[str, dict[str, dict[str, list[RecognizedWord]]]] = {}
    for row in tsv.split("\n"):
        fields = row.split("\t")
        if len(fields) < _TSV_COLUMNS or fields[0] != _WORD_LEVEL or not (text := scrubbed(fields[11]).strip()):
            continue
        left, top, width, height = map(int, fields[6:10])
        line = regions.setdefault(fields[2], {}).setdefault(fields[3], {}).setdefault(fields[4], [])
        line.append(
            RecognizedWord(
                text=text,
                box=(left, top, left + width, top + height),
                confidence=round(min(max(float(fields[10]) / 100, 0), 1), 4),
                line=0,
                block=0,
            )
        )
    return [[list(lines.values()) for lines in paragraphs.values()] for paragraphs in regions.values()]


def _quarters(api: tesserocr.PyTessBaseAPI) -> int:
    """Quarter turns, counterclockwise, that make the page upright: those of most regions."""
    iterator = api.GetIterator()
    if iterator is None:
        return 0
    # Tesseract numbers its orientations (up, right, down, left) in this direction.
    found = Counter(int(region.Orientation()[0]) for region in tesserocr.iterate_level(iterator, tesserocr.RIL.BLOCK))
    return found.most_common(1)[0][0]


def _in_rows(
    regions: list[Region], image: Image.Image, *, quarters: int, read_cell: CellReader
) -> list[RecognizedWord]:
    """The words in reading order. Rows are those of the upright page, in whichever orientation the picture shows it."""
    size = image.size
    upright: list[Region] = [
        [
            [with_even_heights([_turned(word, quarters, size) for word in line]) for line in paragraph]
            for paragraph in region
        ]
        for region in regions
    ]
    lying = [region for region in upright if not is_vertical(region)]
    standing = [region for region in upright if is_vertical(region)]

    def also(table: Box) -> list[RecognizedWord]:
        page = image.transpose(_TRANSPOSED[quarters]) if quarters else image
        # Tesseract takes a column of digits for a line that runs upwards: a table has none.
        standing[:] = [region for region in standing if not is_within(table, region)]
        return list(missed_cells(page, _all_words([*lying, *standing]), within=table, read=read_cell))

    rows = tables_by_rows(lying, also=also)
    back, turned = 4 - quarters, rotated_size(size, quarters=quarters)
    return [_turned(word, back, turned) for word in numbered([*rows, *standing])]


def _all_words(regions: list[Region]) -> list[RecognizedWord]:
    return [word for region in regions for line in lines_of(region) for word in line]


def _turned(word: RecognizedWord, quarters: int, size: tuple[int, int]) -> RecognizedWord:
    return replace(word, box=rotated_by_quarters(word.box, quarters=quarters, size=size))
