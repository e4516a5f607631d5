"""hOCR, ALTO and Markdown: every word once and in order, its place where there is one, and no text that is markup."""

import re
from collections import Counter
from collections.abc import Iterable
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from app.domain.formats import markdown
from app.domain.formats.formats import ALTO, HOCR, MARKDOWN, TextFormat
from app.domain.formats.lines import blocks_of
from app.domain.ids import TenantId
from app.domain.pages import Page, Source, Word, confidence_of, text_of
from tests.support.rig import new_document

Rows = list[tuple[str, float, float, float]]

HOSTILE = "<script>alert(1)</script> ]]> &amp; \"'> --> \u202egnp.exe \u2067x {0} %s"
XHTML = "{http://www.w3.org/1999/xhtml}"
NAMESPACE = "{http://www.loc.gov/standards/alto/ns-v4#}"


def page_of(rows: Rows, *, number: int = 1, block: int | None = None, width: float = 612) -> Page:
    """Lines of text, each with its left edge, top and height; words as wide as they are long."""
    words = []
    for line, (text, left, top, height) in enumerate(rows):
        x = left
        for part in text.split(" "):
            wide = len(part) * height * 0.5
            words.append(
                Word(
                    text=part,
                    box=(x, top, x + wide, top + height),
                    confidence=0.9,
                    source=Source.OCR,
                    line=line,
                    block=line if block is None else block,
                )
            )
            x += wide + height * 0.3
    return _page(words, number=number, width=width)


def _page(words: Iterable[Word], *, number: int, width: float | None, text: str | None = None) -> Page:
    words = tuple(words)
    return Page(
        number=number,
        text=text_of(words) if text is None else text,
        source=Source.OCR if words else Source.TEXT_LAYER,
        confidence=confidence_of(words),
        width=width,
        height=None if width is None else 792,
        rotation=0,
        language="eng",
        words=words,
    )


def plain_page(text: str, *, number: int = 1) -> Page:
    """As of a letter without places."""
    return _page((), number=number, width=None, text=text)


def written(form: TextFormat, *pages: Page, filename: str = "letter.pdf") -> str:
    document = new_document(TenantId("acme"), filename=filename, page_count=len(pages))
    return form.head(document) + "".join(map(form.page, pages)) + form.foot


def tree(form: TextFormat, *pages: Page, filename: str = "letter.pdf") -> ET.Element:
    return ET.fromstring(written(form, *pages, filename=filename))  # noqa: S314 - our own


def words_in(form: TextFormat, *pages: Page) -> list[str]:
    root = tree(form, *pages)
    if form is ALTO:
        return [string.attrib["CONTENT"] for string in root.iter(f"{NAMESPACE}String")]
    return [span.text or "" for span in root.iter(f"{XHTML}span") if span.get("class") == "ocrx_word"]


LETTER = page_of([("Dear reader,", 72, 72, 12), ("this is a letter", 72, 90, 12), ("of three lines", 72, 108, 12)])
LISTED = plain_page("A heading\n\nand a paragraph\nof two lines", number=2)


@pytest.mark.parametrize("form", [HOCR, ALTO])
def test_every_word_is_there_once_and_in_order(form: TextFormat) -> None:
    assert words_in(form, LETTER, LISTED) == LETTER.text.split() + LISTED.text.split()


@given(text=st.text())
@pytest.mark.parametrize("form", [HOCR, ALTO])
def test_whatever_a_word_is_the_xml_stays_xml_and_the_word_itself(form: TextFormat, text: str) -> None:
    page = page_of([(text.replace(" ", "_"), 72, 72, 12)])
    legal = re.sub("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", page.words[0].text)
    assert words_in(form, page) == [legal]


@pytest.mark.threat(57)
@pytest.mark.parametrize("form", [HOCR, ALTO])
def test_what_a_page_or_a_file_name_says_is_never_markup(form: TextFormat) -> None:
    hostile = page_of([(HOSTILE, 72, 72, 12)])
    text = written(form, hostile, plain_page(HOSTILE, number=2), filename=HOSTILE)
    assert words_in(form, hostile) == HOSTILE.split(" ")
    assert "<script" not in text
    assert "]]>" not in text
    assert not set("\u202e\u2067") & set(text), "who reads the source is deceived"


