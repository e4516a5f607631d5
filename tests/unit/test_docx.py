"""A letter as Word keeps it: all that a reader sees, in order, on the page where it was."""

import pytest

from app.domain.errors import DocumentFault
from app.domain.pages import Source
from app.reading.office import zip_package
from tests.support.office import docx, paragraph
from tests.support.reading import hiding, text_pages, texts_of
from tests.support.sample_documents import SENTENCE

PAGE_BREAK = '<w:p><w:r><w:br w:type="page"/></w:r></w:p>'
RENDERED = "<w:p><w:r><w:lastRenderedPageBreak/><w:t>{}</w:t></w:r></w:p>"


def table(*rows: tuple[str, ...]) -> str:
    told = "".join(f"<w:tr>{''.join(f'<w:tc>{cell}</w:tc>' for cell in row)}</w:tr>" for row in rows)
    return f"<w:tbl>{told}</w:tbl>"


def part(tag: str, body: str) -> str:
    return f'<w:{tag} xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">{body}</w:{tag}>'


def test_a_page_says_that_its_text_is_its_own_and_has_no_measures() -> None:
    [page] = text_pages(docx())
    assert (page.text, page.source, page.confidence, page.words) == (SENTENCE, Source.TEXT_LAYER, None, ())
    assert (page.width, page.height, page.rotation, page.number, page.language) == (None, None, 0, 1, "eng")


def test_paragraphs_and_tables_come_in_order_and_cells_are_parted_by_tabs() -> None:
    rows = table((paragraph("a"), paragraph("b") + paragraph("c")), (paragraph(""), paragraph("d")))
    assert texts_of(docx(paragraph("before") + rows + paragraph("after"))) == ["before\na\tb c\n\td\nafter"]


def test_a_table_within_a_cell_is_part_of_the_cell() -> None:
    inner = table((paragraph("x"), paragraph("y")))
    assert texts_of(docx(table((paragraph("a") + inner, paragraph("b"))))) == ["a x y\tb"]


def test_a_table_that_only_lays_out_the_page_is_told_line_by_line() -> None:
    column = "".join(paragraph(f"line {number}") for number in range(5))
    assert texts_of(docx(table((column, paragraph("beside"))))) == ["line 0\nline 1\nline 2\nline 3\nline 4\nbeside"]


def test_controls_insertions_fields_and_text_boxes_are_read() -> None:
    body = (
        f"<w:sdt><w:sdtContent>{paragraph('control')}</w:sdtContent></w:sdt>"
        "<w:p><w:r><w:t>a </w:t></w:r><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins>"
        '<w:sdt><w:sdtContent><w:r><w:t> inline</w:t></w:r></w:sdtContent></w:sdt><w:fldSimple w:instr="PAGE">'
        "<w:r><w:t> field</w:t></w:r></w:fldSimple><w:hyperlink><w:r><w:t> link</w:t></w:r></w:hyperlink></w:p>"
        f"<w:p><w:r><w:pict><w:txbxContent>{paragraph('box')}</w:txbxContent></w:pict></w:r></w:p>"
    )
    assert texts_of(docx(body)) == ["control\na inserted inline field link\nbox"]


def test_what_was_deleted_moved_or_told_twice_is_left_out() -> None:
    body = (
        "<w:p><w:r><w:t>kept</w:t></w:r><w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
        "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom><w:r><w:instrText>PAGE</w:instrText></w:r></w:p>"
        f"<w:p><w:r><AlternateContent><Choice>{paragraph('once')}</Choice><Fallback>{paragraph('once')}</Fallback>"
        "</AlternateContent></w:r></w:p>"
    )
    assert texts_of(docx(body)) == ["kept\nonce"]


def test_tabs_breaks_and_hyphens_are_characters() -> None:
    body = "<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t><w:noBreakHyphen/><w:t>d</w:t></w:r></w:p>"
    assert texts_of(docx(body)) == ["a\tb\nc-d"]


def test_pages_begin_where_the_author_or_word_began_them() -> None:
    before = "<w:p><w:pPr><w:pageBreakBefore/></w:pPr><w:r><w:t>three</w:t></w:r></w:p>"
    body = paragraph("one") + PAGE_BREAK + RENDERED.format("two") + before + RENDERED.format("four")
    assert texts_of(docx(body)) == ["one", "two", "three", "four"]


