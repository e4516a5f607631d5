"""Office documents, made on the spot: as little as their readers need, written by hand."""

import io
import zipfile
from collections.abc import Mapping

from tests.support.sample_documents import SENTENCE

Parts = Mapping[str, str | bytes]

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
P = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    ' xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
)
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
    ' xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"'
    ' xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0"'
    ' xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"'
    ' xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"'
    ' xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0"'
)
_TYPES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_CONTENT_TYPES = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'


def zipped(parts: Parts, *, stored: tuple[str, ...] = ()) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            method = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, compress_type=method)
    return out.getvalue()


def relations(targets: Mapping[str, tuple[str, str]]) -> str:
    """Of ids to (kind, target)."""
    told = "".join(
        f'<Relationship Id="{name}" Type="{_TYPES}/{kind}" Target="{target}"/>'
        for name, (kind, target) in targets.items()
    )
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{told}</Relationships>'


def package(main: str, parts: Parts, *, beside: Mapping[str, tuple[str, str]] | None = None) -> Parts:
    """An OOXML package whose main part refers to those `beside` it."""
    folder, name = main.rsplit("/", 1)
    return {
        "[Content_Types].xml": _CONTENT_TYPES,
        "_rels/.rels": relations({"r": ("officeDocument", main)}),
        f"{folder}/_rels/{name}.rels": relations(beside or {}),
        **parts,
    }


def paragraph(text: str, *, properties: str = "") -> str:
    return f"<w:p><w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r></w:p>"


def docx(body: str = paragraph(SENTENCE), *, parts: Parts | None = None, **beside: tuple[str, str]) -> bytes:
    document = f"<w:document {W} {R}><w:body>{body}</w:body></w:document>"
    return zipped(package("word/document.xml", {"word/document.xml": document, **(parts or {})}, beside=beside))


def cell(reference: str, value: object) -> str:
    if isinstance(value, str):
        return f'<c r="{reference}" t="inlineStr"><is><t>{value}</t></is></c>'
    return f'<c r="{reference}"><v>{value}</v></c>'


def xlsx(
    *sheets: str,
    states: Mapping[int, str] | None = None,
    properties: str = "",
    parts: Parts | None = None,
    **beside: tuple[str, str],
) -> bytes:
    """Of what each sheet has inside its `worksheet`."""
    names = range(1, len(sheets) + 1)
    listed = "".join(
        f'<sheet name="Sheet {n}" sheetId="{n}" r:id="s{n}" state="{(states or {}).get(n, "visible")}"/>' for n in names
    )
    told = {f"xl/sheets/sheet{n}.xml": f"<worksheet {S}>{sheets[n - 1]}</worksheet>" for n in names}
    book = f"<workbook {S} {R}>{properties}<sheets>{listed}</sheets></workbook>"
    linked = {f"s{n}": ("worksheet", f"sheets/sheet{n}.xml") for n in names}
    return zipped(
        package("xl/workbook.xml", {"xl/workbook.xml": book, **told, **(parts or {})}, beside=linked | beside)
    )


def rows(*lines: tuple[object, ...]) -> str:
    return f"<sheetData>{''.join(_row(y, line) for y, line in enumerate(lines, 1))}</sheetData>"


def _row(y: int, line: tuple[object, ...]) -> str:
    cells = "".join(cell(f"{chr(65 + x)}{y}", value) for x, value in enumerate(line) if value is not None)
    return f'<row r="{y}">{cells}</row>'


def shape(*lines: str, properties: str = "", placeholder: str = "") -> str:
    told = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in lines)
    head = f'<p:nvSpPr><p:cNvPr id="2" name="Box" {properties}/><p:cNvSpPr/><p:nvPr>{placeholder}</p:nvPr></p:nvSpPr>'
    return f"<p:sp>{head}<p:txBody>{told}</p:txBody></p:sp>"


def pptx(*slides: str, notes: Mapping[int, str] | None = None, hidden: tuple[int, ...] = ()) -> bytes:
    """Of the shapes on each slide."""
    numbers = range(1, len(slides) + 1)
    listed = "".join(f'<p:sldId id="{255 + n}" r:id="s{n}"/>' for n in numbers)
    parts = {"ppt/presentation.xml": f"<p:presentation {P} {R}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>"}
    for n in numbers:
        show = ' show="0"' if n in hidden else ""
        tree = f"<p:cSld><p:spTree>{slides[n - 1]}</p:spTree></p:cSld>"
        parts[f"ppt/slides/slide{n}.xml"] = f"<p:sld {P}{show}>{tree}</p:sld>"
    for n, text in (notes or {}).items():
        parts[f"ppt/notesSlides/notesSlide{n}.xml"] = f"<p:notes {P}>{text}</p:notes>"
        target = {"n": ("notesSlide", f"../notesSlides/notesSlide{n}.xml")}
        parts[f"ppt/slides/_rels/slide{n}.xml.rels"] = relations(target)
    linked = {f"s{n}": ("slide", f"slides/slide{n}.xml") for n in numbers}
    return zipped(package("ppt/presentation.xml", parts, beside=linked))


def open_document(
    body: str, *, kind: str = "text", styles: str = "", master: str = "", manifest: str = "<manifest/>"
) -> bytes:
    """ODT, ODS or ODP: `kind` is text, spreadsheet or presentation."""
    automatic = f"<office:automatic-styles>{styles}</office:automatic-styles>"
    content = f"<office:body><office:{kind}>{body}</office:{kind}></office:body>"
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {ODF}>{automatic}{content}</office:document-content>",
            "styles.xml": f"<office:document-styles {ODF}>{master}</office:document-styles>",
            "META-INF/manifest.xml": manifest,
        },
        stored=("mimetype",),
    )


def odt(body: str = f"<text:p>{SENTENCE}</text:p>", **rest: str) -> bytes:
    return open_document(body, **rest)


def compound_file(*names: str) -> bytes:
    """The directory of a compound file, with streams of these names and nothing in them."""
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(512, b"\0")
    return header + b"".join(name.encode("utf-16-le").ljust(128, b"\0") for name in ("Root Entry", *names))


def mail(body: str | bytes = f"\r\n{SENTENCE}\r\n", *, fields: str = "") -> bytes:
    head = (
        f"From: Ann <ann@example.org>\r\nTo: bob@example.org\r\nSubject: Fox\r\nMessage-ID: <1@example.org>\r\n{fields}"
    )
    return head.encode() + (body if isinstance(body, bytes) else body.encode())


def rtf(body: str = SENTENCE) -> bytes:
    return rf"{{\rtf1\ansi\ansicpg1252\deff0{{\fonttbl{{\f0\fcharset0 Arial;}}}}\f0 {body}\par}}".encode("latin-1")


def html(body: str = f"<p>{SENTENCE}</p>") -> bytes:
    return f"<!DOCTYPE html><html><head><title>No</title></head><body>{body}</body></html>".encode()
