"""What is done to a picture before it is read, and when it is read again: decided without an engine."""

from dataclasses import replace

import pytest
from PIL import Image
from pydantic import ValidationError

from app import settings as settings_module
from app.reading.engine import RecognizedWord, RenderFiner
from app.reading.engines import choose, rapidocr
from app.reading.engines.fallback import FallbackEngine, SmallPrintEngine, missed_cells
from app.reading.image.preprocessing import preprocessed
from app.reading.image.scan import recognised
from app.settings import Role, Settings
from tests.support.typesetting import PROSE, Printed, grainy, inverted, leaning, paragraph, printed, speckled

WORD = RecognizedWord(text="word", box=(10, 10, 50, 40), confidence=0.95, line=0, block=0)
PAGE = Image.new("L", (400, 300), 255)


class Scripted:
    """An Engine that answers in turn, and notes the sizes that it was shown."""

    def __init__(self, *answers: list[RecognizedWord]) -> None:
        self._answers = list(answers)
        self.shown: list[tuple[tuple[int, int], int]] = []

    def words(
        self,
        image: Image.Image,
        *,
        language: str,  # noqa: ARG002 - the protocol
        dpi: int,
        finer: RenderFiner | None = None,  # noqa: ARG002 - the protocol
    ) -> list[RecognizedWord]:
        self.shown.append((image.size, dpi))
        return self._answers.pop(0)


def of(*, confidence: float, count: int = 5, height: float = 30) -> list[RecognizedWord]:
    return [replace(WORD, confidence=confidence, box=(10, 10, 50, 10 + height))] * count


def text(dpi: int = 200, size: float = 9) -> Printed:
    return printed(paragraph(PROSE[:60], x=20, y=20, width=260, size=size), paper=(300, 200), dpi=dpi)


@pytest.mark.parametrize("dpi", [75, 100, 150, 200, 300])
def test_a_clean_page_is_left_alone(dpi: int) -> None:
    page = text(dpi).image
    assert preprocessed(page) is page


def test_a_little_grain_is_left_alone_and_much_is_smoothed() -> None:
    little, much = grainy(text(), 12).image, grainy(text(), 40).image
    assert preprocessed(little) is little
    assert sum(preprocessed(much).histogram()[:60]) < sum(much.histogram()[:60])


@pytest.mark.parametrize("share", [0.01, 0.02, 0.05])
def test_speckles_go_and_letters_stay(share: float) -> None:
    page = text()
    dark = sum(page.image.histogram()[:100])
    cleaned = sum(preprocessed(speckled(page, share).image).histogram()[:100])
    assert cleaned == pytest.approx(dark, rel=0.25)


def test_white_on_black_becomes_black_on_white() -> None:
    page = text().image
    assert preprocessed(inverted(text()).image).tobytes() == page.tobytes()
    receipt_on_a_dark_table = Image.new("L", (400, 300), 20)
    receipt_on_a_dark_table.paste(240, (100, 0, 250, 300))
    assert preprocessed(receipt_on_a_dark_table) is receipt_on_a_dark_table


def test_small_doubtful_words_are_looked_at_larger_and_stay_where_they_are() -> None:
    engine = Scripted(of(confidence=0.8, height=10), [replace(WORD, confidence=0.9, box=(20, 20, 100, 40))])
    [word] = SmallPrintEngine(engine).words(PAGE, language="eng", dpi=100)
    assert engine.shown == [((400, 300), 100), ((800, 600), 200)]
    assert (word.confidence, word.box) == (0.9, (10, 10, 50, 20))


def test_a_second_look_that_is_less_sure_does_not_count() -> None:
    first = of(confidence=0.8, height=10)
    assert SmallPrintEngine(Scripted(first, of(confidence=0.7))).words(PAGE, language="eng", dpi=100) == first


