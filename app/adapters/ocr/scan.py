"""A picture of a page, read: levelled, recognised, and its words put where they lie on the picture."""

from collections.abc import Iterator
from dataclasses import replace

from PIL import Image

from app.adapters.ocr.deskew import tilt
from app.adapters.ocr.engine import Engine, Found
from app.adapters.ocr.geometry import MAX_PIXELS, MAX_SIDE, clipped, scaled, turned_back
from app.domain.pages import Page, Source, Word, confidence_of, text_of

_WHITE = 255


def read_scan(
    engine: Engine,
    image: Image.Image,
    *,
    number: int,
    size: tuple[float, float],
    rotation: int,
    language: str,
    dpi: int,
) -> Page:
    """The page of `size` points that the grey `image` shows."""
    found = recognised(engine, image, language=language, dpi=dpi)
    width, height = size
    words = tuple(_on_page(found, image=image, width=width, height=height))
    return Page(
        number=number,
        text=text_of(words),
        source=Source.OCR,
        confidence=confidence_of(words),
        width=round(width, 2),
        height=round(height, 2),
        rotation=rotation,
        language=language,
        words=words,
    )


def recognised(engine: Engine, image: Image.Image, *, language: str, dpi: int) -> list[Found]:
    """The words of a grey picture in reading order, by its pixels, whichever way it lies or leans."""
    degrees = tilt(image)
    level = _levelled(image, degrees) if degrees else image
    found = engine.words(level, language=language, dpi=dpi)
    if level is image:
        return found
    return [
        replace(word, box=turned_back(word.box, degrees=degrees, size=level.size, original=image.size))
        for word in found
    ]


def _on_page(found: list[Found], *, image: Image.Image, width: float, height: float) -> Iterator[Word]:
    x, y = width / image.width, height / image.height
    for word in found:
        yield Word(
            text=word.text,
            box=clipped(scaled(word.box, x=x, y=y), width=width, height=height),
            confidence=word.confidence,
            source=Source.OCR,
            line=word.line,
            block=word.block,
        )


def _levelled(image: Image.Image, degrees: float) -> Image.Image:
    level = image.rotate(degrees, resample=Image.Resampling.BICUBIC, expand=True, fillcolor=_WHITE)
    fits = max(level.size) <= MAX_SIDE and level.width * level.height <= MAX_PIXELS * 2
    return level if fits else image
