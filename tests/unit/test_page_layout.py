"""What the recognition of pages decides without looking at one: sizes, boxes, tilt, trust, text."""

import io

import pytest
from PIL import Image

from app.domain.errors import DocumentFault
from app.domain.pages import Page, Source, Word, text_of
from app.domain.warnings import WarningCode
from app.reading.children import wire
from app.reading.faults import is_junk, scrubbed
from app.reading.geometry import check_pixels, clipped_box, displayed_box, render_dpi, rotated_back
from app.reading.image.deskew import tilt
from tests.support.sample_documents import SENTENCE, drawn

LETTER = (0.0, 0.0, 612.0, 792.0)


def test_a_letter_is_rendered_as_wanted() -> None:
    assert render_dpi(width=612, height=792, wanted=200) == 200


def test_a_poster_is_rendered_coarser_to_stay_within_the_pixel_budget() -> None:
    dpi = render_dpi(width=4000, height=4000, wanted=200)
    assert 72 <= dpi < 200
    assert (4000 * dpi / 72) ** 2 <= 50_000_000


def test_a_long_till_roll_stays_below_sixteen_bits_a_side() -> None:
    assert 14_300 * render_dpi(width=10, height=14_300, wanted=200) / 72 < 32_767


@pytest.mark.threat(53)
def test_a_page_too_large_even_at_the_lowest_resolution_is_refused() -> None:
    with pytest.raises(DocumentFault, match="200 x 200 inches") as refused:
        render_dpi(width=14_400, height=14_400, wanted=200)
    assert refused.value.code == "too_large"


@pytest.mark.threat(52)
@pytest.mark.parametrize(("width", "height"), [(50_000, 50_000), (40_000, 10)])
def test_an_image_of_too_many_pixels_is_refused(width: int, height: int) -> None:
    with pytest.raises(DocumentFault) as refused:
        check_pixels(width=width, height=height)
    assert refused.value.code == "too_large"


@pytest.mark.parametrize(
    ("rotation", "expected"),
    [
        (0, (10, 772, 50, 782)),
        (90, (10, 10, 20, 50)),
        (180, (562, 10, 602, 20)),
        (270, (772, 562, 782, 602)),
    ],
)
def test_a_box_at_the_lower_left_follows_the_pages_rotation(
    rotation: int, expected: tuple[float, float, float, float]
) -> None:
    assert displayed_box((10, 10, 50, 20), bounds=LETTER, rotation=rotation) == expected


def test_a_box_is_measured_from_the_corner_of_the_crop() -> None:
    assert displayed_box((110, 110, 150, 120), bounds=(100, 100, 300, 400), rotation=0) == (10, 280, 50, 290)


def test_a_box_beyond_the_page_is_cut_at_its_edge() -> None:
    assert clipped_box((-5, 3.14159, 700, 900), width=612, height=792) == (0, 3.14, 612, 792)


def test_a_box_on_a_turned_image_goes_back_to_where_it_was() -> None:
    image = Image.new("L", (400, 200), 255)
    image.paste(0, (300, 40, 320, 50))
    turned = image.rotate(10, expand=True, fillcolor=255)
    dark = turned.point(lambda value: 255 if value < 128 else 0).getbbox()
    assert dark is not None
    x0, y0, x1, y1 = rotated_back(dark, degrees=10, size=turned.size, original=image.size)
    assert ((x0 + x1) / 2, (y0 + y1) / 2) == pytest.approx((310, 45), abs=1.5)


@pytest.mark.parametrize("degrees", [-8, -3, 2, 5, 11])
def test_the_tilt_of_a_page_of_text_is_found(degrees: int) -> None:
    page = drawn(*[SENTENCE] * 12, size=(1200, 1200))
    tilted = page.rotate(degrees, expand=True, fillcolor=255, resample=Image.Resampling.BICUBIC)
    assert tilt(tilted) == pytest.approx(-degrees, abs=0.3)


def test_the_tilt_of_a_page_on_its_side_is_found() -> None:
    page = drawn(*[SENTENCE] * 12, size=(1200, 1200))
    assert tilt(page.rotate(95, expand=True, fillcolor=255)) == pytest.approx(-5, abs=0.3)


@pytest.mark.parametrize(
    "page",
    [
        drawn(*[SENTENCE] * 12, size=(1200, 1200)),
        Image.new("L", (500, 500), 255),
        Image.new("L", (1, 1)),
        Image.new("L", (3000, 2)),
    ],
    ids=["level", "blank", "pixel", "line"],
)
def test_what_is_level_or_no_text_is_left_alone(page: Image.Image) -> None:
    assert tilt(page) == 0


def test_text_keeps_lines_and_loses_what_a_database_cannot_hold() -> None:
    assert scrubbed("a\x00b\tc\nd\x1b\x85e\ud800f\ud835\udc00") == "ab\tc\ndef\U0001d400"


@pytest.mark.parametrize(("character", "junk"), [("\ufffd", True), ("\ue000", True), ("\0", True), ("é", False)])
def test_junk_is_what_no_reader_would_see(character: str, *, junk: bool) -> None:
    assert is_junk(character) is junk


def test_words_are_joined_by_spaces_lines_and_paragraphs() -> None:
    places = [(0, 0), (0, 0), (0, 1), (1, 2), (2, 3)]
    words = [
        Word(text=text, box=(0, 0, 1, 1), confidence=1, source=Source.OCR, line=line, block=block)
        for text, (block, line) in zip("abcde", places, strict=True)
    ]
    assert text_of(words) == "a b\nc\n\nd\n\ne"
    assert text_of([]) == ""


def test_a_page_crosses_the_pipe_unchanged() -> None:
    page = Page(
        number=3,
        text="naïve 𝐀\n",
        source=Source.OCR,
        confidence=0.5,
        width=612.0,
        height=792.0,
        rotation=90,
        language="eng",
        words=(Word(text="naïve", box=(1.0, 2.0, 3.0, 4.25), confidence=0.5, source=Source.OCR, line=3, block=1),),
        warnings=(WarningCode.LOW_CONFIDENCE,),
    )
    message = wire.read(io.BytesIO(wire.frame(wire.packed_words(page))))
    assert message is not None
    assert wire.unpacked_words(message) == page


def test_a_pipe_that_closed_has_no_message() -> None:
    assert wire.read(io.BytesIO(b"\0\0")) is None
