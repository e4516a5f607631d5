"""A page's image as it lies in its file, and how it is to be shown."""

from dataclasses import dataclass
from typing import BinaryIO

from PIL import Image, ImageOps

from app.adapters.ocr.geometry import POINTS_PER_INCH

ASSUMED_DPI = 200
_TURNS = {3: 180, 4: 180, 5: 90, 6: 90, 7: 270, 8: 270}
"""EXIF orientation → degrees clockwise (mirrored ones by the turn that remains)."""


def rotation_of(orientation: int) -> int:
    return _TURNS.get(orientation, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    image: Image.Image
    """As stored; of use while its file is open."""
    pixels: tuple[int, int]
    """Across and down it, as stored."""
    orientation: int
    """As EXIF counts, 1 to 8."""
    told: tuple[float, float] | None
    """Dots per inch across and down the image as displayed; None where the file does not tell, or not credibly."""
    stream: BinaryIO

    @property
    def rotation(self) -> int:
        return rotation_of(self.orientation)

    @property
    def dpi(self) -> tuple[float, float]:
        return self.told or (ASSUMED_DPI, ASSUMED_DPI)

    @property
    def size(self) -> tuple[float, float]:
        """Points, as displayed."""
        width, height = self.pixels if self.rotation in {0, 180} else self.pixels[::-1]
        return (width / self.dpi[0] * POINTS_PER_INCH, height / self.dpi[1] * POINTS_PER_INCH)

    def displayed(self) -> Image.Image:
        return ImageOps.exif_transpose(self.image)

    def file_bytes(self) -> bytes:
        """Of the whole file that the frame is in."""
        self.stream.seek(0)
        return self.stream.read()
