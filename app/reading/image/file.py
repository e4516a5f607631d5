"""An image file, frame by frame. Only TIFF has pages; of an animation or a burst the first frame is read.

Sizes in points come from the file's dpi if it is credible (70 to 1200). Otherwise 200 dpi are assumed: a letter
scanned at 200 dpi is the commonest file without one, and only the size in points depends on it.
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

from PIL import AvifImagePlugin, ExifTags, Image, UnidentifiedImageError

from app.domain.errors import DocumentFault
from app.domain.pages import Page, Source
from app.domain.warnings import DocumentWarning, WarningCode
from app.ports.reading import Mode
from app.reading.engine import OcrEngine
from app.reading.geometry import MAX_PIXELS, check_pixels, too_many_pixels
from app.reading.image.frame import ASSUMED_DPI, ImageFrame, grey, rotation_of, with_square_pixels
from app.reading.image.scan import read_scan

_CREDIBLE_DPI = (70, 1200)
_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "GIF", "BMP")
_BOXED_FORMATS = ("HEIF", "AVIF")
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
"""Exceptions that Pillow's and libheif's decoders raise on damaged files, besides OSError without an errno."""


class ImageFile:
    """Reads the frames of one image file. Raises DocumentFault (corrupt, too_large, too_many_pages)."""

    def __init__(self, path: Path, *, engine: OcrEngine, language: str, max_pages: int) -> None:
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
        with self.frame(number) as frame:
            image = frame.displayed()
        if mode is Mode.SKIP:
            return self._unread(number, size=frame.size, rotation=frame.rotation)
        page = read_scan(
            self._engine,
            with_square_pixels(grey(image), frame.dpi),
            number=number,
            size=frame.size,
            rotation=frame.rotation,
            language=self._language,
            dpi=_recognition_dpi(image, frame.declared_dpi),
        )
        return replace(page, warnings=(*page.warnings, *self._page_warnings))

    @contextmanager
    def frame(self, number: int) -> Iterator[ImageFrame]:
        """Open a frame. Raises DocumentFault for damage that is found within the context, too."""
        self._stream.seek(0)
        # Opened anew for each page, so that changes by loading don't reach the next page, and memory is freed.
        with _faults(), Image.open(self._stream, formats=self._formats) as stored:
            if self.page_count > 1:
                stored.seek(number - 1)
            check_pixels(width=stored.width, height=stored.height)
            # The decoder already turns HEIF as its container says; its EXIF then needs no turn.
            orientation = stored.getexif().get(ExifTags.Base.Orientation, 1)
            orientation = orientation if orientation in range(1, 9) else 1
            declared = _resolution(stored, sideways=rotation_of(orientation) in {90, 270})
            pixels = stored.size
            yield ImageFrame(
                image=stored, pixels=pixels, orientation=orientation, declared_dpi=declared, stream=self._stream
            )

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
    """Turn exceptions of decoding into faults of the file. Errors of the machine pass through."""
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
    # Imported on demand, because most children never read such a file.
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
        # There is a second frame. Its damage does not matter, because only the first is read.
        is_animated = True
    return (WarningCode.ANIMATION_FIRST_FRAME,) if is_animated else ()


def _frames(image: Image.Image, *, most: int) -> int:
    if image.format != "TIFF":
        return 1
    # Frames form a chain, which is not walked beyond the limit. One step at a time, because Pillow (13.0) takes a frame
    # that it could not reach for the last one.
    for frame in range(1, most + 1):
        try:
            image.seek(frame)
        except EOFError:
            return frame
    return most + 1


def _resolution(image: Image.Image, *, sideways: bool) -> tuple[float, float] | None:
    """Dots per inch across and down the image as displayed; None if the file gives no credible ones."""
    try:
        x, y = (float(value) for value in image.info["dpi"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    least, most = _CREDIBLE_DPI
    if not (least <= x <= most and least <= y <= most):
        return None
    return (y, x) if sideways else (x, y)


def _recognition_dpi(image: Image.Image, declared: tuple[float, float] | None) -> int:
    """Dots per inch that recognition is given."""
    if declared is None:
        # The picture hardly shows more than a letter: a photo of one has 12 million pixels.
        return round(ASSUMED_DPI * max(1.0, math.sqrt(image.width * image.height / _LETTER)))
    # A screen resolution is not that of the scan: given 96 dpi, Tesseract lost a tenth of a receipt's words.
    return max(round(max(declared)), ASSUMED_DPI)
