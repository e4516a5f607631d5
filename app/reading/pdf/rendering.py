"""Renderings of a page or a part of it, and page images for display: as wide as requested, grey if without colour."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pypdfium2
from PIL import Image

from app.reading.geometry import Box

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPage:
    """The pixels of a page or a part of it, and their place on the page."""

    pixels: Pixels
    """Rows of grey levels, or of blue, green and red levels."""
    corner: tuple[float, float]
    """The place of the top left pixel on the page, in points."""
    scale: float
    """Pixels per point."""

    @property
    def image(self) -> Image.Image:
        """The image; only for grey levels."""
        return Image.fromarray(self.pixels)

    def spot(self, box: Box) -> tuple[slice, slice]:
        """The pixels of a box on the page."""
        (left, top), scale = self.corner, self.scale
        x0, x1 = int((box[0] - left) * scale), int((box[2] - left) * scale) + 1
        y0, y1 = int((box[1] - top) * scale), int((box[3] - top) * scale) + 1
        return slice(max(y0, 0), max(y1, 0)), slice(max(x0, 0), max(x1, 0))

    def without(self, boxes: Iterable[Box]) -> "RenderedPage":
        """A copy with these boxes painted in the ground's colour, the median of all pixels."""
        pixels = self.pixels.copy()
        ground = np.median(pixels)
        for x0, y0, x1, y1 in boxes:
            pixels[self.spot((x0 - 1, y0 - 1, x1 + 1, y1 + 1))] = ground
        return replace(self, pixels=pixels)


def render(page: pypdfium2.PdfPage, *, scale: float, box: Box | None = None, colour: bool = False) -> RenderedPage:
    """The page, or the part of `box` that lies on it; at least one pixel wide and high."""
    width, height = math.ceil(page.get_width() * scale), math.ceil(page.get_height() * scale)
    x0, y0, x1, y1 = (0, 0, width, height) if box is None else (math.floor(edge * scale) for edge in box)
    x0, y0 = min(max(x0, 0), max(width - 1, 0)), min(max(y0, 0), max(height - 1, 0))
    x1, y1 = min(max(x1 + 1, x0 + 1), width), min(max(y1 + 1, y0 + 1), height)
    # Crop by whole pixels, because PDFium rounds up the margins to cut off.
    crop = (x0 / scale, (height - y1) / scale, (width - x1) / scale, y0 / scale)
    bitmap = page.render(scale=scale, crop=crop, grayscale=not colour, limit_image_cache=True)
    try:
        # A copy, because PDFium frees the bitmap's memory.
        pixels = bitmap.to_numpy().copy()
    finally:
        bitmap.close()
    grey = pixels if colour else pixels.reshape(pixels.shape[:2])
    return RenderedPage(pixels=grey, corner=(x0 / scale, y0 / scale), scale=scale)


_MOST_PIXELS = 24_000_000
"""Pixels at most. A4 at 4,000 pixels across has 22.6 million; a longer page that would have more is scaled down."""
_LONGEST = 32_000
"""Pixels of a side at most, because browsers show no longer image."""


def page_image(page: pypdfium2.PdfPage, *, width: int) -> Image.Image:
    across, down = (max(side, 0.01) for side in page.get_size())
    wanted = _fitted_width(across, down, width=width)
    # PDFium rounds up, so scale by slightly less to get the requested width.
    shown = render(page, scale=(wanted - 1e-3) / across, colour=True)
    return _grey_if_colourless(Image.fromarray(np.ascontiguousarray(shown.pixels[..., ::-1])))


def resized(image: Image.Image, *, ratio: float, width: int) -> Image.Image:
    """The image at that width. `ratio` is the page's height by its width, which non-square pixels make differ."""
    wanted = _fitted_width(1.0, ratio, width=width)
    size = (wanted, max(1, round(wanted * ratio)))
    image = image if image.mode in {"L", "RGB"} else image.convert("L" if image.mode == "1" else "RGB")
    return _grey_if_colourless(image.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0))


def _fitted_width(across: float, down: float, *, width: int) -> int:
    by_area = math.sqrt(_MOST_PIXELS * across / down)
    by_length = _LONGEST * across / down
    return max(1, math.floor(min(width, by_area, by_length)))


def _grey_if_colourless(image: Image.Image) -> Image.Image:
    """The image in grey if it has no colour, which takes a third of the bytes."""
    if image.mode == "L":
        return image
    image = image.convert("RGB")
    red, green, blue = (np.asarray(image)[..., channel] for channel in range(3))
    return image.convert("L") if (red == green).all() and (green == blue).all() else image
