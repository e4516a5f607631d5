"""XLSX: each sheet is a page, with its name in the first line and a line with tabs for each row.

Values are those computed when the file was last saved. Sheets are walked cell by cell, so the size that a sheet claims
does not matter. Hidden sheets, rows and columns are left out.
"""

from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path

from app.reading.office.pagination import PageWriter
from app.reading.office.xlsx_values import SharedStrings, Workbook, XlsxStyles
from app.reading.office.zip_package import ZipPackage

_MOST_TABS = 50
"""Tabs between two values at most. Values farther apart are not in one table."""
_TRUE = frozenset({"1", "true"})
_VALUES = frozenset({"v", "t"})
_LAST_COLUMN = 16_384
_LETTER = ord("A") - 1


def read(path: Path, pages: PageWriter) -> None:
    with ZipPackage.opened(path) as package:
        main = package.main()
        relations = package.relations(main)
        book, strings, styles = Workbook(), SharedStrings(), XlsxStyles()
        package.walk(main, book)
        for relation in relations.values():
            if relation.kind == "sharedStrings":
                package.walk_if_there(relation.target, strings)
            elif relation.kind == "styles":
                package.walk_if_there(relation.target, styles)
        for sheet in book.sheets:
            if sheet.is_hidden:
                pages.hide()
            elif sheet.relation in relations:
                pages.begin_page()
                pages.line(sheet.name)
                reading = _Sheet(pages, strings=strings.found, styles=styles, epoch_1904=book.epoch_1904)
                package.walk_if_there(relations[sheet.relation].target, reading)


class _Sheet:
    """A walker of one sheet."""

    def __init__(self, pages: PageWriter, *, strings: list[str], styles: XlsxStyles, epoch_1904: bool) -> None:
        self._pages = pages
        self._strings = strings
        self._styles = styles
        self._epoch_1904 = epoch_1904
        self._hidden_from: list[int] = []
        self._hidden_to: list[int] = []
        """The last columns of the ranges of hidden columns, in order."""
        self._row: list[str] = []
        self._row_hidden = False
        self._column = 0
        """The column of the current cell, from 1."""
        self._last = 0
        """The column of the last value in this row."""
        self._kind = self._style = ""
        self._value: list[str] = []
        self._in_value = False
        self._phonetic = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        # The commonest tags first, because a sheet may have millions of cells.
        if tag == "c":
            self._column = _column(attributes.get("r", "")) or self._column + 1
            self._kind, self._style = attributes.get("t", "n"), attributes.get("s", "0")
        elif tag in _VALUES:
            self._in_value = not self._phonetic
        elif tag == "row":
            self._row, self._column, self._last = [], 0, 0
            self._row_hidden = attributes.get("hidden") in _TRUE
        elif tag == "rPh":
            self._phonetic = True
        elif tag == "col" and attributes.get("hidden") in _TRUE:
            self._hidden_from.append(_number(attributes.get("min", "")))
            self._hidden_to.append(_number(attributes.get("max", "")))

    def end(self, tag: str) -> None:
        if tag in _VALUES:
            self._in_value = False
        elif tag == "c":
            if self._value:
                self._put("".join(self._value))
                self._value = []
        elif tag == "row":
            if self._row:
                self._pages.line("".join(self._row))
                self._row = []
        elif tag == "rPh":
            self._phonetic = False

    def data(self, text: str) -> None:
        if self._in_value:
            self._value.append(text)

    def _put(self, raw: str) -> None:
        if self._row_hidden or (self._hidden_from and self._is_hidden(self._column)):
            self._pages.hide()
            return
        # White space within a value would look like the next cell or row.
        text = " ".join(self._shown(raw).split())
        if not text:
            return
        self._row.append("\t" * min(max(self._column - (self._last or 1), 0), _MOST_TABS) + text)
        self._last = self._column

    def _is_hidden(self, column: int) -> bool:
        at = bisect_right(self._hidden_from, column) - 1
        return at >= 0 and column <= self._hidden_to[at]

    def _shown(self, raw: str) -> str:
        match self._kind:
            case "s":
                index = _number(raw)
                return self._strings[index] if index < len(self._strings) else ""
            case "b":
                return "TRUE" if raw.strip() == "1" else "FALSE"
            case "n":
                return self._styles.formatted(raw, style=_number(self._style), epoch_1904=self._epoch_1904)
            case _:
                return raw


def _number(text: str) -> int:
    return int(text) if text.strip().isdecimal() and len(text) <= len("1048576") else 0


def _column(reference: str) -> int:
    """The column of a reference: 28 for `AB12`; 0 if it is not valid."""
    column = 0
    for letter in reference.rstrip("0123456789"):
        column = column * 26 + ord(letter) - _LETTER
    return column if 0 < column <= _LAST_COLUMN else 0
