"""The paragraphs and tables of a DOCX's body, header or footnote, and the styles that hide text.

A style hides text by itself or by the style that it is based on.
"""

from collections.abc import Mapping
from types import MappingProxyType

from app.reading.office.blocks import BlockWriter
from app.reading.office.pagination import PageWriter

OFF_VALUES = frozenset({"0", "false", "off"})


class DocxStyles:
    """A walker of styles.xml that finds the styles that hide text."""

    def __init__(self) -> None:
        self._style = ""
        self._bases: dict[str, str] = {}
        self._vanishes: dict[str, bool] = {}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        value = attributes.get("val", "")
        if tag == "style":
            self._style = attributes.get("styleId", "")
        elif tag == "basedOn":
            self._bases[self._style] = value
        elif tag == "vanish" and self._style:
            self._vanishes[self._style] = value.lower() not in OFF_VALUES

    def end(self, tag: str) -> None:
        if tag == "style":
            self._style = ""

    def data(self, text: str) -> None: ...

    def hidden(self) -> frozenset[str]:
        """The ids of the styles that hide text."""
        return frozenset(style for style in {*self._bases, *self._vanishes} if self._is_hidden(style))

    def _is_hidden(self, style: str) -> bool:
        seen: set[str] = set()
        while style not in self._vanishes and style in self._bases and style not in seen:
            seen.add(style)
            style = self._bases[style]
        return self._vanishes.get(style, False)


_LEFT_OUT = frozenset({"del", "moveFrom", "Fallback", "instrText"})
"""Elements without shown text: deleted or moved text, the second copy of a text box, and instructions of fields."""
_PROPERTIES = frozenset({"pPr", "rPr", "sectPr"})
_WRITTEN = MappingProxyType({"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"})
_REFERENCES = frozenset({"footnoteReference", "endnoteReference"})
_NOTHING: Mapping[tuple[str, str], str] = MappingProxyType({})


class DocxStory:
    """A walker that writes a part's text. `notes` are texts by kind (`footnote`) and id.

    Each note follows the paragraph that refers to it.
    """

    def __init__(
        self, pages: PageWriter, *, hidden_styles: frozenset[str], notes: Mapping[tuple[str, str], str] = _NOTHING
    ) -> None:
        self._pages = pages
        self._blocks = BlockWriter(pages)
        self._hidden_styles = hidden_styles
        self._notes = notes
        self._cited: list[str] = []
        self._left_out = 0
        """The depth of open elements within one that is left out."""
        self._properties: list[str] = []
        """The open property elements. Elements in them describe their paragraph, run or section."""
        self._outer: list[tuple[bool, bool]] = []
        self._hides_paragraph = self._hides_run = False
        self._in_text = False
        self._section_ends = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._left_out or tag in _LEFT_OUT:
            self._left_out += 1
        elif tag in _PROPERTIES:
            self._properties.append(tag)
            # A section begins a page unless its type is `continuous`.
            self._section_ends = self._section_ends or self._properties == ["pPr", "sectPr"]
        elif self._properties:
            self._property(tag, attributes.get("val", ""))
        elif tag in _REFERENCES:
            self._cite(tag.removesuffix("Reference"), attributes.get("id", ""))
        else:
            self._content(tag, attributes.get("type", ""))

    def end(self, tag: str) -> None:
        if self._left_out:
            self._left_out -= 1
        elif self._properties:
            if tag == self._properties[-1]:
                self._properties.pop()
        elif tag == "t":
            self._in_text = False
        elif tag == "p":
            self._end_paragraph()
        elif tag == "tr":
            self._blocks.end_row()

    def data(self, text: str) -> None:
        if self._in_text and not self._left_out:
            self._write(text)

    def _property(self, tag: str, value: str) -> None:
        match self._properties, tag:
            case ["rPr"], "vanish":
                self._hides_run = value.lower() not in OFF_VALUES
            case ["rPr"], "rStyle":
                self._hides_run = self._hides_run or value in self._hidden_styles
            case ["pPr"], "pStyle":
                self._hides_paragraph = value in self._hidden_styles
            case ["pPr"], "pageBreakBefore" if value.lower() not in OFF_VALUES:
                self._blocks.break_page()
            case ["pPr", "sectPr"], "type":
                self._section_ends = value != "continuous"
            case _:
                pass

    def _content(self, tag: str, kind: str) -> None:
        match tag:
            case "p":
                self._outer.append((self._hides_paragraph, self._hides_run))
                self._hides_paragraph = self._hides_run = False
                self._blocks.begin_paragraph()
            case "r":
                self._hides_run = self._hides_paragraph
            case "t":
                self._in_text = True
            case "tr":
                self._blocks.begin_row()
            case "tc":
                self._blocks.begin_cell()
            case _:
                self._sign(tag, kind)

    def _sign(self, tag: str, kind: str) -> None:
        if tag == "lastRenderedPageBreak" or (tag, kind) == ("br", "page"):
            self._blocks.break_page()
        elif tag in _WRITTEN:
            self._write(_WRITTEN[tag])

    def _write(self, text: str) -> None:
        if not self._hides_run:
            self._blocks.text(text)
        elif text.strip():
            self._pages.hide()

    def _cite(self, kind: str, name: str) -> None:
        if note := self._notes.get((kind, name)):
            self._cited.append(note)

    def _end_paragraph(self) -> None:
        self._blocks.end_paragraph()
        if self._outer:
            self._hides_paragraph, self._hides_run = self._outer.pop()
        for note in self._cited:
            self._blocks.put(note)
        self._cited.clear()
        if self._section_ends:
            self._section_ends = False
            self._blocks.break_page()
