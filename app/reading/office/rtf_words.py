"""The control words of RTF 1.9.1 that matter to its text, and the character sets of its fonts."""

import codecs
from types import MappingProxyType

# fmt: off
LEFT_OUT = frozenset(
    {
        "fonttbl", "colortbl", "stylesheet", "info", "pict", "objdata", "listtable", "listoverridetable",
        "revtbl", "rsidtbl", "filetbl", "fldinst", "bkmkstart", "bkmkend", "xe", "tc", "annotation", "atnid",
        "atnauthor", "atndate", "atnref", "atntime", "shprslt", "sp", "do", "nonesttables", "themedata",
        "datastore", "colorschememapping", "latentstyles", "xmlnstbl", "generator", "template", "private",
        "formfield", "datafield",
    }
)
# fmt: on
"""Words of groups without text for a reader, or with a second copy of it."""
SHOWN_STARRED = frozenset({"shpinst", "shptxt", "shpgrp", "nesttableprops", "fldrslt", "pgnsep"})
"""Words of starred groups whose text is shown. Programs skip a starred group whose word they don't know."""
WRITTEN = MappingProxyType(
    {
        "tab": "\t",
        "row": "\n",
        "nestrow": "\n",
        "emdash": "—",
        "endash": "–",
        "bullet": "•",
        "lquote": "‘",
        "rquote": "’",
        "ldblquote": "“",
        "rdblquote": "”",
        "emspace": "\u2003",
        "enspace": "\u2002",
        "qmspace": "\u2005",
        "footnote": " ",
    }
)
_BY_FONT = MappingProxyType(
    {
        77: 10000,
        128: 932,
        129: 949,
        130: 1361,
        134: 936,
        136: 950,
        161: 1253,
        162: 1254,
        163: 1258,
        177: 1255,
        178: 1256,
        186: 1257,
        204: 1251,
        222: 874,
        238: 1250,
        254: 437,
        255: 850,
    }
)
"""Value of the word fcharset → code page of Windows."""
_OTHER_NAMES = MappingProxyType({10000: "mac_roman", 1361: "johab", 65001: "utf-8", 936: "gb18030"})


def codepage(number: int | None) -> str:
    """The codec for a value of the word ansicpg; cp1252 if the code page is unknown."""
    try:
        return codecs.lookup(_OTHER_NAMES.get(number or 0, f"cp{number}")).name
    except LookupError:
        return "cp1252"


def codec_of_font(charset: int | None, *, otherwise: str) -> str:
    number = _BY_FONT.get(charset) if charset is not None else None
    return otherwise if number is None else codepage(number)