class Tags(HTMLParser):
    """As a browser sees them, that takes no XML."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] += 1


@pytest.mark.threat(57)
def test_a_browser_sees_no_other_elements_in_hocr_than_ours() -> None:
    tags = Tags()
    tags.feed(written(HOCR, page_of([(HOSTILE, 72, 72, 12)]), filename=HOSTILE))
    assert set(tags.seen) == {"html", "head", "title", "meta", "style", "body", "div", "p", "span"}


def test_hocr_has_places_in_whole_pixels_at_300_dpi() -> None:
    root = tree(HOCR, LETTER)
    page, word = (element(root, name) for name in ("ocr_page", "ocrx_word"))
    assert page.get("title") == "bbox 0 0 2550 3300; ppageno 0; scan_res 300 300"
    assert word.get("title") == "bbox 300 300 400 350; x_wconf 90"
    assert page.get("lang") == "eng"


def element(root: ET.Element, kind: str) -> ET.Element:
    return next(each for each in root.iter() if each.get("class") == kind)


def test_hocr_of_a_page_without_places_has_none() -> None:
    root = tree(HOCR, LISTED)
    assert element(root, "ocr_page").get("title") == "ppageno 1"
    assert [each.get("class") for each in root.iter() if each.get("class")].count("ocr_par") == 2
    assert not [each for each in root.iter() if "bbox" in (each.get("title") or "")]


def test_alto_has_places_in_1200ths_of_an_inch() -> None:
    root = tree(ALTO, LETTER)
    page, word = (next(root.iter(f"{NAMESPACE}{name}")) for name in ("Page", "String"))
    assert (page.get("WIDTH"), page.get("HEIGHT"), page.get("PHYSICAL_IMG_NR")) == ("10200", "13200", "1")
    assert [word.get(name) for name in ("HPOS", "VPOS", "WIDTH", "HEIGHT", "WC")] == [
        "1200",
        "1200",
        "400",
        "200",
        "0.9000",
    ]


PLACE = {"HPOS", "VPOS", "WIDTH", "HEIGHT"}
SCHEMA: dict[str, tuple[set[str], set[str], str]] = {
    "alto": (set(), {"SCHEMAVERSION"}, "(Description,)?Layout,"),
    "Description": (set(), set(), "MeasurementUnit,(sourceImageInformation,)?(Processing,)*"),
    "MeasurementUnit": (set(), set(), ""),
    "sourceImageInformation": (set(), set(), "(fileName,)?"),
    "fileName": (set(), set(), ""),
    "Processing": ({"ID"}, set(), "(processingSoftware,)?"),
    "processingSoftware": (set(), set(), "(softwareName,)?"),
    "softwareName": (set(), set(), ""),
    "Layout": (set(), set(), "(Page,)+"),
    "Page": ({"ID", "PHYSICAL_IMG_NR"}, {"WIDTH", "HEIGHT", "PC", "LANG"}, "(PrintSpace,)?"),
    "PrintSpace": (set(), PLACE, "(TextBlock,)*"),
    "TextBlock": ({"ID"}, PLACE, "(TextLine,)*"),
    "TextLine": (set(), PLACE | {"ID"}, "(String,(SP,)?)+"),
    "String": ({"CONTENT"}, PLACE | {"WC"}, ""),
    "SP": (set(), PLACE, ""),
}
"""Of ALTO 4.4's schema what is used here: attributes that must and may be there, and the content."""


