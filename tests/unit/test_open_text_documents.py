"""ODT and RTF: letters that other programs than Word write."""

import pytest

from app.domain.errors import DocumentFault
from tests.support.office import odt, rtf
from tests.support.reading import hiding, text_file, texts_of
from tests.support.sample_documents import SENTENCE

P = "<text:p>{}</text:p>"


def test_paragraphs_headings_lists_and_tables_of_odt_come_in_order() -> None:
    cells = "<table:table-cell>{}</table:table-cell><table:table-cell>{}</table:table-cell>"
    table = f"<table:table><table:table-row>{cells}</table:table-row></table:table>".format(
        P.format("a"), P.format("b")
    )
    items = f"<text:list><text:list-item>{P.format('item')}</text:list-item></text:list>"
    body = f"<text:h>Title</text:h>{P.format('one')}{items}{table}{P.format('end')}"
    assert texts_of(odt(body)) == ["Title\none\nitem\na\tb\nend"]


def test_blanks_of_odt_are_those_that_are_meant() -> None:
    assert texts_of(odt('<text:p>a\n   b<text:s text:c="3"/>c<text:tab/>d<text:line-break/>e</text:p>')) == [
        "a b   c\td\ne"
    ]


def test_pages_of_odt_begin_where_the_author_or_the_program_began_them() -> None:
    styles = '<style:style style:name="P1"><style:paragraph-properties fo:break-before="page"/></style:style>'
    body = P.format("one") + '<text:p text:style-name="P1">two</text:p>' + P.format("<text:soft-page-break/>three")
    assert texts_of(odt(body, styles=styles)) == ["one", "two", "three"]


def test_headers_and_footers_of_odt_are_told_once() -> None:
    header = f"<style:header>{P.format('Acme')}</style:header><style:footer>{P.format('Page 1')}</style:footer>"
    master = f"<office:master-styles><style:master-page>{header}{header}</style:master-page></office:master-styles>"
    assert texts_of(odt(master=master)) == [f"Acme\n{SENTENCE}\nPage 1"]


def test_what_odt_hides_deletes_or_annotates_is_left_out() -> None:
    styles = (
        '<style:style style:name="T1"><style:text-properties text:display="none"/></style:style>'
        '<style:style style:name="T2" style:parent-style-name="T1"/>'
    )
    body = (
        f"<text:tracked-changes><text:deletion>{P.format('gone')}</text:deletion></text:tracked-changes>"
        '<text:p>seen<text:span text:style-name="T2">secret</text:span>'
        f"<office:annotation>{P.format('comment')}</office:annotation>"
        '</text:p><text:section text:display="none"><text:p>secret</text:p></text:section>'
    )
    assert texts_of(odt(body, styles=styles)) == ["seen"]
    assert hiding(odt(body, styles=styles)) == [1]


def test_a_footnote_of_odt_is_read_beside_its_paragraph() -> None:
    body = f"<text:note-body>{P.format('see')}</text:note-body>"
    note = f"<text:note><text:note-citation>1</text:note-citation>{body}</text:note>"
    assert texts_of(odt(f"<text:p>claim{note}</text:p>")) == ["see\nclaim"]


def test_a_password_of_odt_is_told() -> None:
    manifest = '<m:manifest xmlns:m="x"><m:file-entry><m:encryption-data/></m:file-entry></m:manifest>'
    with pytest.raises(DocumentFault) as fault:
        text_file(odt(manifest=manifest))
    assert fault.value.code == "encrypted"


def test_rtf_is_read_as_it_is_displayed() -> None:
    body = (
        r"{\*\generator Word;}{\info{\title No}}{\header Acme\par}one\tab two\line three\par"
        r"{\field{\*\fldinst HYPERLINK x}{\fldrslt link}} a\~b\_c\-d \emdash  \{\}\\\par"
        r"{\pict 0a0b0c0d}{\*\shpinst{\sp{\sn x}{\sv y}}{\shptxt box\par}}{\*\unknown no}end"
    )
    assert texts_of(rtf(body)) == ["Acme\none\ttwo\nthree\nlink a\u00a0b-cd — {}\\\nbox\nend"]


def test_rtf_has_tables_notes_and_pages() -> None:
    body = r"\trowd\intbl a\cell b\par c\cell\row\pard claim{\footnote see}\par\page second"
    assert texts_of(rtf(body)) == ["a\tb c\nclaim see", "second"]


def test_rtf_leaves_out_what_is_hidden_and_says_so() -> None:
    body = r"one\page {\v secret}two\v secret\v0 three{\deleted gone}{\v\plain four}"
    assert texts_of(rtf(body)) == ["one", "twothreefour"]
    assert hiding(rtf(body)) == [2]


def test_rtf_comes_in_every_character_set() -> None:
    fonts = r"{\fonttbl{\f1\fcharset204 A;}{\f2\fcharset128 B;}{\f3\fcharset238 C;}}"
    old = r"caf\'e9 {\f1\'cf\'f0}{\f2\'83\'65\'83X}{\f3\'b9}"
    body = fonts + old + r" \u8364? {\uc2\u8364\'80\'80}{\uc0\u8364}x \u-10179?\u-8704?"
    assert texts_of(rtf(body)) == ["café Прテスą € €€x \N{GRINNING FACE}"]


def test_rtf_passes_over_binary_data_and_what_follows_its_end() -> None:
    assert texts_of(rtf(r"a{\pict\bin5 }}}}}}b") + b"junk") == ["ab"]


@pytest.mark.parametrize(
    "end", [b"", b"\\", b"{", b"\\'", b"\\u", b"\\bin99999999 x", b"}}}}", b"\\ansicpg999999 \\'e9"]
)
def test_rtf_that_breaks_off_is_read_as_far_as_it_goes(end: bytes) -> None:
    [text] = texts_of(b"{\\rtf1 beginning " + end)
    assert text.startswith("beginning")
