"""hOCR 1.2: the text as HTML with positions. Positions are in pixels at DPI, because hOCR has only whole numbers.

https://kba.github.io/hocr-spec/1.2/
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

DPI = 300
_POINTS_PER_INCH = 72

_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml">
<head>
<title>{title}</title>
<meta http-equiv="Content-Type" content="text/html;charset=utf-8"/>
<meta name="ocr-system" content="daira"/>
<meta name="ocr-capabilities" content="ocr_page ocr_carea ocr_par ocr_line ocrx_word ocrp_lang ocrp_wconf"/>
<meta name="ocr-number-of-pages" content="{page_count}"/>
<style>.ocrx_word {{ unicode-bidi: isolate }}</style>
</head>
<body>
"""
FOOT = "</body>\n</html>\n"


def head(document: Document) -> str:
    return _HEAD.format(title=escaped_markup(document.filename), page_count=document.page_count or 0)


def page(page: Page) -> str:
    """Return a page as hOCR. Positions are left out where the page has none."""
    language = language_of(page)
    says = [f"ppageno {page.number - 1}"]
    if page.width is not None and page.height is not None:
        says = [_bbox((0, 0, page.width, page.height)), *says, f"scan_res {DPI} {DPI}"]
    tag = f' lang="{language}" xml:lang="{language}"' if language else ""
    blocks = "".join(
        _block(block, name=f"{page.number}_{number}") for number, block in enumerate(blocks_of(page), start=1)
    )
    return f'<div class="ocr_page" id="page_{page.number}"{tag} title="{"; ".join(says)}">\n{blocks}</div>\n'


def _block(block: TextBlock, *, name: str) -> str:
    place = _title(enclosing(runs_of(block)))
    lines = "\n".join(_line(line, name=f"{name}_{number}") for number, line in enumerate(block, start=1))
    return (
        f'<div class="ocr_carea" id="block_{name}"{place}>\n<p class="ocr_par" id="par_{name}"{place}>\n'
        f"{lines}\n</p>\n</div>\n"
    )


def _line(line: TextLine, *, name: str) -> str:
    words = " ".join(_word(piece, name=f"{name}_{number}") for number, piece in enumerate(line, start=1))
    return f'<span class="ocr_line" id="line_{name}"{_title(enclosing(line))}>{words}</span>'


def _word(piece: TextRun, *, name: str) -> str:
    sure = "" if piece.confidence is None else f"x_wconf {round(piece.confidence * 100)}"
    return f'<span class="ocrx_word" id="word_{name}"{_title(piece.box, sure)}>{escaped_markup(piece.text)}</span>'


def _title(box: TextBox | None, more: str = "") -> str:
    says = "; ".join(filter(None, [_bbox(box) if box else "", more]))
    return f' title="{says}"' if says else ""


def _bbox(box: TextBox) -> str:
    return "bbox " + " ".join(str(round(value * DPI / _POINTS_PER_INCH)) for value in box)
