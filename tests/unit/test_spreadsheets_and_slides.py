"""Workbooks and presentations: a sheet or a slide is a page."""

import pytest

from tests.support.office import open_document, pptx, relations, rows, shape, xlsx
from tests.support.reading import hiding, texts_of

S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def styled(value: object, *, code: str, properties: str = "") -> bytes:
    styles = (
        f'<styleSheet {S}><numFmts><numFmt numFmtId="200" formatCode="{code}"/></numFmts>'
        '<cellXfs><xf numFmtId="0"/><xf numFmtId="200"/></cellXfs></styleSheet>'
    )
    sheet = f'<sheetData><row><c s="1"><v>{value}</v></c></row></sheetData>'
    book = {"xl/styles.xml": styles}
    return xlsx(sheet, parts=book, properties=properties, styles=("styles", "styles.xml"))


def test_each_sheet_is_a_page_with_its_name_and_rows_of_tabs() -> None:
    content = xlsx(rows(("Item", "Price"), ("Tea", 2.5), (None, None, "far")), rows(), rows(("last",)))
    assert texts_of(content) == ["Sheet 1\nItem\tPrice\nTea\t2.5\n\t\tfar", "Sheet 2", "Sheet 3\nlast"]


def test_values_are_those_that_were_computed() -> None:
    cells = (
        '<c r="A1"><f>1+1</f><v>2</v></c><c r="B1" t="str"><f>A1</f><v>two</v></c><c r="C1" t="b"><v>1</v></c>'
        '<c r="D1" t="e"><v>#N/A</v></c><c r="E1" t="s"><v>1</v></c><c r="F1" t="s"><v>99</v></c><c r="G1"><f>x</f></c>'
    )
    strings = f"<sst {S}><si><t>no</t></si><si><r><t>rich </t></r><r><t>text</t></r><rPh><t>x</t></rPh></si></sst>"
    content = xlsx(
        f"<sheetData><row>{cells}</row></sheetData>",
        parts={"xl/sharedStrings.xml": strings},
        strings=("sharedStrings", "sharedStrings.xml"),
    )
    assert texts_of(content) == ["Sheet 1\n2\ttwo\tTRUE\t#N/A\trich text"]


@pytest.mark.parametrize(
    ("value", "code", "told"),
    [
        (45352, "yyyy\\-mm\\-dd", "2024-03-01"),
        (45352.5, "d/m/yyyy h:mm", "2024-03-01 12:00:00"),
        (0.25, "h:mm", "06:00:00"),
        (1.25, "[h]:mm", "30:00:00"),
        (59, "d.m.yy", "1900-02-28"),
        (0.15, "0%", "15%"),
        (45352, "0.00 &quot;days&quot;", "45352"),
        (45352, "General", "45352"),
        (-1, "yyyy", "-1"),
        (9e9, "yyyy", "9000000000.0"),
        (0.30000000000000004, "0.00", "0.3"),
        ("1E+20", "0", "1E+20"),
        ("NaN", "yyyy", "NaN"),
    ],
)
def test_numbers_are_told_as_dates_where_they_are_dates(value: object, code: str, told: str) -> None:
    assert texts_of(styled(value, code=code)) == [f"Sheet 1\n{told}"]


def test_a_workbook_of_an_old_mac_counts_days_from_1904() -> None:
    assert texts_of(styled(43890, code="yyyy", properties='<workbookPr date1904="1"/>')) == ["Sheet 1\n2024-03-01"]


def test_hidden_sheets_rows_and_columns_are_left_out() -> None:
    hidden = '<cols><col min="2" max="3" hidden="1"/></cols>' + rows(("a", "b", "c", "d"))
    folded = '<sheetData><row hidden="1"><c><v>1</v></c></row><row><c><v>2</v></c></row></sheetData>'
    content = xlsx(hidden, folded, rows(("secret",)), rows(("seen",)), states={3: "veryHidden"})
    assert texts_of(content) == ["Sheet 1\na\t\t\td", "Sheet 2\n2", "Sheet 4\nseen"]
    assert hiding(content) == [1, 2]


def test_a_hidden_first_sheet_is_told_with_the_first_that_is_shown() -> None:
    content = xlsx(rows(("secret",)), rows(("seen",)), states={1: "hidden"})
    assert texts_of(content) == ["Sheet 2\nseen"]
    assert hiding(content) == [1]


