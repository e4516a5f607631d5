"""Images of pages, and the children that draw them: born when needed, killed when not, hurt by nothing."""

import asyncio
import io
import os
import signal
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pikepdf
import pytest
import pytest_asyncio
from PIL import Image, ImageChops, ImageCms, ImageStat

from app.domain.errors import DocumentFault, NotFound, Unavailable
from app.domain.pages import Page, Source
from app.reading.renderer import ProcessRenderer
from tests.support.rig import new_page
from tests.support.sample_documents import LETTER, SENTENCE, Sheet, drawn, encoded, encrypted_pdf, pdf
from tests.support.scans import jpeg, page_image, scan, searchable, selected, whole
from tests.unit.waiting import until

PDF, PNG, TIFF, JPEG = "application/pdf", "image/png", "image/tiff", "image/jpeg"
SCAN = scan()

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def renderer() -> AsyncIterator[ProcessRenderer]:
    renderer = ProcessRenderer(children=1, timeout=timedelta(seconds=20))
    yield renderer
    await renderer.close()


def living(renderer: ProcessRenderer) -> list[int]:
    return [child.pid for child in renderer._pool._living]


@pytest.mark.parametrize("width", [16, 611, 612, 613, 1000, 4000])
async def test_a_page_is_drawn_as_wide_as_asked_for(renderer: ProcessRenderer, width: int) -> None:
    image = await page_image(renderer, pdf(Sheet(lines=(SENTENCE,))), width=width)
    assert (image.format, image.width) == ("PNG", width)
    assert image.height == pytest.approx(width * LETTER[1] / LETTER[0], abs=1)


@pytest.mark.parametrize(
    ("extra", "size"),
    [("", (612, 792)), ("/Rotate 90", (792, 612)), ("/CropBox[100 100 400 700]", (300, 600)),
     ("/CropBox[100 100 400 700]/Rotate 270", (600, 300))],
)  # fmt: skip
async def test_a_page_is_drawn_as_it_is_displayed(renderer: ProcessRenderer, extra: str, size: tuple[int, int]) -> None:
    image = await page_image(renderer, pdf(Sheet(image=SCAN.image, extra=extra)), width=size[0])
    assert image.size == size


async def test_a_grey_page_is_sent_in_grey_and_a_coloured_one_in_colour(renderer: ProcessRenderer) -> None:
    red = Image.new("RGB", (200, 100), "red")
    assert (await page_image(renderer, pdf(Sheet(lines=(SENTENCE,))))).mode == "L"
    shown = await page_image(renderer, encoded(red), media_type=PNG, width=50)
    assert (shown.mode, shown.size, shown.getpixel((25, 12))) == ("RGB", (50, 25), (255, 0, 0))


@pytest.mark.parametrize("orientation", range(1, 9))
async def test_a_photograph_is_shown_upright_however_it_was_stored(renderer: ProcessRenderer, orientation: int) -> None:
    image = drawn(SENTENCE, size=(600, 200))
    shown = await page_image(renderer, jpeg(image, orientation=orientation), media_type=JPEG, width=600)
    assert shown.size == (600, 200)
    inked = shown.point(lambda value: 255 * (value < 128)).getbbox()
    expected = image.point(lambda value: 255 * (value < 128)).getbbox()
    assert inked is not None
    assert expected is not None
    assert all(abs(a - b) < 4 for a, b in zip(inked, expected, strict=True))


async def test_pixels_that_are_not_square_are_shown_as_the_page_is(renderer: ProcessRenderer) -> None:
    fax = encoded(Image.new("1", (1728, 1100), 1), "TIFF", dpi=(204, 98))
    shown = await page_image(renderer, fax, media_type=TIFF, width=1000)
    assert shown.height == pytest.approx(1000 * (1100 / 98) / (1728 / 204), abs=1)


