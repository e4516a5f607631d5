"""A font that draws nothing: text set in it can be selected, searched and copied, and is invisible.

Every character is the same glyph. A character gets a code at its first use, so any text fits, with characters beyond
16 bits, and the mapping to Unicode has only the characters in use.
"""

import struct
from itertools import islice

from pikepdf import Array, Dictionary, Name, Object, Pdf, Stream

EM = 1000
"""Units of the font's square, all above the baseline, so that a letter is as high as its font size."""
ADVANCE = 500
"""The width of every character in units."""

_MOST_CODES = 0xFFFF
_IN_ONE_BLOCK = 100
"""Mappings in one block of a CMap at most (PDF 32000-1, 9.7.5.4)."""
_UNKNOWN = "\ufffd"

_CMAP = """/CIDInit /ProcSet findresource begin 12 dict begin begincmap
/CIDSystemInfo <</Registry (Adobe)/Ordering (UCS)/Supplement 0>> def
/CMapName /Adobe-Identity-UCS def /CMapType 2 def
1 begincodespacerange <0000> <FFFF> endcodespacerange
%sendcmap CMapName currentdict /CMap defineresource pop end end"""


class GlyphlessFont:
    """Encodes text and collects its characters for the embedded font."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def encoded(self, text: str) -> str:
        """The text as a hexadecimal string of the font's codes."""
        return "".join(f"{self._code(character):04X}" for character in text)

    def embedded(self, pdf: Pdf) -> Object:
        """The font with all characters encoded so far, as an object of the file."""
        descriptor = Dictionary(
            Type=Name.FontDescriptor,
            FontName=Name.Glyphless,
            Flags=5,  # fixed pitch, symbolic
            FontBBox=Array([0, 0, ADVANCE, EM]),
            ItalicAngle=0,
            Ascent=EM,
            Descent=0,
            CapHeight=EM,
            StemV=80,
            FontFile2=Stream(pdf, _file()),
        )
        descendant = Dictionary(
            Type=Name.Font,
            Subtype=Name.CIDFontType2,
            BaseFont=Name.Glyphless,
            CIDSystemInfo=Dictionary(Registry=b"Adobe", Ordering=b"Identity", Supplement=0),
            FontDescriptor=pdf.make_indirect(descriptor),
            DW=ADVANCE,
            CIDToGIDMap=Stream(pdf, b"\0\1" * (len(self._codes) + 1)),
        )
        font = Dictionary(
            Type=Name.Font,
            Subtype=Name.Type0,
            BaseFont=Name.Glyphless,
            Encoding=Name("/Identity-H"),
            DescendantFonts=Array([pdf.make_indirect(descendant)]),
            ToUnicode=Stream(pdf, self._to_unicode()),
        )
        return pdf.make_indirect(font)

    def _code(self, character: str) -> int:
        if character not in self._codes and len(self._codes) >= _MOST_CODES - 1:
            character = _UNKNOWN
        return self._codes.setdefault(character, len(self._codes) + 1)

    def _to_unicode(self) -> bytes:
        codes = iter(self._codes.items())
        blocks = ""
        while some := list(islice(codes, _IN_ONE_BLOCK)):
            rows = "".join(f"<{code:04X}> <{_utf16(character)}>\n" for character, code in some)
            blocks += f"{len(some)} beginbfchar\n{rows}endbfchar\n"
        return (_CMAP % blocks).encode()


def _utf16(character: str) -> str:
    return character.encode("utf-16-be", "replace").hex().upper()


def _file() -> bytes:
    """A TrueType file with two glyphs: an empty one, and a line from corner to corner, which encloses no area.

    The line gives the second glyph a size, because readers take two adjacent empty letters for one drawn twice.
    """
    line = struct.pack(">5h2H2B4hx", 1, 0, 0, ADVANCE, EM, 1, 0, 1, 1, 0, ADVANCE, 0, EM)
    line += b"\0" * (len(line) % 2)
    tables = {
        b"cmap": struct.pack(">4HI12H", 0, 1, 3, 1, 12, 4, 24, 0, 2, 2, 0, 0, 0xFFFF, 0, 0xFFFF, 1, 0),
        b"glyf": line,
        b"head": struct.pack(
            ">4I2H2q4h2H3h", 0x10000, 0x10000, 0, 0x5F0F3CF5, 0, EM, 0, 0, 0, 0, ADVANCE, EM, 0, 8, 2, 0, 0
        ),
        b"hhea": struct.pack(">I3hH11hH", 0x10000, EM, 0, 0, ADVANCE, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1),
        b"hmtx": struct.pack(">Hhh", ADVANCE, 0, 0),
        b"loca": struct.pack(">3H", 0, 0, len(line) // 2),
        b"maxp": struct.pack(">I14H", 0x10000, 2, 2, 1, 0, 0, 1, *[0] * 8),
        b"name": struct.pack(">3H", 0, 0, 6),
        b"post": struct.pack(">I2h5I", 0x30000, 0, 0, 0, 1, 0, 0, 0) + b"\0" * 4,
    }
    body = b""
    head = struct.pack(">I4H", 0x10000, len(tables), 128, 3, len(tables) * 16 - 128)
    for tag, table in tables.items():
        padded = table + b"\0" * (-len(table) % 4)
        checksum = sum(struct.unpack(f">{len(padded) // 4}I", padded)) & 0xFFFFFFFF
        head += struct.pack(">4s3I", tag, checksum, 12 + 16 * len(tables) + len(body), len(table))
        body += padded
    return head + body
