"""Engines by their names, and what they need."""

from pathlib import Path

from app.adapters.ocr import rapid
from app.adapters.ocr.auto import Auto
from app.adapters.ocr.engine import Engine
from app.adapters.ocr.second_look import SecondLook
from app.adapters.ocr.tesseract import Tesseract
from app.adapters.ocr.upside_down import UpsideDown

MEMORY_BYTES = 1536 * 1024 * 1024
RAPID_MEMORY_BYTES = 3 * 1024**3
"""Of address space: RapidOCR failed with 1 GiB, and takes 1.2 GiB of memory for a page of A3."""


def memory_bytes(name: str) -> int:
    return RAPID_MEMORY_BYTES if name == "rapidocr" or (name == "auto" and rapid.is_installed()) else MEMORY_BYTES


def opened(name: str, *, tessdata: Path, warm: list[str]) -> Engine:
    """`auto`, `tesseract` or `rapidocr`, ready to read; `warm` are the languages that Tesseract has loaded."""
    match name:
        case "rapidocr":
            return _rapid()
        case "auto" if rapid.is_installed():
            return Auto(first=_tesseract(tessdata, warm), open_second=rapid.Rapid)
        case _:
            return _tesseract(tessdata, warm)


def _tesseract(tessdata: Path, warm: list[str]) -> SecondLook:
    engine = Tesseract(tessdata=tessdata)
    for language in warm:
        engine.load(language)
    return SecondLook(UpsideDown(engine))


def _rapid() -> rapid.Rapid:
    engine = rapid.Rapid()
    engine.warm()
    return engine