async def test_letters_on_nothing_are_shown_on_paper(renderer: ProcessRenderer) -> None:
    for ink, paper in (("black", 255), ("white", 0)):
        image = Image.new("RGBA", (100, 100), (0, 0, 0, 0))
        image.paste(ink, (40, 40, 60, 60))
        shown = (await page_image(renderer, encoded(image), media_type=PNG, width=100)).convert("L")
        assert (shown.getpixel((5, 5)), shown.getpixel((50, 50))) == (paper, 255 - paper)


async def test_what_was_filled_in_and_noted_is_shown(renderer: ProcessRenderer) -> None:
    with pikepdf.open(io.BytesIO(pdf(Sheet()))) as made:
        look = made.make_stream(b"1 0 0 rg 0 0 200 200 re f")
        look.Type, look.Subtype, look.BBox = pikepdf.Name.XObject, pikepdf.Name.Form, [0, 0, 200, 200]
        note = pikepdf.Dictionary(Type=pikepdf.Name.Annot, Subtype=pikepdf.Name.Stamp, Rect=[100, 100, 300, 300], F=4)
        note.AP = pikepdf.Dictionary(N=look)
        made.pages[0].obj.Annots = pikepdf.Array([made.make_indirect(note)])
        content = saved(made)
    shown = await page_image(renderer, content, width=612)
    assert shown.getpixel((200, 792 - 200)) == (255, 0, 0)


@pytest.mark.threat(52)
@pytest.mark.parametrize("size", [(14_400, 14_400), (10, 14_400), (14_400, 10), (1, 1)])
async def test_a_page_of_any_size_is_shown_within_bounds(renderer: ProcessRenderer, size: tuple[int, int]) -> None:
    image = await page_image(renderer, pdf(Sheet(size=size)), width=4000)
    assert 1 <= image.width <= 4000
    assert image.width * image.height <= 24_100_000


@pytest.mark.parametrize("number", [0, -1, 2, 10**30])
async def test_a_page_that_is_not_there_is_said_to_be_so(renderer: ProcessRenderer, number: int) -> None:
    for content, media_type in ((pdf(Sheet()), PDF), (encoded(SCAN.image), PNG)):
        with pytest.raises(NotFound):
            await page_image(renderer, content, number=number, media_type=media_type)


def nested(levels: int = 9) -> bytes:
    """A form that draws a form ten times, which draws a form ten times: a billion letters in two kilobytes."""
    with pikepdf.new() as made:
        inner = made.make_stream(b"BT /F 12 Tf (x) Tj ET")
        inner.Type, inner.Subtype, inner.BBox = pikepdf.Name.XObject, pikepdf.Name.Form, [0, 0, 612, 792]
        for _ in range(levels):
            outer = made.make_stream(b"/X Do " * 10)
            outer.Type, outer.Subtype, outer.BBox = pikepdf.Name.XObject, pikepdf.Name.Form, [0, 0, 612, 792]
            outer.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(X=inner))
            inner = outer
        page = made.add_blank_page(page_size=LETTER)
        page.obj.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(X=inner))
        page.obj.Contents = made.make_stream(b"/X Do")
        return saved(made)


def saved(made: pikepdf.Pdf, **options: Any) -> bytes:
    out = io.BytesIO()
    made.save(out, **options)
    return out.getvalue()


HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", PDF),
    "no pdf": (b"%PDF-1.7 nothing of a PDF follows", PDF),
    "encrypted": (encrypted_pdf(), PDF),
    "half a pdf": (pdf(Sheet(image=SCAN.image))[:20_000], PDF),
    "no pages": (pdf(), PDF),
    "a billion letters": (nested(), PDF),
    "half an image": (encoded(SCAN.image)[:3000], PNG),
    "no image": (b"\x89PNG\r\n\x1a\n and nothing else", PNG),
    "half a jpeg": (jpeg(SCAN.image)[:100], JPEG),
    "pixels beyond count": (encoded(Image.new("1", (8000, 8000))), PNG),
}  # fmt: skip


