"""PDFs written by hand: fonts that lie, text that hides, pages that never end. All of them small."""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from string import ascii_letters

from PIL import Image, ImageDraw, ImageFont

LETTER = (612, 792)
HELVETICA = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
SHIFT = 7
"""Letters by which a ciphered font misspells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A page: what it draws, and with which fonts, pictures and forms."""

    content: str | bytes = ""
    fonts: Mapping[str, str] = field(default_factory=lambda: {"F": HELVETICA})
    """Names and font dictionaries."""
    things: Mapping[str, bytes] = field(default_factory=dict)
    """XObjects, by name."""
    box: str = "/MediaBox[0 0 612 792]"
    extra: str = ""
    resources: str = ""


def document(
    *leaves: Leaf,
    objects: Mapping[int, str | bytes] | None = None,
    catalog: str = "",
    info: str = "",
    trailer: str = "",
) -> bytes:
    """`objects` with numbers from 900 on are the caller's own; a stream is made by `stream`."""
    bodies: dict[int, bytes] = {1: f"<</Type/Catalog/Pages 2 0 R{catalog}>>".encode()}
    kids = []
    for index, leaf in enumerate(leaves):
        page, content = 10 + 10 * index, 11 + 10 * index
        kids.append(f"{page} 0 R")
        names = {name: page + 2 + at for at, name in enumerate(leaf.things)}
        fonts = "".join(f"/{name} {body}" for name, body in leaf.fonts.items())
        drawn = "".join(f"/{name} {number} 0 R" for name, number in names.items())
        bodies[page] = (
            f"<</Type/Page/Parent 2 0 R{leaf.box}/Contents {content} 0 R/Resources<</Font<<{fonts}>>"
            f"/XObject<<{drawn}>>{leaf.resources}>>{leaf.extra}>>"
        ).encode()
        bodies[content] = stream(leaf.content)
        for name, number in names.items():
            bodies[number] = leaf.things[name]
    bodies[2] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {len(kids)}>>".encode()
    if info:
        bodies[9] = info.encode("latin-1")
        trailer += "/Info 9 0 R"
    bodies |= {number: body.encode() if isinstance(body, str) else body for number, body in (objects or {}).items()}
    return filed(bodies, trailer=trailer)


def filed(bodies: Mapping[int, bytes], *, trailer: str = "") -> bytes:
    out = b"%PDF-1.7\n"
    table = "xref\n0 1\n0000000000 65535 f \n"
    for number, body in sorted(bodies.items()):
        table += f"{number} 1\n{len(out):010} 00000 n \n"
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    end = f"trailer<</Size {max(bodies) + 1}/Root 1 0 R{trailer}>>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + (table + end).encode()


def stream(body: str | bytes, head: str = "") -> bytes:
    body = body.encode() if isinstance(body, str) else body
    return f"<<{head}/Length {len(body)}>>stream\n".encode() + body + b"\nendstream"


def deflated(body: str | bytes, head: str = "", *, times: int = 1) -> bytes:
    body = body.encode() if isinstance(body, str) else body
    for _ in range(times):
        body = zlib.compress(body, 9)
    return stream(body, f"{head}/Filter[{'/FlateDecode' * times}]")


def line(text: str, *, x: float = 72, y: float = 700, size: float = 14, font: str = "F", before: str = "") -> str:
    """One line of text; `before`: operators such as `3 Tr` or `1 g`."""
    return f"BT {before} /{font} {size} Tf {x} {y} Td ({text}) Tj ET\n"


def paragraph(lines: Iterable[str], *, x: float = 72, y: float = 700, size: float = 12, font: str = "F") -> str:
    return "".join(line(text, x=x, y=y - 1.2 * size * row, size=size, font=font) for row, text in enumerate(lines))


def picture(image: Image.Image) -> bytes:
    head = (
        f"/Type/XObject/Subtype/Image/Width {image.width}/Height {image.height}"
        "/ColorSpace/DeviceGray/BitsPerComponent 8"
    )
    return deflated(image.convert("L").tobytes(), head)


def placed(name: str, *, x: float, y: float, width: float, height: float) -> str:
    """A picture with its lower left corner at x, y."""
    return f"q {width} 0 0 {height} {x} {y} cm /{name} Do Q\n"


def form(content: str, *, extra: str = "", things: str = "") -> bytes:
    head = (
        f"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources<</Font<</F {HELVETICA}>>/XObject<<{things}>>>>{extra}"
    )
    return stream(content, head)


def ciphered(mapping: int = 900) -> str:
    """A font whose ToUnicode, object `mapping`, says other letters than it draws."""
    return f"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode {mapping} 0 R>>"


def cipher(by: int = SHIFT) -> bytes:
    return to_unicode({ord(letter): _shifted(letter, by) for letter in ascii_letters})


def in_cipher(text: str, by: int = SHIFT) -> str:
    """What the text layer says where `text` is drawn."""
    return "".join(_shifted(letter, by) if letter in ascii_letters else letter for letter in text)


def to_unicode(mapping: Mapping[int, str]) -> bytes:
    rows = "\n".join(f"<{code:02X}> <{text.encode('utf-16-be').hex()}>" for code, text in mapping.items())
    return stream(
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n"
        f"1 begincodespacerange <00> <FF> endcodespacerange\n{len(mapping)} beginbfchar\n{rows}\nendbfchar\n"
        "endcmap end end"
    )


def unmapped(text: str, *, first: int = 900) -> tuple[str, str, dict[int, bytes]]:
    """A font of bitmaps without names that mean anything, as old TeX made them: its dictionary, the string that
    draws `text`, and its objects."""
    letters = sorted(set(text.replace(" ", "")))
    codes = {letter: 128 + at for at, letter in enumerate(letters)}
    glyphs = {first + at: _glyph(letter) for at, letter in enumerate(letters)}
    procs = "".join(f"/g{number} {number} 0 R" for number in glyphs)
    names = "".join(f"/g{number}" for number in glyphs)
    font = (
        "<</Type/Font/Subtype/Type3/FontBBox[0 -12 60 60]/FontMatrix[.02 0 0 .02 0 0]/FirstChar 128"
        f"/LastChar {127 + len(letters)}/Widths[{' '.join(['36'] * len(letters))}]"
        f"/Encoding<</Type/Encoding/Differences[128{names}]>>/CharProcs<<{procs}>>/Resources<<>>>>"
    )
    parts = [" ".join(f"<{codes[letter]:02X}>" for letter in word) for word in text.split()]
    return font, "[" + " -900 ".join(parts) + "] TJ", glyphs


def _glyph(letter: str) -> bytes:
    size = (72, 100)
    image = Image.new("1", size, 1)
    ImageDraw.Draw(image).text((6, 72), letter, fill=0, font=ImageFont.load_default(size=72), anchor="ls")
    mask = image.tobytes().hex()
    return stream(
        f"36 0 0 -14 36 36 d1 36 0 0 50 0 -14 cm BI /W {size[0]} /H {size[1]} /IM true /BPC 1 /F /AHx ID {mask}> EI"
    )


def _shifted(letter: str, by: int) -> str:
    start = ord("a" if letter.islower() else "A")
    return chr(start + (ord(letter) - start + by) % 26)
