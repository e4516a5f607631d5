"""Recognition of a page's picture: it is prepared, levelled and recognised, and words get their places on the page."""

from collections.abc import Iterator
from dataclasses import replace

from PIL import Image

from app.domain.pages import Page, Source, Word, confidence_of, text_of
from app.domain.warnings import WarningCode
from app.reading.engine import OcrEngine, RecognizedWord, RenderFiner
from app.reading.engines.fallback import enlarged
from app.reading.geometry import MAX_PIXELS, MAX_SIDE, clipped_box, rotated_back, scaled_box
from app.reading.image.deskew import tilt
from app.reading.image.preprocessing import preprocessed

DOUBTFUL = 0.75
"""Mean confidence of a page's words below which its text may be more wrong than right."""

_WHITE = 255
_DPI = 225
_TOO_FINE = 270
"""Dpi from which a picture is reduced: Tesseract then read two words more of 1,400 right in three scans at 300 dpi,
in four fifths of the time. Letters that become too small are read again, enlarged."""


def read_scan(
    engine: OcrEngine,
    image: Image.Image,
    *,
    number: int,
    size: tuple[float, float],
    rotation: int,
    language: str,
    dpi: int,
    finer: RenderFiner | None = None,
) -> Page:
    """Recognise the page of `size` points that the grey `image` shows."""
    found = recognised(engine, image, language=language, dpi=dpi, finer=finer)
    width, height = size
    words = tuple(_on_page(found, image=image, width=width, height=height))
    confidence = confidence_of(words)
    return Page(
        number=number,
        text=text_of(words),
        source=Source.OCR,
        confidence=confidence,
        width=round(width, 2),
        height=round(height, 2),
        rotation=rotation,
        language=language,
        words=words,
        warnings=(WarningCode.LOW_CONFIDENCE,) if confidence is not None and confidence < DOUBTFUL else (),
    )


def recognised(
    engine: OcrEngine, image: Image.Image, *, language: str, dpi: int, finer: RenderFiner | None = None
) -> list[RecognizedWord]:
    """The words of a grey picture in reading order, with boxes in its pixels, in any orientation and tilt.

    `finer` draws the picture larger by a factor if that is wanted; by default it is enlarged.
    """
    clean, scale = preprocessed(image), _scale(dpi)
    fit = enlarged(clean, scale)
    degrees = tilt(fit)

    def level(picture: Image.Image) -> Image.Image:
        return _levelled(picture, degrees) if degrees else picture

    def finer_level(times: float) -> Image.Image:
        return level(preprocessed(finer(scale * times)) if finer is not None else enlarged(clean, scale * times))

    seen = level(fit)
    found = engine.words(seen, language=language, dpi=round(dpi * scale), finer=finer_level)
    if seen is not fit:
        found = [
            replace(word, box=rotated_back(word.box, degrees=degrees, size=seen.size, original=fit.size))
            for word in found
        ]
    if fit is not clean:
        x, y = image.width / fit.width, image.height / fit.height
        found = [replace(word, box=scaled_box(word.box, x=x, y=y)) for word in found]
    return found


def _scale(dpi: int) -> float:
    return _DPI / dpi if dpi >= _TOO_FINE else 1.0


def _on_page(found: list[RecognizedWord], *, image: Image.Image, width: float, height: float) -> Iterator[Word]:
    x, y = width / image.width, height / image.height
    for word in found:
        yield Word(
            text=word.text,
            box=clipped_box(scaled_box(word.box, x=x, y=y), width=width, height=height),
            confidence=word.confidence,
            source=Source.OCR,
            line=word.line,
            block=word.block,
        )


def _levelled(image: Image.Image, degrees: float) -> Image.Image:
    level = image.rotate(degrees, resample=Image.Resampling.BICUBIC, expand=True, fillcolor=_WHITE)
    fits = max(level.size) <= MAX_SIDE and level.width * level.height <= MAX_PIXELS * 2
    return level if fits else image