@pytest.mark.threat(51, 52, 53, 54)
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("copied", [False, True], ids=["page_image", "copy"])
async def test_a_hostile_file_is_said_to_be_one_and_hurts_nothing_else(name: str, *, copied: bool) -> None:
    content, media_type = HOSTILE[name]
    renderer = ProcessRenderer(children=1, timeout=timedelta(seconds=5), memory_bytes=512 * 1024 * 1024)
    if copied:
        work: Awaitable[object] = searchable(renderer, content, [new_page()], media_type=media_type)
    else:
        work = page_image(renderer, content, media_type=media_type)
    [ended] = await asyncio.gather(work, return_exceptions=True)
    if isinstance(ended, DocumentFault):
        assert ended.code in {"corrupt", "encrypted", "empty", "too_large", "timeout"}
    else:
        # What need not be drawn goes well, and what could be repaired.
        assert isinstance(ended, bytes) or name == "half a pdf"
    assert (await page_image(renderer, pdf(Sheet()), width=50)).width == 50
    await renderer.close()


ODD = [
    "/MediaBox[0 0 0 0]", "/MediaBox[(a) /b 3 4]", "/MediaBox 5", "/MediaBox[612 792 0 0]", "/CropBox[900 900 901 901]",
    "/Rotate 45", "/Rotate 1e9", "/Rotate /x", "/Resources 7", "/Resources<</Font 7>>", "/Contents 7", "/Contents[7 8]",
    "/Parent 7", "/UserUnit 75",
]  # fmt: skip


@pytest.mark.threat(53)
@pytest.mark.parametrize("extra", ODD)
async def test_an_odd_page_ends_in_a_copy_or_in_a_fault_of_the_file(renderer: ProcessRenderer, extra: str) -> None:
    content = pdf(Sheet(lines=(SENTENCE,))).replace(b"/Type/Page/", f"/Type/Page{extra}/".encode())
    [ended] = await asyncio.gather(searchable(renderer, content, [word_page(1)]), return_exceptions=True)
    if isinstance(ended, DocumentFault):
        assert ended.code == "corrupt"
    else:
        assert isinstance(ended, bytes)
        assert selected(ended).split() in ([], ["word1"], ["word1", *SENTENCE.split()])


async def test_nothing_of_the_pages_own_is_changed(renderer: ProcessRenderer) -> None:
    content = pdf(*[Sheet(image=drawn(SENTENCE)), Sheet(lines=(SENTENCE,)), Sheet()] * 2)
    copy = await searchable(renderer, content, [word_page(1), word_page(4)])
    with pikepdf.open(io.BytesIO(content)) as before, pikepdf.open(io.BytesIO(copy)) as after:
        for number, (old, new) in enumerate(zip(before.pages, after.pages, strict=True), start=1):
            streams = list(new.obj.Contents) if isinstance(new.obj.Contents, pikepdf.Array) else [new.obj.Contents]
            assert len(streams) == (2 if number in {1, 4} else 1)
            assert streams[-1].read_raw_bytes() == old.obj.Contents.read_raw_bytes()
            assert raw_image(new) == raw_image(old)
            assert new.mediabox == old.mediabox


def raw_image(page: pikepdf.Page) -> bytes | None:
    image = page.obj.Resources.XObject.get(pikepdf.Name.I)
    return image.read_raw_bytes() if isinstance(image, pikepdf.Stream) else None


def word_page(number: int) -> Page:
    page = new_page(number, text=f"word{number}")
    return replace(page, words=tuple(replace(word, source=Source.OCR) for word in page.words))


@pytest.mark.parametrize("damage", ["junk ahead", "cut off"])
async def test_a_damaged_pdf_has_a_copy_of_what_it_could_be_repaired_to(renderer: ProcessRenderer, damage: str) -> None:
    content = pdf(Sheet(lines=(SENTENCE,)), Sheet(image=drawn(SENTENCE)))
    content = b"x" * 5000 + content if damage == "junk ahead" else content[: content.rindex(b"xref")]
    copy = await searchable(renderer, content, [word_page(2)])
    assert [text.split() for text in selected(copy).split("\f")] == [SENTENCE.split(), ["word2"]]
    before, after = [await page_image(renderer, each, number=2) for each in (content, copy)]
    assert before.tobytes() == after.tobytes()


