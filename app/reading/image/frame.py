"""A page's image as stored in its file, and its conversion for reading and showing: on paper, in 8 bits, square."""

import math
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps

from app.reading.geometry import MAX_SIDE, POINTS_PER_INCH

ASSUMED_DPI = 200
_TURNS = {3: 180, 4: 180, 5: 90, 6: 90, 7: 270, 8: 270}
"""EXIF orientation → degrees clockwise. Mirrored ones have the turn that remains after mirroring."""


def rotation_of(orientation: int) -> int:
    return _TURNS.get(orientation, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFrame:
    """One frame of an image file, as stored, and how to show it."""

    image: Image.Image
    """The image as stored. It is usable while its file is open."""
    pixels: tuple[int, int]
    """Pixels across and down the image as stored."""
    orientation: int
    """The EXIF orientation, 1 to 8."""
    declared_dpi: tuple[float, float] | None
    """Dots per inch across and down the image as displayed; None if the file gives no credible ones."""
    stream: BinaryIO

    @property
    def rotation(self) -> int:
        return rotation_of(self.orientation)

    @property
    def dpi(self) -> tuple[float, float]:
        return self.declared_dpi or (ASSUMED_DPI, ASSUMED_DPI)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in points as displayed."""
        width, height = self.pixels if self.rotation in {0, 180} else self.pixels[::-1]
        return (width / self.dpi[0] * POINTS_PER_INCH, height / self.dpi[1] * POINTS_PER_INCH)

    def displayed(self) -> Image.Image:
        return ImageOps.exif_transpose(self.image)

    def file_bytes(self) -> bytes:
        """The bytes of the whole file that holds the frame."""
        self.stream.seek(0)
        return self.stream.read()


_UNEVEN = 1.3
"""Ratio of the two resolutions from which letters are too distorted to be read. Fax has 204 x 98 dpi."""
_ENOUGH = 20_000_000
"""Pixels, as of A3 at 320 dpi. A letter of 47 million took Tesseract 14 s and was read no better; noise took 31 s."""


def on_paper(image: Image.Image) -> Image.Image:
    """The image in colour on white paper; on black if it would be invisible on white."""
    rgba = image.convert("RGBA")
    low, high = _laid_on(rgba, "white").getextrema()
    paper = Image.new("RGBA", rgba.size, "black" if low == high else "white")
    return Image.alpha_composite(paper, rgba).convert("RGB")


def grey(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):
        return eight_bit(image)
    if not image.has_transparency_data:
        return image.convert("L")
    rgba = image.convert("RGBA")
    on_white = _laid_on(rgba, "white")
    low, high = on_white.getextrema()
    # White letters on a transparent ground would vanish on white.
    return _laid_on(rgba, "black") if low == high else on_white


def eight_bit(image: Image.Image) -> Image.Image:
    """The image in 8 bits of grey. Pillow's own conversion clips 16 bits to white."""
    values = np.nan_to_num(np.asarray(image, dtype=np.float32))
    low, high = float(values.min()), float(values.max())
    if image.mode.startswith("I"):
        low, high = 0.0, 65_535.0 if 255 < high <= 65_535 else max(high, 255.0)  # noqa: PLR2004 - 8 and 16 bit
    scale = 255 / (high - low) if high > low else 1.0
    return Image.fromarray(((values - low) * scale).clip(0, 255).astype(np.uint8))


def with_square_pixels(image: Image.Image, dpi: tuple[float, float]) -> Image.Image:
    """The image with square pixels, by enlarging the coarser axis, and with at most `_ENOUGH` of them."""
    across, down = (max(dpi) / d if max(dpi) / min(dpi) >= _UNEVEN else 1.0 for d in dpi)
    shrunk = min(1.0, math.sqrt(_ENOUGH / (image.width * across * image.height * down)))
    size = (max(1, round(image.width * across * shrunk)), max(1, round(image.height * down * shrunk)))
    if size == image.size or max(size) > MAX_SIDE:
        return image
    return image.resize(size, Image.Resampling.BICUBIC)


def _laid_on(rgba: Image.Image, colour: str) -> Image.Image:
    return Image.alpha_composite(Image.new("RGBA", rgba.size, colour), rgba).convert("L")
