"""Small documents, made on the spot: drawn pages and hand-written PDFs."""

import io
import zlib
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

LETTER = (612, 792)
SENTENCE = "The quick brown fox jumps over the lazy dog"


def drawn(*lines: str, size: tuple[int, int] = (1200, 500), letters: int = 44) -> Image.Image:
    """Black lines on white, as a scanner would see them at about 200 dpi."""
    image = Image.new("L", size, 255)
    font = ImageFont.load_default(size=letters)
    for row, line in enumerate(lines):
        ImageDraw.Draw(image).text((80, 60 + row * letters * 2), line, fill=0, font=font)
    return image


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A page of a PDF: Helvetica lines from the top, or an image over all of it, or nothing."""

    lines: tuple[str, ...] = ()
    image: Image.Image | None = None
    size: tuple[int, int] = LETTER
    extra: str = ""
    """Further entries of the page, e.g. /Rotate 90."""


def pdf(*sheets: Sheet, trailer: str = "") -> bytes:
    objects: dict[int, bytes] = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    }
    kids = []
    for index, sheet in enumerate(sheets):
        page, content, image = 10 + index * 10, 11 + index * 10, 12 + index * 10
        kids.append(f"{page} 0 R")
        objects[page] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {sheet.size[0]} {sheet.size[1]}]/Contents {content} 0 R"
            f"/Resources<</Font<</F 3 0 R>>/XObject<</I {image} 0 R>>>>{sheet.extra}>>"
        ).encode()
        objects[content] = _stream("", _drawing(sheet))
        if sheet.image is not None:
            objects[image] = _picture(sheet.image)
    objects[2] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {len(kids)}>>".encode()
    return _file(objects, trailer)


def encrypted_pdf() -> bytes:
    """A PDF whose password nobody knows: its checksums are made up."""
    guard = f"<</Filter/Standard/V 1/R 2/O<{'41' * 32}>/U<{'42' * 32}>/P -4>>"
    return pdf(Sheet(lines=(SENTENCE,)), trailer=f"/Encrypt {guard}/ID[<00><00>]")


def _drawing(sheet: Sheet) -> bytes:
    width, height = sheet.size
    if sheet.image is not None:
        return f"{width} 0 0 {height} 0 0 cm /I Do".encode()
    rows = "".join(f"({line}) Tj 0 -24 Td " for line in sheet.lines)
    return f"BT /F 14 Tf 72 {height - 72} Td {rows}ET".encode() if rows else b""


def _picture(image: Image.Image) -> bytes:
    head = (
        f"/Type/XObject/Subtype/Image/Width {image.width}/Height {image.height}"
        "/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/FlateDecode"
    )
    return _stream(head, zlib.compress(image.convert("L").tobytes()))


def _stream(head: str, body: bytes) -> bytes:
    return f"<<{head}/Length {len(body)}>>stream\n".encode() + body + b"\nendstream"


def _file(objects: dict[int, bytes], trailer: str) -> bytes:
    out = b"%PDF-1.7\n"
    table = "xref\n"
    for number, body in sorted(objects.items()):
        table += f"{number} 1\n{len(out):010} 00000 n \n"
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    end = f"trailer<</Size 1000/Root 1 0 R{trailer}>>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + (table + end).encode()
