"""Pictures as phones and browsers make them: HEIC, AVIF, and those that move."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from app.domain.errors import DocumentFault
from app.domain.pages import Page
from app.domain.warnings import WarningCode
from app.ports.reading import Mode
from app.reading.recognizer import ProcessRecognizer
from tests.support.heic import SIZE, TEXT, heic
from tests.support.reading import Written, pages_of, type_of
from tests.support.sample_documents import SENTENCE, drawn, encoded

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def recognizer() -> AsyncIterator[ProcessRecognizer]:
    recognizer = ProcessRecognizer(children=1, max_pages=5)
    await recognizer.start()
    yield recognizer
    await recognizer.close()


async def pages(
    recognizer: ProcessRecognizer, written: Written, content: bytes, *, mode: Mode = Mode.AUTO
) -> list[Page]:
    return await pages_of(recognizer, written(content), media_type=type_of(content), mode=mode)


@pytest.mark.parametrize("major", [b"heic", b"mif1"])
async def test_a_photo_of_a_phone_is_read(recognizer: ProcessRecognizer, written: Written, major: bytes) -> None:
    [page] = await pages(recognizer, written, heic(major=major))
    assert (page.text, page.warnings) == (TEXT, ())
    assert (page.width, page.height) == (SIZE[0] * 72 / 200, SIZE[1] * 72 / 200)


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
async def test_a_photo_is_turned_once_by_its_container(
    recognizer: ProcessRecognizer, written: Written, turned: int
) -> None:
    [page] = await pages(recognizer, written, heic(turned=turned), mode=Mode.SKIP)
    assert page.width is not None
    assert page.height is not None
    assert (page.width > page.height) == (turned in {0, 180})
    assert page.rotation == 0


@pytest.mark.threat(52)
@pytest.mark.parametrize(
    ("code", "content"),
    [
        ("too_large", heic(claims=(20_000, 10_000))),
        ("corrupt", heic(claims=(64, 48))),
        ("corrupt", heic()[:-1]),
        ("corrupt", heic()[:1500]),
        ("corrupt", heic()[:-700]),
        ("corrupt", heic()[:200]),
        ("corrupt", heic(picture=b"\0" * 500)),
        ("corrupt", heic().replace(b"hvc1", b"xxxx")),
    ],
)
async def test_a_photo_that_lies_or_breaks_off_ends_in_its_code(
    recognizer: ProcessRecognizer, written: Written, code: str, content: bytes
) -> None:
    [child] = recognizer._pool._living
    with pytest.raises(DocumentFault) as ended:
        await pages(recognizer, written, content)
    assert ended.value.code == code
    assert list(recognizer._pool._living) == [child]


async def test_avif_is_read_and_one_cut_short_is_not(recognizer: ProcessRecognizer, written: Written) -> None:
    content = encoded(drawn(SENTENCE), "AVIF")
    [page] = await pages(recognizer, written, content)
    assert page.text == SENTENCE
    with pytest.raises(DocumentFault) as ended:
        await pages(recognizer, written, content[:-500])
    assert ended.value.code == "corrupt"


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "AVIF"])
async def test_of_an_animation_the_first_frame_is_read_and_the_page_says_so(
    recognizer: ProcessRecognizer, written: Written, kind: str
) -> None:
    still, moving = drawn(SENTENCE), [drawn("another"), drawn("last")]
    [page] = await pages(recognizer, written, encoded(still, kind, save_all=True, append_images=moving))
    assert (page.text, page.warnings) == (SENTENCE, (WarningCode.ANIMATION_FIRST_FRAME,))
    [page] = await pages(recognizer, written, encoded(still, kind))
    assert (page.text, page.warnings) == (SENTENCE, ())


async def test_an_animation_that_breaks_off_after_its_first_frame_is_read(
    recognizer: ProcessRecognizer, written: Written
) -> None:
    first = encoded(drawn(SENTENCE), "GIF")
    content = encoded(drawn(SENTENCE), "GIF", save_all=True, append_images=[drawn("another")])
    [page] = await pages(recognizer, written, content[: len(first) + 100])
    assert page.text == SENTENCE


@pytest.mark.threat(52)
async def test_a_tiff_whose_frames_go_round_in_a_circle_has_an_end(
    recognizer: ProcessRecognizer, written: Written
) -> None:
    image = drawn(SENTENCE).convert("1")
    content = bytearray(encoded(image, "TIFF", save_all=True, append_images=[image]))
    second = _next_frame(content, int.from_bytes(content[4:8], "little"))
    at = _end_of_frame(content, second)
    content[at : at + 4] = content[4:8]
    read = await pages(recognizer, written, bytes(content))
    assert [page.text for page in read] == [SENTENCE, SENTENCE]


def _end_of_frame(content: bytearray, frame: int) -> int:
    return frame + 2 + 12 * int.from_bytes(content[frame : frame + 2], "little")


def _next_frame(content: bytearray, frame: int) -> int:
    at = _end_of_frame(content, frame)
    return int.from_bytes(content[at : at + 4], "little")