def test_a_page_may_end_within_a_paragraph_but_not_within_a_table() -> None:
    split = "<w:p><w:r><w:t>first </w:t><w:lastRenderedPageBreak/><w:t>second</w:t></w:r></w:p>"
    assert texts_of(docx(split + table((split,)))) == ["first", "second\nfirst second"]


def test_a_section_begins_a_page_unless_it_is_continuous() -> None:
    section = "<w:p><w:pPr><w:sectPr>{}</w:sectPr></w:pPr><w:r><w:t>{}</w:t></w:r></w:p>"
    body = section.format("", "one") + section.format('<w:type w:val="continuous"/>', "two") + paragraph("three")
    assert texts_of(docx(body)) == ["one", "two\nthree"]


def test_a_page_break_at_the_end_makes_no_page() -> None:
    assert texts_of(docx(paragraph("one") + PAGE_BREAK + "<w:p/>")) == ["one"]


def test_headers_come_first_and_footers_last_and_each_but_once() -> None:
    parts = {
        "word/header1.xml": part("hdr", paragraph("Acme")),
        "word/header2.xml": part("hdr", paragraph("Acme")),
        "word/footer1.xml": part("ftr", paragraph("Page")),
    }
    content = docx(
        paragraph("one") + PAGE_BREAK + paragraph("two"),
        parts=parts,
        a=("header", "header1.xml"),
        b=("header", "header2.xml"),
        c=("footer", "footer1.xml"),
    )
    assert texts_of(content) == ["Acme\none", "two\nPage"]


def test_a_footnote_follows_its_paragraph() -> None:
    notes = '<w:footnote w:type="separator" w:id="-1"/><w:footnote w:id="2">' + paragraph("see there") + "</w:footnote>"
    cites = '<w:p><w:r><w:t>claim</w:t><w:footnoteReference w:id="2"/></w:r></w:p>' + paragraph("next")
    content = docx(cites, parts={"word/footnotes.xml": part("footnotes", notes)}, n=("footnotes", "footnotes.xml"))
    assert texts_of(content) == ["claim\nsee there\nnext"]


def test_hidden_text_is_left_out_and_the_page_says_so() -> None:
    body = paragraph("seen") + PAGE_BREAK + paragraph("secret", properties="<w:vanish/>") + paragraph("also seen")
    assert texts_of(docx(body)) == ["seen", "also seen"]
    assert hiding(docx(body)) == [2]
    assert hiding(docx(paragraph("seen", properties='<w:vanish w:val="0"/>'))) == []


def test_text_that_a_style_hides_is_left_out() -> None:
    styles = part(
        "styles",
        '<w:style w:styleId="Base"><w:rPr><w:vanish/></w:rPr></w:style>'
        '<w:style w:styleId="Own"><w:basedOn w:val="Base"/></w:style>'
        '<w:style w:styleId="Loop"><w:basedOn w:val="Loop"/></w:style>',
    )
    body = (
        '<w:p><w:pPr><w:pStyle w:val="Own"/></w:pPr><w:r><w:t>secret</w:t></w:r></w:p>'
        + paragraph("secret", properties='<w:rStyle w:val="Base"/>')
        + paragraph("seen", properties='<w:rStyle w:val="Loop"/>')
    )
    content = docx(body, parts={"word/styles.xml": styles}, s=("styles", "styles.xml"))
    assert texts_of(content) == ["seen"]
    assert hiding(content) == [1]


@pytest.mark.threat(51)
def test_what_is_unpacked_is_counted_over_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = docx(parts={"word/styles.xml": part("styles", " " * 3000)}, s=("styles", "styles.xml"))
    monkeypatch.setattr(zip_package, "MOST_INFLATED", 5000)
    assert texts_of(notes) == [SENTENCE]
    monkeypatch.setattr(zip_package, "MOST_INFLATED", 3300)
    with pytest.raises(DocumentFault) as fault:
        texts_of(notes)
    assert fault.value.code == "too_large"


def test_text_that_storage_could_not_hold_is_cleaned() -> None:
    assert texts_of(docx(paragraph("a&#x85;b&#xFFFD;"))) == ["ab\ufffd"]
