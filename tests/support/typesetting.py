"""Pages whose every word and its place is known: set in type, and then worn as scans are."""

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageFont

Box = tuple[float, float, float, float]

LETTER = (612, 792)
MARGIN = 60
PROSE = tuple(
    """
Dear Ms Whitfield, thank you for your letter of 14 March about the survey of the old harbour wall. We have read
it with care and asked our engineers to look at each of the points that you raise. Their first answer is that the
eastern section, some 240 metres long, was repaired in 1987 and again in 2009, and that no movement has been
measured since. The western section is another matter. Storms have washed out the footing in at least three places,
and the drawings from which the contractor worked do not agree with what divers found there last summer. Before any
price can be agreed, both sides need one set of plans. We propose that your office and ours share the cost of a new
survey, up to a limit of 18,500 pounds, and that its results belong to both. The work would take five weeks and
could begin in the second half of May, when tides are low and the weather is usually quiet. Please let us know by
the end of the month whether you accept. Should you prefer a different firm, we ask only that it carries insurance
for diving work and has no other contract with the port. Copies of the earlier reports are enclosed, together with
photographs of the damage and a list of the people who should be heard. Nothing in this letter changes what was
agreed about the crane, the two sheds or the right of way along the quay. Yours sincerely, Thomas J. Okafor
""".split()  # noqa: SIM905 - prose reads as prose
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    image: Image.Image
    dpi: int
    words: tuple[tuple[str, Box], ...]
    """In reading order, with the pixels around their ink; a box of a leaning word is the upright one around it."""
    breaks: frozenset[int] = frozenset()
    """Words that begin a line."""

    @property
    def text(self) -> str:
        parts = (("\n" if index in self.breaks else " ") + word for index, (word, _) in enumerate(self.words))
        return "".join(parts).strip()


@dataclass(frozen=True, slots=True)
class Line:
    """Text whose top left corner lies at x, y; all in points."""

    x: float
    y: float
    text: str
    size: float = 11
    follows: bool = False
    """The line before goes on with it, as a row does with its next cell."""


def printed(
    lines: Iterable[Line], *, dpi: int = 200, paper: tuple[float, float] = LETTER, font: str | None = None
) -> Printed:
    """`font`: a file; by default the one that Pillow brings along."""
    image = Image.new("L", (round(paper[0] * dpi / 72), round(paper[1] * dpi / 72)), 255)
    draw = ImageDraw.Draw(image)
    words: list[tuple[str, Box]] = []
    breaks = set()
    for line in lines:
        face = _face(font, line.size * dpi / 72)
        x, y = line.x * dpi / 72, line.y * dpi / 72
        if not line.follows:
            breaks.add(len(words))
        for word in line.text.split():
            draw.text((x, y), word, fill=0, font=face)
            words.append((word, draw.textbbox((x, y), word, font=face)))
            x += draw.textlength(word + " ", font=face)
    return Printed(image=image, dpi=dpi, words=tuple(words), breaks=frozenset(breaks))


def paragraph(
    words: Sequence[str], *, x: float = MARGIN, y: float = MARGIN, width: float = LETTER[0] - 2 * MARGIN,
    size: float = 11, font: str | None = None,
) -> list[Line]:  # fmt: skip
    """Filled lines from the left."""
    face = _face(font, size * 10)
    lines: list[Line] = []
    row: list[str] = []
    for word in words:
        if row and face.getlength(" ".join([*row, word])) / 10 > width:
            lines.append(Line(x, y + len(lines) * size * 1.35, " ".join(row), size))
            row = []
        row.append(word)
    return [*lines, Line(x, y + len(lines) * size * 1.35, " ".join(row), size)]


def table(rows: Sequence[Sequence[str]], *, columns: Sequence[float], y: float, size: float = 10) -> list[Line]:
    """Cells from the left of their columns, without rules, as invoices have it."""
    return [
        Line(x, y + number * size * 1.9, cell, size, follows=index > 0)
        for number, row in enumerate(rows)
        for index, (x, cell) in enumerate(zip(columns, row, strict=True))
    ]


def turned(page: Printed, quarters: int) -> Printed:
    """Counterclockwise, by quarters of a circle."""
    for _ in range(quarters % 4):
        width = page.image.width
        page = replace(
            page,
            image=page.image.transpose(Image.Transpose.ROTATE_90),
            words=tuple((word, (y0, width - x1, y1, width - x0)) for word, (x0, y0, x1, y1) in page.words),
        )
    return page


def leaning(page: Printed, degrees: float) -> Printed:
    """Counterclockwise; the paper grows."""
    image = page.image.rotate(degrees, resample=Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    middle, new = (page.image.width / 2, page.image.height / 2), (image.width / 2, image.height / 2)
    words = []
    for word, (x0, y0, x1, y1) in page.words:
        corners = [(x - middle[0], y - middle[1]) for x in (x0, x1) for y in (y0, y1)]
        xs = [x * cos + y * sin + new[0] for x, y in corners]
        ys = [y * cos - x * sin + new[1] for x, y in corners]
        words.append((word, (min(xs), min(ys), max(xs), max(ys))))
    return replace(page, image=image, words=tuple(words))


def speckled(page: Printed, share: float) -> Printed:
    """Salt and pepper."""
    grey = np.asarray(page.image).copy()
    chance = np.random.default_rng(5).random(grey.shape)
    grey[chance < share / 2] = 0
    grey[chance > 1 - share / 2] = 255
    return replace(page, image=Image.fromarray(grey))


def grainy(page: Printed, strength: float) -> Printed:
    """Gaussian noise of so many grey levels."""
    grey = np.asarray(page.image, dtype=np.float32)
    noise = np.random.default_rng(6).normal(0, strength, grey.shape)
    return replace(page, image=Image.fromarray((grey + noise).clip(0, 255).astype(np.uint8)))


def blurred(page: Printed, pixels: float) -> Printed:
    return replace(page, image=page.image.filter(ImageFilter.GaussianBlur(pixels)))


def faded(page: Printed, *, ink: int = 120, paper: int = 200) -> Printed:
    """Little contrast."""
    return replace(page, image=page.image.point(lambda value: ink + value * (paper - ink) // 255))


def compressed(page: Printed, quality: int) -> Printed:
    """As a JPEG of that quality."""
    out = io.BytesIO()
    page.image.save(out, "JPEG", quality=quality)
    return replace(page, image=Image.open(out).convert("L"))


def inverted(page: Printed) -> Printed:
    return replace(page, image=ImageChops.invert(page.image))


def overlap(a: Box, b: Box) -> float:
    """The area that two boxes share, of that which they cover (intersection over union)."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def _face(font: str | None, pixels: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.truetype(font, pixels) if font else ImageFont.load_default(size=pixels)