@pytest.mark.threat(51)
def test_what_a_sheet_claims_to_measure_does_not_matter() -> None:
    far = '<dimension ref="A1:XFD1048576"/><sheetData><row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    [text] = texts_of(xlsx(far))
    assert text.split() == ["Sheet", "1", "1"]
    assert len(text) < 100


def test_each_slide_is_a_page_with_its_tables_and_notes() -> None:
    table = "".join(f"<a:tc><a:txBody>{p}</a:txBody></a:tc>" for p in ("<a:p><a:r><a:t>x</a:t></a:r></a:p>",) * 2)
    slide = shape("Title", "a") + f"<p:graphicFrame><a:tbl><a:tr>{table}</a:tr></a:tbl></p:graphicFrame>"
    content = pptx(slide, shape("Second"), notes={1: shape("say this")})
    assert texts_of(content) == ["Title\na\nx\tx\nsay this", "Second"]


def test_numbers_of_slides_and_hidden_shapes_are_left_out() -> None:
    number = shape("17", placeholder='<p:ph type="sldNum"/>')
    group = f"<p:grpSp><p:nvGrpSpPr><p:cNvPr hidden='1'/></p:nvGrpSpPr>{shape('secret')}</p:grpSp>"
    content = pptx(shape("seen") + number, group + shape("seen too"))
    assert texts_of(content) == ["seen", "seen too"]
    assert hiding(content) == [2]


def test_a_hidden_slide_keeps_its_number_and_loses_its_text() -> None:
    content = pptx(shape("one"), shape("secret"), shape("three"), notes={2: shape("secret")}, hidden=(2,))
    assert texts_of(content) == ["one", "", "three"]
    assert hiding(content) == [2]


def test_sheets_of_an_open_document_are_pages() -> None:
    sheet = (
        '<table:table table:name="{0}"><table:table-column table:number-columns-repeated="2"/>'
        '<table:table-column table:visibility="collapse"/>'
        '<table:table-row><table:table-cell table:number-columns-repeated="2"><text:p>a</text:p></table:table-cell>'
        "<table:table-cell><text:p>secret</text:p></table:table-cell><table:table-cell><text:p>d</text:p>"
        "</table:table-cell></table:table-row>"
        '<table:table-row table:visibility="filter"><table:table-cell><text:p>secret</text:p></table:table-cell>'
        '</table:table-row><table:table-row table:number-rows-repeated="1048576">'
        '<table:table-cell table:number-columns-repeated="16384"/></table:table-row></table:table>'
    )
    content = open_document(sheet.format("One") + sheet.format("Two"), kind="spreadsheet")
    assert texts_of(content) == ["One\n\ta\t\td", "Two\n\ta\t\td"]
    assert hiding(content) == [1, 2]


@pytest.mark.threat(51)
def test_a_cell_that_is_repeated_to_the_end_of_the_sheet_costs_no_more_than_a_few() -> None:
    last = "<table:table-cell><text:p>x</text:p></table:table-cell>"
    cells = f'<table:table-cell table:number-columns-repeated="16383"/>{last}'
    body = f'<table:table table:name="One"><table:table-row>{cells}</table:table-row></table:table>'
    [text] = texts_of(open_document(body, kind="spreadsheet"))
    assert text.split() == ["One", "x"]
    assert len(text) < 100


def test_slides_of_an_open_document_are_pages_and_hidden_ones_keep_their_number() -> None:
    hides = (
        '<style:style style:name="dp1"><style:drawing-page-properties presentation:visibility="hidden"/></style:style>'
    )
    slide = "<draw:page {}><draw:frame><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame></draw:page>"
    body = slide.format("", "one") + slide.format('draw:style-name="dp1"', "secret") + slide.format("", "three")
    content = open_document(body, kind="presentation", styles=hides)
    assert texts_of(content) == ["one", "", "three"]
    assert hiding(content) == [2]


def test_a_relation_to_the_outside_is_not_followed() -> None:
    outside = '<Relationship Id="s1" Type="a/worksheet" Target="http://example.org/x" TargetMode="External"/>'
    told = relations({}).replace("</", outside + "</", 1)
    assert texts_of(xlsx(rows(("a",)), parts={"xl/_rels/workbook.xml.rels": told})) == [""]
