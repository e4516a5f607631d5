"""ODT, ODS and ODP: a page is a sheet, a slide, or text up to a page break by the author or the program."""

import re
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path

from app.reading.faults import password_protected
from app.reading.office.blocks import BlockWriter
from app.reading.office.odf_styles import OdfStyles
from app.reading.office.pagination import PageWriter
from app.reading.office.zip_package import ZipPackage

_LEFT_OUT = frozenset({"tracked-changes", "annotation", "desc", "note-citation", "forms", "ruby-text", "script"})
"""Elements left out: deleted text, comments, descriptions of pictures, marks of notes, forms and scripts."""
_PARAGRAPHS = frozenset({"p", "h"})
_CELLS = frozenset({"table-cell", "covered-table-cell"})
_COLLAPSED = frozenset({"collapse", "filter"})
_MOST_REPEATS = 50
"""Repeats of a cell or a blank at most. A sheet ends with a cell repeated 16,000 times. Rows are not repeated."""
_LONGEST_NUMBER = 9
_BLANKS = re.compile(r"[ \t\r\n]+")


def read(path: Path, pages: PageWriter) -> None:
    with ZipPackage.opened(path) as package:
        protection = _Protection()
        package.walk_if_there("META-INF/manifest.xml", protection)
        if protection.is_there:
            raise password_protected("document")
        styles = OdfStyles()
        package.walk_if_there("styles.xml", styles)
        package.walk("content.xml", _Content(pages, styles))


class _Protection:
    """A walker of the manifest that detects encrypted parts, for which the manifest names a key."""

    is_there = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:  # noqa: ARG002 - a walker's signature
        self.is_there = self.is_there or tag == "encryption-data"

    def end(self, tag: str) -> None: ...

    def data(self, text: str) -> None: ...


class _Content:
    """A walker of content.xml, which has its own styles before the body."""

    def __init__(self, pages: PageWriter, styles: OdfStyles) -> None:
        self._pages = pages
        self._blocks = BlockWriter(pages)
        self._styles = styles
        self._in_body = self._in_sheets = False
        self._left_out: list[str] = []
        """The open elements within one that is left out."""
        self._hides = False
        """True if the outermost of them is hidden from a reader."""
        self._tables: list[_Columns] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if not self._in_body:
            self._in_body = tag == "body"
            self._styles.start(tag, attributes)
        elif self._left_out or tag in _LEFT_OUT:
            self._left_out.append(tag)
        else:
            # A hidden slide keeps its number.
            if tag == "page":
                self._pages.begin_page()
            self._hides = self._is_hidden(tag, attributes)
            if self._hides:
                self._left_out.append(tag)
            else:
                self._content(tag, attributes)

    def end(self, tag: str) -> None:
        if not self._in_body:
            self._styles.end(tag)
        elif self._left_out:
            self._left_out.pop()
        elif tag in _PARAGRAPHS:
            self._blocks.end_paragraph()
        elif tag == "table-row":
            self._blocks.end_row()
        elif tag == "table" and self._tables:
            self._tables.pop()
        elif tag == "text":
            self._put_all(self._styles.footers)

    def data(self, text: str) -> None:
        if not self._in_body:
            self._styles.data(text)
        elif not self._left_out:
            # Repeated blanks that count are elements.
            self._blocks.text(_BLANKS.sub(" ", text))
        elif self._hides and text.strip():
            self._pages.hide()

    def _is_hidden(self, tag: str, attributes: Mapping[str, str]) -> bool:
        if tag == "table-row" and self._tables:
            self._tables[-1].at = 0
        if tag in _CELLS and self._tables:
            return self._is_in_hidden_column(attributes)
        return (
            tag == "hidden-text"
            or (tag == "table-row" and attributes.get("visibility") in _COLLAPSED)
            or attributes.get("display") == "none"
            or self._styles.hides(attributes.get("style-name", ""))
        )

    def _is_in_hidden_column(self, attributes: Mapping[str, str]) -> bool:
        repeats = _count(attributes, "number-columns-repeated")
        for _ in range(min(repeats, _MOST_REPEATS)):
            self._blocks.begin_cell()
        is_hidden = self._tables[-1].is_hidden()
        self._tables[-1].at += repeats
        return is_hidden

    def _content(self, tag: str, attributes: Mapping[str, str]) -> None:
        match tag:
            case "p" | "h":
                if self._styles.breaks(attributes.get("style-name", "")):
                    self._blocks.break_page()
                self._blocks.begin_paragraph()
            case "soft-page-break":
                self._blocks.break_page()
            case "table-row":
                self._blocks.begin_row()
            case "s":
                self._blocks.text(" " * min(_count(attributes, "c"), _MOST_REPEATS))
            case "tab":
                self._blocks.text("\t")
            case "line-break":
                self._blocks.text("\n")
            case _:
                self._structure(tag, attributes)

    def _structure(self, tag: str, attributes: Mapping[str, str]) -> None:
        match tag:
            case "text":
                self._put_all(self._styles.headers)
            case "spreadsheet":
                self._in_sheets = True
            case "table":
                if self._in_sheets and not self._tables:
                    self._pages.begin_page()
                    self._pages.line(attributes.get("name", ""))
                self._tables.append(_Columns())
            case "table-column" if self._tables:
                is_hidden = attributes.get("visibility") in _COLLAPSED
                self._tables[-1].add(_count(attributes, "number-columns-repeated"), is_hidden=is_hidden)

    def _put_all(self, lines: list[str]) -> None:
        for line in lines:
            self._pages.line(line)


class _Columns:
    """The hidden columns of a table, and the current place in its row."""

    def __init__(self) -> None:
        self.at = 0
        self._ends: list[int] = []
        self._are_hidden: list[bool] = []

    def add(self, count: int, *, is_hidden: bool) -> None:
        self._ends.append((self._ends[-1] if self._ends else 0) + count)
        self._are_hidden.append(is_hidden)

    def is_hidden(self) -> bool:
        place = bisect_right(self._ends, self.at)
        return place < len(self._ends) and self._are_hidden[place]


def _count(attributes: Mapping[str, str], name: str) -> int:
    text = attributes.get(name, "1")
    return max(int(text), 1) if text.isdecimal() and len(text) < _LONGEST_NUMBER else 1
