"""The styles of an ODF file that hide text or begin a page, and the headers and footers defined with them."""

from collections.abc import Mapping

from app.reading.office.blocks import BlockWriter
from app.reading.office.pagination import PageWriter

_HEADERS = frozenset({"header", "header-left", "header-first"})
_FOOTERS = frozenset({"footer", "footer-left", "footer-first"})
_LONGEST_ASIDE = 100
"""Pages of headers or of footers at most."""


class OdfStyles:
    """A walker of styles.xml and of the styles at the beginning of content.xml."""

    def __init__(self) -> None:
        self._style = ""
        self._parents: dict[str, str] = {}
        self._hides: dict[str, bool] = {}
        self._breaks: set[str] = set()
        self._blocks: BlockWriter | None = None
        self._aside = PageWriter(most=_LONGEST_ASIDE)
        self.headers: list[str] = []
        self.footers: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "style":
            self._style = attributes.get("name", "")
            self._parents[self._style] = attributes.get("parent-style-name", "")
            if attributes.get("master-page-name"):
                self._breaks.add(self._style)
        elif tag.endswith("-properties") and self._style:
            self._property(tag, attributes)
        elif tag in _HEADERS | _FOOTERS:
            self._aside = PageWriter(most=_LONGEST_ASIDE)
            self._blocks = BlockWriter(self._aside)
        elif tag == "p" and self._blocks:
            self._blocks.begin_paragraph()

    def end(self, tag: str) -> None:
        if tag == "style":
            self._style = ""
        elif tag == "p" and self._blocks:
            self._blocks.end_paragraph()
        elif tag in _HEADERS | _FOOTERS:
            self._keep(self.headers if tag in _HEADERS else self.footers)

    def data(self, text: str) -> None:
        if self._blocks:
            self._blocks.text(text)

    def hides(self, style: str) -> bool:
        seen: set[str] = set()
        while style and style not in self._hides and style not in seen:
            seen.add(style)
            style = self._parents.get(style, "")
        return self._hides.get(style, False)

    def breaks(self, style: str) -> bool:
        """Return true if the style begins a page. Programs repeat a parent's break, so parents are not searched."""
        return style in self._breaks

    def _property(self, tag: str, attributes: Mapping[str, str]) -> None:
        if "display" in attributes:
            self._hides[self._style] = attributes["display"] in {"none", "false"}
        if tag == "drawing-page-properties" and attributes.get("visibility") == "hidden":
            self._hides[self._style] = True
        if attributes.get("break-before") == "page":
            self._breaks.add(self._style)

    def _keep(self, lines: list[str]) -> None:
        self._blocks = None
        text = "\n".join(page.text for page in self._aside.finished()).strip()
        if text and text not in lines:
            lines.append(text)