@pytest.mark.parametrize("pages", [(LETTER,), (LISTED,), (LETTER, LISTED, plain_page("", number=3))], ids=len)
def test_alto_is_built_as_its_schema_has_it(pages: tuple[Page, ...]) -> None:
    root = tree(ALTO, *pages)
    for each in root.iter():
        must, may, content = SCHEMA[each.tag.removeprefix(NAMESPACE)]
        assert must <= set(each.attrib) <= must | may, each.tag
        children = "".join(f"{child.tag.removeprefix(NAMESPACE)}," for child in each)
        assert re.fullmatch(content, children), each.tag
        for name in PLACE & set(each.attrib):
            assert float(each.attrib[name]) >= 0
        assert all(0 <= float(each.attrib[name]) <= 1 for name in {"WC", "PC"} & set(each.attrib))
    ids = [each.attrib["ID"] for each in root.iter() if "ID" in each.attrib]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[A-Za-z_][A-Za-z0-9_.-]*", identity) for identity in ids)


def test_text_without_words_is_taken_by_its_lines_and_empty_lines() -> None:
    blocks = blocks_of(plain_page("one two\nthree\n\n\n \nfour"))
    assert [[[piece.text for piece in line] for line in block] for block in blocks] == [
        [["one", "two"], ["three"]],
        [["four"]],
    ]
    assert blocks_of(plain_page("")) == []


def test_markdown_makes_a_heading_of_a_line_that_is_set_clearly_larger() -> None:
    body = [(f"an ordinary line of text number {line}", 72.0, 150 + line * 15.0, 10.0) for line in range(6)]
    page = page_of([("A title", 72, 72, 24), ("A section", 72, 120, 15), *body], block=0)
    text = markdown.page(page)
    assert text.startswith("<!-- page 1 -->\n\n# A title\n\n## A section\n\nan ordinary line of text number 0\nan ")
    assert text.count("#") == 3


def test_markdown_makes_no_heading_where_all_is_large_or_little_is_there() -> None:
    large = page_of([(f"every line is as large as the others {line}", 72, line * 40.0, 30) for line in range(6)])
    assert "#" not in markdown.page(large)
    assert "#" not in markdown.page(page_of([("SIGN", 72, 72, 100), ("small print", 72, 300, 8)]))
    assert "#" not in markdown.page(LISTED)


def test_markdown_parts_paragraphs_where_lines_stand_apart_or_a_column_begins() -> None:
    tops = [100, 114, 128, 170, 184, 100, 114]
    page = page_of([(f"line {number} of it", 72, top, 10) for number, top in enumerate(tops)], block=0)
    assert [part.count("line") for part in markdown.page(page).strip().split("\n\n")] == [0, 3, 2, 2]


@pytest.mark.threat(57)
@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("<script>alert(1)</script>", r"\<script>alert(1)\</script>"),
        ("# no heading", r"\# no heading"),
        ("- no list", r"\- no list"),
        ("1. no list", r"1\. no list"),
        ("2026) no list", r"2026\) no list"),
        ("2026 was a year", "2026 was a year"),
        ("---", r"\---"),
        ("===", r"\==="),
        ("> no quote", r"\> no quote"),
        ("[no](javascript:alert(1))", r"\[no\](javascript:alert(1))"),
        ("*no* _no_ `no` ~~no~~ | &lt; \\", r"\*no\* \_no\_ \`no\` \~\~no\~\~ \| \&lt; \\"),
        ("<!-- page 9 -->", r"\<!-- page 9 -->"),
        ("5 - 3 = 2", "5 - 3 = 2"),
    ],
)
def test_nothing_that_a_page_says_is_markdown(line: str, shown: str) -> None:
    assert markdown.escaped_line(line) == shown
    assert shown in markdown.page(plain_page(line))


@given(st.lists(st.text(alphabet="ab<>#-*_`[]()&|~\\1. =+", min_size=1), min_size=1))
def test_markdown_keeps_every_character(lines: list[str]) -> None:
    text = "\n".join(lines)
    body = markdown.page(plain_page(text)).partition("-->")[2]
    assert re.sub(r"\\(.)", r"\1", body).split() == text.split()


def test_pages_of_markdown_are_told_apart_by_a_comment() -> None:
    assert (
        written(MARKDOWN, plain_page("one"), plain_page("two", number=2))
        == "<!-- page 1 -->\n\none\n\n<!-- page 2 -->\n\ntwo\n"
    )
