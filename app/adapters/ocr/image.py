"""An image file, frame by frame: only TIFF has pages, of an animation or a burst the first frame counts.

Points come from the file's dpi where it is credible (70 to 1200), else 200 dpi are assumed: a letter scanned at
200 dpi is the commonest file without one, and nothing but the size in points depends on it.
"""

import math
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import AvifImagePlugin, ExifTags, Image, ImageOps, UnidentifiedImageError

from app.adapters.ocr.engine import Engine
from app.adapters.ocr.geometry import MAX_PIXELS, MAX_SIDE, POINTS_PER_INCH, check_pixels, too_many_pixels
from app.adapters.ocr.scan import read_scan
from app.domain.errors import DocumentFault
from app.domain.pages import Page, Source
from app.domain.warnings import DocumentWarning, WarningCode
from app.ports.ocr import Mode

ASSUMED_DPI = 200
_CREDIBLE_DPI = (70, 1200)
_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP")
_BOXED_FORMATS = ("HEIF", "AVIF")
_TURNS = {3: 180, 4: 180, 5: 90, 6: 90, 7: 270, 8: 270}
"""EXIF orientation → degrees clockwise (mirrored ones by the turn that remains)."""
_UNEVEN = 1.3
"""Ratio of the two resolutions from which letters are too distorted to be read: fax has 204 x 98."""
_ENOUGH = 20_000_000
"""Pixels, A3 at 320 dpi: a letter of 47 million took Tesseract 14 s, was read no better, and noise took 31 s."""
_LETTER = 3_870_000
"""Pixels of A4 at 200 dpi."""
_BLAMED_ON_THE_FILE = (
    UnidentifiedImageError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    OverflowError,
    RuntimeError,
    struct.error,
    zlib.error,
)
"""What Pillow's decoders, and libheif's, were seen to raise on damaged files, besides OSError without an errno."""


class ImageFile:
    """Raises DocumentFault (corrupt, too_large, too_many_pages)."""

    def __init__(self, path: Path, *, engine: Engine, language: str, max_pages: int) -> None:
        self._engine = engine
        self._language = language
        self.warnings: list[DocumentWarning] = []
        self._stream = path.open("rb")
        Image.MAX_IMAGE_PIXELS = MAX_PIXELS
        try:
            self._formats = _formats(self._stream)
            with _faults(), Image.open(self._stream, formats=self._formats) as image:
                check_pixels(width=image.width, height=image.height)
                self.page_count = _frames(image, most=max_pages)
                self._page_warnings = _warnings(image)
        except BaseException:
            self._stream.close()
            raise

    def read(self, number: int, *, mode: Mode) -> Page:
        self._stream.seek(0)
        # Opened anew for each page: what loading turned or dropped stays out of the next, and memory comes free.
        with _faults(), Image.open(self._stream, formats=self._formats) as stored:
            if self.page_count > 1:
                stored.seek(number - 1)
            check_pixels(width=stored.width, height=stored.height)
            # HEIF is turned by its container as it is decoded; its EXIF then says that nothing is left to turn.
            rotation = _TURNS.get(stored.getexif().get(ExifTags.Base.Orientation, 1), 0)
            told = _resolution(stored, sideways=rotation in {90, 270})
            image = ImageOps.exif_transpose(stored)
        dpi = told or (ASSUMED_DPI, ASSUMED_DPI)
        size = (image.width / dpi[0] * POINTS_PER_INCH, image.height / dpi[1] * POINTS_PER_INCH)
        if mode is Mode.SKIP:
            return self._unread(number, size=size, rotation=rotation)
        page = read_scan(
            self._engine,
            _evened(_grey(image), dpi),
            number=number,
            size=size,
            rotation=rotation,
            language=self._language,
            dpi=_looked_at(image, told),
        )
        return replace(page, warnings=(*page.warnings, *self._page_warnings))

    def close(self) -> None:
        self._stream.close()

    def _unread(self, number: int, *, size: tuple[float, float], rotation: int) -> Page:
        return Page(
            number=number,
            text="",
            source=Source.TEXT_LAYER,
            confidence=None,
            width=round(size[0], 2),
            height=round(size[1], 2),
            rotation=rotation,
            language=self._language,
            warnings=self._page_warnings,
        )


