"""ALTO 4.4: the text as XML with positions in 1200ths of an inch.

https://www.loc.gov/standards/alto/
"""

from app.domain.documents import Document
from app.domain.formats.lines import (
    TextBlock,
    TextBox,
    TextLine,
    TextRun,
    blocks_of,
    enclosing,
    escaped_markup,
    language_of,
    runs_of,
)
from app.domain.pages import Page

_UNITS_PER_POINT = 1200 / 72

_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<alto xmlns="http://www.loc.gov/standards/alto/ns-v4#" SCHEMAVERSION="4.4">
<Description>
<MeasurementUnit>inch1200</MeasurementUnit>
<sourceImageInformation><fileName>{name}</fileName></sourceImageInformation>
<Processing ID="daira"><processingSoftware><softwareName>Daira</softwareName></processingSoftware></Processing>
</Description>
<Layout>
"""
FOOT = "</Layout>\n</alto>\n"


def head(document: Document) -> str:
    return _HEAD.format(name=escaped_markup(document.filename))


def page(page: Page) -> str:
    """Return a page as ALTO. Positions are left out where the page has none."""
    language = language_of(page)
    attributes = "".join(
        [
            f' ID="page_{page.number}" PHYSICAL_IMG_NR="{page.number}"',
            "" if page.width is None else f' WIDTH="{_units(page.width)}"',
            "" if page.height is None else f' HEIGHT="{_units(page.height)}"',
            "" if page.confidence is None else f' PC="{page.confidence:.4f}"',
            f' LANG="{language}"' if language else "",
        ]
    )
    blocks = "".join(
        _block(block, name=f"{page.number}_{number}") for number, block in enumerate(blocks_of(page), start=1)
    )
    return f"<Page{attributes}>\n<PrintSpace>\n{blocks}</PrintSpace>\n</Page>\n"


def _block(block: TextBlock, *, name: str) -> str:
    lines = "".join(_line(line, name=f"{name}_{number}") for number, line in enumerate(block, start=1))
    return f'<TextBlock ID="block_{name}"{_place(enclosing(runs_of(block)))}>\n{lines}</TextBlock>\n'


def _line(line: TextLine, *, name: str) -> str:
    strings = "<SP/>".join(_string(piece) for piece in line)
    return f'<TextLine ID="line_{name}"{_place(enclosing(line))}>{strings}</TextLine>\n'


def _string(piece: TextRun) -> str:
    sure = "" if piece.confidence is None else f' WC="{piece.confidence:.4f}"'
    return f'<String CONTENT="{escaped_markup(piece.text)}"{_place(piece.box)}{sure}/>'


def _place(box: TextBox | None) -> str:
    if box is None:
        return ""
    x0, y0, x1, y1 = box
    return f' HPOS="{_units(x0)}" VPOS="{_units(y0)}" WIDTH="{_units(x1 - x0)}" HEIGHT="{_units(y1 - y0)}"'


def _units(points: float) -> str:
    return f"{points * _UNITS_PER_POINT:.1f}".removesuffix(".0")