@pytest.mark.parametrize(
    "first", [[], of(confidence=0.95, height=10), of(confidence=0.5, height=20)], ids=["nothing", "sure", "large"]
)
def test_one_look_is_enough_for_words_that_are_sure_or_large(first: list[RecognizedWord]) -> None:
    assert SmallPrintEngine(Scripted(first)).words(PAGE, language="eng", dpi=200) == first


def test_a_second_look_uses_what_the_source_can_show() -> None:
    engine = Scripted(of(confidence=0.8, height=10), of(confidence=0.9, height=20))
    asked: list[float] = []

    def finer(times: float) -> Image.Image:
        asked.append(times)
        return Image.new("L", (900, 700), 255)

    recognised(SmallPrintEngine(engine), PAGE, language="eng", dpi=200, finer=finer)
    assert asked == [2.0]
    assert engine.shown[1][0] == (900, 700)


def test_a_fine_scan_is_looked_at_with_225_dpi_and_again_with_what_it_has() -> None:
    engine = Scripted(of(confidence=0.8, height=10), of(confidence=0.9, height=15))
    scan = Image.new("L", (1200, 900), 255)
    words = recognised(SmallPrintEngine(engine), scan, language="eng", dpi=675)
    assert [size for size, _ in engine.shown] == [(400, 300), (800, 600)]
    assert words[0].box == (15, 15, 75, 37.5)


def test_auto_asks_the_second_engine_only_in_doubt_and_keeps_the_better() -> None:
    poor, good, worse = of(confidence=0.7), of(confidence=0.9), of(confidence=0.95, count=2)
    for first, second, kept in ((good, [], good), (poor, good, good), (poor, worse, poor)):
        auto = FallbackEngine(first=Scripted(first), open_second=lambda second=second: Scripted(second))  # type: ignore[misc]
        assert auto.words(PAGE, language="eng", dpi=200) == kept
    logo = of(confidence=0.3, count=3)
    assert FallbackEngine(first=Scripted(logo), open_second=Scripted).words(PAGE, language="eng", dpi=200) == logo


def test_memory_is_what_the_engine_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose.memory_bytes("rapidocr") == choose.memory_bytes("auto") == 3 * 2**30
    monkeypatch.setattr(rapidocr, "is_installed", lambda: False)
    assert choose.memory_bytes("auto") == choose.memory_bytes("tesseract") == 1.5 * 2**30


def test_rapidocr_without_its_extra_is_a_fault_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings(ocr="rapidocr").ocr == "rapidocr"
    monkeypatch.setattr(settings_module, "find_spec", lambda _: None)
    with pytest.raises(ValidationError, match=r"pip install 'daira\[rapidocr\]'"):
        Settings(ocr="rapidocr")
    assert Settings(ocr="rapidocr", role=Role.WEB).role is Role.WEB


def test_a_page_that_leans_is_levelled_for_the_second_look_too() -> None:
    engine = Scripted(of(confidence=0.8, height=10), of(confidence=0.9, height=10))
    page = leaning(text(), 5)
    recognised(SmallPrintEngine(engine), page.image, language="eng", dpi=200)
    (first, _), (second, _) = engine.shown
    assert first[0] > page.image.width
    assert second == pytest.approx((2 * first[0], 2 * first[1]), abs=4)


def test_what_a_layout_has_dropped_is_read_alone_where_it_lies() -> None:
    page = Image.new("L", (400, 300), 255)
    page.paste(0, (50, 100, 90, 130))
    page.paste(0, (200, 102, 215, 130))
    page.paste(0, (300, 110, 303, 113))
    known = [replace(WORD, box=(50, 100, 90, 130))]
    answers = [replace(WORD, text="4"), replace(WORD, text="~"), replace(WORD, text="4", confidence=0.3), None]
    seen: list[RecognizedWord] = []
    for answer in answers:
        seen += missed_cells(page, known, within=(40, 90, 390, 140), read=lambda _, answer=answer: answer)  # type: ignore[misc]
    assert [(word.text, word.box) for word in seen] == [("4", (200, 102, 215, 130))]
