"""HTML: the text that a browser would show, without text that attributes and inline styles hide.

Style sheets are not applied, so text that only a rule by class hides is read.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from lxml import etree

from app.reading.faults import damaged, too_large
from app.reading.office.blocks import BlockWriter
from app.reading.office.charset import encoding_of, known_codec, text_blocks
from app.reading.office.pagination import PageWriter

# fmt: off
_SILENT = frozenset(
    {
        "head", "script", "style", "template", "noscript", "iframe", "object", "svg", "audio", "video",
        "canvas", "datalist", "noembed", "noframes",
    }
)
"""Elements without text for a reader."""
_BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "dialog", "dir", "div",
        "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
        "header", "hgroup", "hr", "html", "legend", "li", "main", "menu", "nav", "ol", "option", "p", "section",
        "summary", "table", "tbody", "tfoot", "thead", "title", "ul", "caption",
    }
)
# fmt: on
_AS_WRITTEN = frozenset({"pre", "textarea"})
_HIDING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(hidden|collapse)|mso-hide\s*:\s*all"
    r"|(font-size|opacity)\s*:\s*0(\.0*)?\s*(px|pt|em|rem|%)?\s*(;|!|$)",
    re.IGNORECASE,
)
_BLANKS = re.compile(r"[ \t\r\n\f]+")
_META = re.compile(rb"""<meta[^>]{1,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)
_META_WITHIN = 4096
_FED = 64 * 1024


def read(path: Path, pages: PageWriter) -> None:
    with path.open("rb") as stream:
        declared = _META.search(stream.read(_META_WITHIN))
        stream.seek(0)
        encoding = encoding_of(stream)
        # The bytes are trusted first: pages declare wrong character sets, and bytes are not valid UTF-8 by chance.
        if not encoding.startswith("utf") and declared:
            encoding = known_codec(declared[1].decode()) or encoding
        writing = HtmlReader(pages)
        for block in text_blocks(stream, encoding):
            writing.feed(block)
        writing.close()


class HtmlReader:
    """Writes the text of HTML, fed piece by piece, to `pages`. Raises DocumentFault (corrupt, too_large)."""

    def __init__(self, pages: PageWriter) -> None:
        self._parser = etree.HTMLParser(
            target=_HtmlTarget(pages), encoding="utf-8", no_network=True, huge_tree=True, remove_comments=True
        )
        self._fed = False

    def feed(self, text: str) -> None:
        # HTML treats a form feed as a blank. A zero is dropped, because the parser would stop at it.
        data = text.replace("\f", " ").replace("\0", "").encode("utf-8", "replace")
        self._fed = self._fed or bool(data)
        self._guarded(lambda: [self._parser.feed(data[at : at + _FED]) for at in range(0, len(data), _FED)])

    def close(self) -> None:
        if self._fed:
            self._guarded(self._parser.close)

    def _guarded(self, step: Callable[[], object]) -> None:
        try:
            step()
        except etree.LxmlError as error:
            if "memory" in str(error).lower():
                raise too_large("The page takes too much memory") from error
            raise damaged("page") from error


class _HtmlTarget:
    """The target that lxml calls with elements and text."""

    def __init__(self, pages: PageWriter) -> None:
        self._pages = pages
        self._blocks = BlockWriter(pages)
        self._blocks.begin_paragraph()
        self._silent = 0
        """The depth of open elements within one that is not shown."""
        self._hides = False
        self._as_written = 0
        self._ends_blank = True

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._silent:
            self._silent += 1
        elif tag in _SILENT or _is_hidden(attributes):
            self._hides = tag not in _SILENT
            self._silent = 1
        elif tag == "br":
            self._end_line()
        elif tag == "tr":
            self._end_line()
            self._blocks.begin_row()
        elif tag in {"td", "th"}:
            self._end_line()
            self._blocks.begin_cell()
        elif tag in _BLOCKS or tag in _AS_WRITTEN:
            self._end_line()
            self._as_written += tag in _AS_WRITTEN

    def end(self, tag: str) -> None:
        if self._silent:
            self._silent -= 1
        elif tag in _BLOCKS or tag in _AS_WRITTEN or tag in {"td", "th"}:
            self._end_line()
            self._as_written -= tag in _AS_WRITTEN
        elif tag == "tr":
            self._end_line()
            self._blocks.end_row()

    def data(self, text: str) -> None:
        if self._silent:
            if self._hides and text.strip():
                self._pages.hide()
        elif self._as_written:
            self._blocks.text(text)
        else:
            self._blocks.text(self._joined(_BLANKS.sub(" ", text)))

    def close(self) -> None:
        self._end_line()

    def _joined(self, text: str) -> str:
        """The text without a blank that would follow another one or begin the line."""
        shown = text[1:] if self._ends_blank and text.startswith(" ") else text
        if shown:
            self._ends_blank = shown.endswith(" ")
        return shown

    def _end_line(self) -> None:
        self._blocks.end_paragraph(keep_blank=False)
        self._blocks.begin_paragraph()
        self._ends_blank = True


def _is_hidden(attributes: Mapping[str, str]) -> bool:
    return "hidden" in attributes or _HIDING.search(attributes.get("style") or "") is not None
