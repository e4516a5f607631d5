"""OCR engines by name, and the memory that each needs."""

from pathlib import Path

from PIL import Image

from app.reading.engine import OcrEngine, RecognizedWord, RenderFiner
from app.reading.engines import rapidocr
from app.reading.engines.fallback import FallbackEngine, OrientationEngine, SmallPrintEngine
from app.reading.engines.tesseract import TesseractEngine
from app.reading.faults import RecognitionNeeded

MEMORY_BYTES = 1536 * 1024 * 1024
RAPID_MEMORY_BYTES = 3 * 1024**3
"""Bytes of address space: RapidOCR failed with 1 GiB, and takes 1.2 GiB of memory for a page of A3."""


def memory_bytes(name: str) -> int:
    return RAPID_MEMORY_BYTES if name == "rapidocr" or (name == "auto" and rapidocr.is_installed()) else MEMORY_BYTES


class NoEngine:
    """The engine for pages in a reader that does no OCR: it raises RecognitionNeeded for every picture."""

    def words(
        self,
        image: Image.Image,  # noqa: ARG002 - the interface's signature
        *,
        language: str,  # noqa: ARG002 - the interface's signature
        dpi: int,  # noqa: ARG002 - the interface's signature
        finer: RenderFiner | None = None,  # noqa: ARG002 - the interface's signature
    ) -> list[RecognizedWord]:
        raise RecognitionNeeded


def open_engine(name: str, *, tessdata: Path, warm: list[str]) -> OcrEngine:
    """The engine `auto`, `tesseract` or `rapidocr`, ready to read. Tesseract loads the languages of `warm` at once."""
    match name:
        case "rapidocr":
            return _rapid()
        case "auto" if rapidocr.is_installed():
            return FallbackEngine(first=_tesseract(tessdata, warm), open_second=rapidocr.RapidOcrEngine)
        case _:
            return _tesseract(tessdata, warm)


def _tesseract(tessdata: Path, warm: list[str]) -> SmallPrintEngine:
    engine = TesseractEngine(tessdata=tessdata)
    for language in warm:
        engine.load(language)
    return SmallPrintEngine(OrientationEngine(engine))


def _rapid() -> rapidocr.RapidOcrEngine:
    engine = rapidocr.RapidOcrEngine()
    engine.warm()
    return engine
