"""A picture prepared for recognition: dark on light, without the specks of a bad scan, and without grain."""

from itertools import accumulate

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops, ImageFilter, ImageStat

_NIGHT = 96
"""Median grey below which most of a page is dark. A page of black on white has over 200."""
_LIGHT = 0.25
"""Share of light pixels from which a dark page is taken for a photo of a light page on a dark ground."""
_TILE = 64
_STREWN = 4
"""Dots in a tile from which a page counts as speckled; 1 % of salt and pepper leaves 19. Dots of small or thin letters
are only where text is; those of a bad scan are everywhere, margins included."""
_ENOUGH = 40
"""Tiles of a page at least. With fewer, most of them may have text."""
_EVERYWHERE = 0.2
"""Share of the tiles that may have fewer dots."""
_LONE = 3
"""Marked pixels in a square of nine, at most, for the one in the middle to be a dot rather than part of a letter."""
_MARK = 0.85
"""Share of the paper's grey: darker pixels are not paper."""
_GRAINY = ((20.0, 1.0), (14.0, 0.7))
"""Mean difference of a picture from its median-filtered copy, in grey levels, and the best blur for it, in pixels.
Clean print had up to 6, 14 real scans up to 3. From 16 on Tesseract may find no text at all on a page."""
_SAMPLE = 512
"""Pixels of a side of the sample from the middle. Grain is everywhere, so one sample suffices."""
_Grey = npt.NDArray[np.uint8]


def preprocessed(image: Image.Image) -> Image.Image:
    """The prepared image in the same size. Nearly every page needs no change and is returned itself."""
    counts = image.histogram()
    paper = _median(counts)
    if paper < _NIGHT and sum(counts[255 - _NIGHT :]) < _LIGHT * sum(counts):
        image, paper = ImageChops.invert(image), 255 - paper
    return _smoothed(_unspeckled(image, paper))


def _smoothed(image: Image.Image) -> Image.Image:
    x, y = image.width // 2, image.height // 2
    half = _SAMPLE // 2
    sample = image.crop((max(x - half, 0), max(y - half, 0), min(x + half, image.width), min(y + half, image.height)))
    if min(sample.size) < _TILE:
        return image
    [grain] = ImageStat.Stat(ImageChops.difference(sample, sample.filter(ImageFilter.MedianFilter(3)))).mean
    for least, pixels in _GRAINY:
        if grain >= least:
            return image.filter(ImageFilter.GaussianBlur(pixels))
    return image


def _median(counts: list[int]) -> int:
    half = sum(counts) / 2
    return next(grey for grey, so_far in enumerate(accumulate(counts)) if so_far >= half)


def _unspeckled(image: Image.Image, paper: int) -> Image.Image:
    """The image without lone dots. A median filter would thin letters too: it lost 17 % of the words of fine print."""
    grey = np.asarray(image)
    dots = _lone_dots(grey, paper)
    down, across = dots.shape[0] // _TILE, dots.shape[1] // _TILE
    if down * across < _ENOUGH:
        return image
    tiles = dots[: down * _TILE, : across * _TILE].reshape(down, _TILE, across, _TILE).sum(axis=(1, 3))
    if np.quantile(tiles, _EVERYWHERE) < _STREWN:
        return image
    return Image.fromarray(np.where(dots, np.uint8(paper), grey))


def _lone_dots(grey: _Grey, paper: int) -> npt.NDArray[np.bool_]:
    # Dots are black. The grain of a photo is not and has to stay, because small letters would go with it. Dots also
    # have paper around them: a letter at 100 dpi has single black pixels too, but with grey ones around them.
    marked = (grey < paper * _MARK).view(np.uint8)
    rows = marked.copy()
    rows[1:] += marked[:-1]
    rows[:-1] += marked[1:]
    squares = rows.copy()
    squares[:, 1:] += rows[:, :-1]
    squares[:, :-1] += rows[:, 1:]
    lone: npt.NDArray[np.bool_] = (grey < paper / 2) & (squares <= _LONE)
    return lone
