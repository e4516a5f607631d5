"""Pages to look at: as displayed, as wide as asked for, in grey where there is no colour."""

import math

import numpy as np
import pypdfium2
from PIL import Image

from app.adapters.ocr.rendering import rendered

_MOST_PIXELS = 24_000_000
"""A4 at 4,000 pixels across has 22.6 million; a page that is so long that it would have more is shown smaller."""
_LONGEST = 32_000
"""Pixels of a side; browsers show no longer image."""


def page_image(page: pypdfium2.PdfPage, *, width: int) -> Image.Image:
    across, down = (max(side, 0.01) for side in page.get_size())
    wanted = _fitted(across, down, width=width)
    # PDFium rounds up: a hair's breadth less, and the width is the one that was asked for.
    shown = rendered(page, scale=(wanted - 1e-3) / across, colour=True)
    return _lean(Image.fromarray(np.ascontiguousarray(shown.pixels[..., ::-1])))


def resized(image: Image.Image, *, ratio: float, width: int) -> Image.Image:
    """`ratio`: of the page's height to its width, which pixels that are not square make another than the image's."""
    wanted = _fitted(1.0, ratio, width=width)
    size = (wanted, max(1, round(wanted * ratio)))
    image = image if image.mode in {"L", "RGB"} else image.convert("L" if image.mode == "1" else "RGB")
    return _lean(image.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0))


def _fitted(across: float, down: float, *, width: int) -> int:
    by_area = math.sqrt(_MOST_PIXELS * across / down)
    by_length = _LONGEST * across / down
    return max(1, math.floor(min(width, by_area, by_length)))


def _lean(image: Image.Image) -> Image.Image:
    """Of a third of the size, where all is grey."""
    if image.mode == "L":
        return image
    image = image.convert("RGB")
    red, green, blue = (np.asarray(image)[..., channel] for channel in range(3))
    return image.convert("L") if (red == green).all() and (green == blue).all() else image
