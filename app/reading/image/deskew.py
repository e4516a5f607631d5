"""The tilt of a scanned page. At 5 degrees Tesseract loses two thirds of the text."""

import numpy as np
import numpy.typing as npt
from PIL import Image

_SIDE = 900
"""Pixels of the longer side of the copy that is searched. Lines stay apart, and a search takes about 70 ms."""
_REACH = 12.0
"""Degrees to either side that are searched."""
_LEAST = 0.5
"""Degrees of tilt below which turning costs sharpness and gains nothing."""
_GAIN = 1.25
"""The least ratio of the score at the angle to the score without turning."""
_FEWEST = 200
"""Dark pixels below which there are no lines to measure."""
_MOST = 60_000
_COARSELY = 15_000
"""Dark pixels that suffice for a rough angle."""
_STEP = 0.25
"""Degrees. A longer step misses the peak, because 1 degree shifts the end of a line by more than a line's height."""

_Numbers = npt.NDArray[np.float64]


def tilt(image: Image.Image) -> float:
    """Degrees to turn a grey page counterclockwise to make its lines level; 0 if it is level or has no text.

    Lines are searched along both axes, because a page that lies on its side has upright lines.
    """
    x, y = _dark_pixels(image)
    if x.size < _FEWEST:
        return 0.0
    rows, columns = _best(x, y), _best(y, -x)
    angle, score, level = max(rows, columns, key=lambda found: found[1])
    return round(angle, 2) if abs(angle) >= _LEAST and score > _GAIN * level else 0.0


def _dark_pixels(image: Image.Image) -> tuple[_Numbers, _Numbers]:
    small = image.copy()
    small.thumbnail((_SIDE, _SIDE), Image.Resampling.BOX)
    grey = np.asarray(small, dtype=np.int16)
    # Most of a page is paper, so a pixel clearly darker than the median is ink.
    y, x = np.nonzero(grey < np.median(grey) - 48)
    # The sample is random, because every nth pixel would interfere with the lines of small print.
    chosen = np.random.default_rng(0).permutation(x.size)[:_MOST]
    return x[chosen].astype(np.float64), y[chosen].astype(np.float64)


def _best(x: _Numbers, y: _Numbers) -> tuple[float, float, float]:
    """The best angle, its score, and the score of 0 degrees."""
    coarse = _sharpest(x[:_COARSELY], y[:_COARSELY], np.arange(-_REACH, _REACH + _STEP, _STEP))
    fine = _sharpest(x, y, np.arange(coarse - _STEP, coarse + _STEP, 0.05))
    return fine, _score(x, y, fine), _score(x, y, 0.0)


def _sharpest(x: _Numbers, y: _Numbers, angles: _Numbers) -> float:
    return float(max(angles, key=lambda angle: _score(x, y, float(angle))))


def _score(x: _Numbers, y: _Numbers, angle: float) -> float:
    """A measure of how sharply lines and gaps alternate when all ink is projected along lines falling by `angle`."""
    radians = np.radians(angle)
    across = y * np.cos(radians) - x * np.sin(radians)
    profile = np.bincount((across - across.min()).astype(np.int64))
    return float(np.square(np.diff(profile)).sum())