async def test_pages_that_share_their_resources_keep_them(renderer: ProcessRenderer) -> None:
    with pikepdf.new() as made:
        shared = made.make_indirect(pikepdf.Dictionary(Font=pikepdf.Dictionary(DairaText=pikepdf.Dictionary(
            Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica))))  # fmt: skip
        for _ in range(2):
            page = made.add_blank_page(page_size=LETTER)
            page.obj.Resources = shared
            page.obj.Contents = made.make_stream(b"BT /DairaText 20 Tf 72 700 Td (own) Tj ET")
        content = saved(made)
    before, copy = await page_image(renderer, content), await searchable(renderer, content, [word_page(1)])
    assert (await page_image(renderer, copy)).tobytes() == before.tobytes()
    assert [text.split() for text in selected(copy).split("\f")] == [["word1", "own"], ["own"]]


async def test_an_owners_restrictions_stay(renderer: ProcessRenderer) -> None:
    with pikepdf.open(io.BytesIO(pdf(Sheet(image=SCAN.image)))) as made:
        lock = pikepdf.Encryption(owner="owner", user="", allow=pikepdf.Permissions(extract=False))
        content = saved(made, encryption=lock)
    copy = await searchable(renderer, content, [word_page(1)])
    with pikepdf.open(io.BytesIO(copy)) as opened:
        assert opened.is_encrypted
        assert not opened.allow.extract
    assert selected(copy).split() == ["word1"]


BANDS = [Image.linear_gradient("L"), Image.radial_gradient("L"), *[Image.new("L", (256, 256), 7)] * 2]
LOSSLESS = {
    "bilevel": SCAN.image.convert("1"),
    "grey": SCAN.image,
    "palette": Image.effect_mandelbrot((200, 100), (-2, -1, 1, 1), 50).convert("P"),
    "colour": Image.merge("RGB", BANDS[:3]),
    "cmyk": Image.merge("CMYK", BANDS),
    "16 bits": Image.frombytes("I;16", (256, 2), bytes(range(256)) * 4),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSLESS)
async def test_pixels_are_kept_as_they_are(renderer: ProcessRenderer, name: str) -> None:
    image = LOSSLESS[name]
    copy = await searchable(renderer, encoded(image, "TIFF"), [], media_type=TIFF)
    with pikepdf.open(io.BytesIO(copy)) as opened:
        embedded = opened.pages[0].obj.Resources.XObject.Image
        assert isinstance(embedded, pikepdf.Stream)
        samples = embedded.read_bytes()
        assert (int(embedded.Width), int(embedded.Height)) == image.size
        shown = pikepdf.PdfImage(embedded)
        if name in {"bilevel", "grey", "colour", "palette"}:
            assert shown.as_pil_image().convert("RGB").tobytes() == image.convert("RGB").tobytes()
        elif name == "cmyk":
            assert samples == image.tobytes()
        else:
            assert samples == b"".join(image.tobytes()[at : at + 2][::-1] for at in range(0, 1024, 2))


async def test_a_jpeg_is_embedded_as_it_is(renderer: ProcessRenderer) -> None:
    content = jpeg(SCAN.image.convert("RGB"), orientation=6, quality=71)
    copy = await searchable(renderer, content, [], media_type=JPEG)
    with pikepdf.open(io.BytesIO(copy)) as opened:
        image = opened.pages[0].obj.Resources.XObject.Image
        assert (image.read_raw_bytes(), image.Filter) == (content, pikepdf.Name.DCTDecode)
    assert len(copy) < len(content) + 3000