@contextmanager
def _faults() -> Iterator[None]:
    """What decoding raises, as a fault of the file; what the machine is to blame for passes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise too_many_pixels() from error
    except _BLAMED_ON_THE_FILE as error:
        raise _damaged() from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise _damaged() from error


def _damaged() -> DocumentFault:
    return DocumentFault("corrupt", "The image is damaged: save it anew and upload it again.")


def _formats(stream: BinaryIO) -> tuple[str, ...]:
    is_boxed = stream.read(8)[4:] == b"ftyp"
    stream.seek(0)
    if not is_boxed:
        return _FORMATS
    # Most children never see one.
    import pi_heif

    pi_heif.register_heif_opener(decode_threads=1, thumbnails=False, depth_images=False, aux_images=False)
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    return _BOXED_FORMATS


def _warnings(image: Image.Image) -> tuple[WarningCode, ...]:
    if image.format == "TIFF":
        return ()
    try:
        is_animated = getattr(image, "is_animated", False)
    except (*_BLAMED_ON_THE_FILE, OSError):
        # There is a second frame, and it is damaged: nothing to us.
        is_animated = True
    return (WarningCode.ANIMATION_FIRST_FRAME,) if is_animated else ()


def _frames(image: Image.Image, *, most: int) -> int:
    if image.format != "TIFF":
        return 1
    # Frames form a chain: what lies beyond the limit is not walked. One step at a time, for Pillow (13.0) takes a
    # frame that it could not reach for the last one.
    for frame in range(1, most + 1):
        try:
            image.seek(frame)
        except EOFError:
            return frame
    return most + 1


def _resolution(image: Image.Image, *, sideways: bool) -> tuple[float, float] | None:
    """Dots per inch across and down the image as displayed; None where the file does not tell, or not credibly."""
    try:
        x, y = (float(value) for value in image.info["dpi"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    least, most = _CREDIBLE_DPI
    if not (least <= x <= most and least <= y <= most):
        return None
    return (y, x) if sideways else (x, y)


def _looked_at(image: Image.Image, told: tuple[float, float] | None) -> int:
    """Dots per inch for recognition."""
    if told is None:
        # Whatever it is, it is hardly larger than a letter: a photo of one has 12 million pixels.
        return round(ASSUMED_DPI * max(1.0, math.sqrt(image.width * image.height / _LETTER)))
    # Screen resolutions say nothing of a scan's: told 96 dpi, Tesseract lost a tenth of a receipt's words.
    return max(round(max(told)), ASSUMED_DPI)


def _grey(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):
        return _eight_bit(image)
    if not image.has_transparency_data:
        return image.convert("L")
    rgba = image.convert("RGBA")
    on_white = _laid_on(rgba, "white")
    low, high = on_white.getextrema()
    # White letters on nothing would vanish on white.
    return _laid_on(rgba, "black") if low == high else on_white


def _laid_on(rgba: Image.Image, colour: str) -> Image.Image:
    return Image.alpha_composite(Image.new("RGBA", rgba.size, colour), rgba).convert("L")


def _eight_bit(image: Image.Image) -> Image.Image:
    """Pillow's own conversion clips 16 bits to white."""
    values = np.nan_to_num(np.asarray(image, dtype=np.float32))
    low, high = float(values.min()), float(values.max())
    if image.mode.startswith("I"):
        low, high = 0.0, 65_535.0 if 255 < high <= 65_535 else max(high, 255.0)  # noqa: PLR2004 - 8 and 16 bit
    scale = 255 / (high - low) if high > low else 1.0
    return Image.fromarray(((values - low) * scale).clip(0, 255).astype(np.uint8))


def _evened(image: Image.Image, dpi: tuple[float, float]) -> Image.Image:
    """With square pixels, by enlarging the coarser axis, and no more of them than help."""
    across, down = (max(dpi) / d if max(dpi) / min(dpi) >= _UNEVEN else 1.0 for d in dpi)
    shrunk = min(1.0, math.sqrt(_ENOUGH / (image.width * across * image.height * down)))
    size = (max(1, round(image.width * across * shrunk)), max(1, round(image.height * down * shrunk)))
    if size == image.size or max(size) > MAX_SIDE:
        return image
    return image.resize(size, Image.Resampling.BICUBIC)