async def test_a_jpeg_for_print_keeps_its_colours(renderer: ProcessRenderer) -> None:
    content = encoded(Image.new("RGB", (64, 64), (200, 40, 90)).convert("CMYK"), "JPEG")
    copy = await searchable(renderer, content, [], media_type=JPEG)
    shown = (await page_image(renderer, copy, width=64)).convert("RGB")
    expected = (await page_image(renderer, content, media_type=JPEG, width=64)).convert("RGB")
    assert max(ImageStat.Stat(ImageChops.difference(shown, expected)).mean) < 40


async def test_a_colour_profile_comes_along_if_it_fits_the_pixels(renderer: ProcessRenderer) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for mode, fits in (("RGB", True), ("L", False)):
        content = encoded(Image.new(mode, (30, 30)), "PNG", icc_profile=profile)
        copy = await searchable(renderer, content, [], media_type=PNG)
        assert (b"/ICCBased" in copy) is fits
        assert (await page_image(renderer, copy, width=30)).width == 30


async def test_no_child_is_there_before_it_is_needed_and_none_stays_for_long() -> None:
    renderer = ProcessRenderer(children=2, rested=timedelta(milliseconds=50))
    assert living(renderer) == []
    await page_image(renderer, pdf(Sheet()))
    [pid] = living(renderer)
    await until(lambda: living(renderer) == [])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert (await page_image(renderer, pdf(Sheet()))).width == 1000
    await renderer.close()


async def test_work_that_nobody_waits_for_any_more_ends_at_once(renderer: ProcessRenderer) -> None:
    work = asyncio.create_task(page_image(renderer, nested()))
    await until(lambda: busy(renderer))
    [pid] = living(renderer)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await until(lambda: pid not in living(renderer))
    assert (await page_image(renderer, pdf(Sheet()))).width == 1000


def busy(renderer: ProcessRenderer) -> bool:
    return any(child.is_busy and child.files for child in renderer._pool._living)


async def test_a_renderer_that_is_killed_is_the_files_fault_and_the_next_is_fresh(renderer: ProcessRenderer) -> None:
    work = asyncio.create_task(page_image(renderer, nested()))
    await until(lambda: busy(renderer))
    os.kill(living(renderer)[0], signal.SIGKILL)
    with pytest.raises(DocumentFault, match="crashed the renderer"):
        await work
    assert (await page_image(renderer, pdf(Sheet()))).width == 1000


async def test_a_closed_renderer_is_unavailable_to_who_is_served_and_to_who_comes() -> None:
    renderer = ProcessRenderer(children=1)
    work = asyncio.create_task(page_image(renderer, nested()))
    await until(lambda: busy(renderer))
    await renderer.close()
    with pytest.raises(Unavailable):
        await work
    with pytest.raises(Unavailable):
        await page_image(renderer, pdf(Sheet()))


async def test_a_result_without_end_is_cut_off(renderer: ProcessRenderer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.reading.renderer._MOST_BYTES", 1000)
    with pytest.raises(DocumentFault, match="too large") as ended:
        await page_image(renderer, pdf(Sheet(image=SCAN.image)))
    assert ended.value.code == "too_large"
    monkeypatch.undo()
    assert (await page_image(renderer, pdf(Sheet()))).width == 1000


async def test_of_a_copy_no_file_is_left(
    renderer: ProcessRenderer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    await page_image(renderer, pdf(Sheet()))
    with pytest.raises(DocumentFault):
        await page_image(renderer, b"%PDF-1.7")
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - nobody else waits for the loop


async def test_bytes_that_are_refused_midway_start_no_child() -> None:
    async def refused() -> AsyncIterator[bytes]:
        async for chunk in whole(pdf(Sheet())):
            yield chunk
        raise NotFound("gone")

    renderer = ProcessRenderer(children=1)
    with pytest.raises(NotFound, match="gone"):
        await renderer.page_image(refused(), media_type=PDF, number=1, width=100, into=io.BytesIO())
    assert living(renderer) == []
    await renderer.close()
