"""The parts of an XLSX beside its sheets: the workbook, shared strings, and styles, which mark numbers as dates."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

_TRUE = frozenset({"1", "true"})
_BUILT_IN = MappingProxyType(
    {str(number): "d" for number in (*range(14, 23), *range(27, 37), 45, 47, *range(50, 59))}
    | {"46": "[h]", "9": "%", "10": "%"}
)
"""Number of a built-in format → its code, shortened to date (`d`), elapsed time or percent (ISO 29500-1, 18.8.30)."""
_NOT_LETTERS_OF_DATES = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]|General', re.IGNORECASE)
_ELAPSED = re.compile(r"\[[hms]+\]", re.IGNORECASE)
_EPOCH = datetime(1899, 12, 30)  # noqa: DTZ001 - a workbook's times have no zone
_EPOCH_1904 = datetime(1904, 1, 1)  # noqa: DTZ001 - likewise
_DIGITS = 15
"""Digits of a number that Excel shows."""
_SECONDS = 86_400
"""Seconds of a day."""
_LAST_DAY = 2_958_466
"""The first number after 9999-12-31."""
_BEFORE_THE_LEAP_DAY = 60
"""Excel counts a 29 February 1900, which did not exist: days before it are one off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkbookSheet:
    """A sheet as workbook.xml lists it."""

    name: str
    relation: str
    is_hidden: bool


class Workbook:
    """A walker of workbook.xml that collects the sheets and the epoch of dates."""

    def __init__(self) -> None:
        self.sheets: list[WorkbookSheet] = []
        self.epoch_1904 = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "sheet":
            self.sheets.append(
                WorkbookSheet(
                    name=attributes.get("name", ""),
                    relation=attributes.get("r:id", ""),
                    is_hidden=attributes.get("state", "visible") != "visible",
                )
            )
        elif tag == "workbookPr":
            self.epoch_1904 = attributes.get("date1904") in _TRUE

    def end(self, tag: str) -> None: ...

    def data(self, text: str) -> None: ...


class SharedStrings:
    """A walker of sharedStrings.xml. Phonetic readings of Japanese words are left out."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._parts: list[str] = []
        self._in_text = False
        self._phonetic = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:  # noqa: ARG002 - a walker's signature
        if tag == "rPh":
            self._phonetic = True
        self._in_text = tag == "t" and not self._phonetic

    def end(self, tag: str) -> None:
        self._in_text = False
        if tag == "rPh":
            self._phonetic = False
        elif tag == "si":
            self.found.append("".join(self._parts))
            self._parts.clear()

    def data(self, text: str) -> None:
        if self._in_text:
            self._parts.append(text)


class XlsxStyles:
    """A walker of styles.xml that formats numbers."""

    def __init__(self) -> None:
        self._codes: dict[str, str] = {}
        self._formats: list[str] = []
        """Ids of number formats by the style index of cells."""
        self._in_cells = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "numFmt":
            self._codes[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
        elif tag == "cellXfs":
            self._in_cells = True
        elif tag == "xf" and self._in_cells:
            self._formats.append(attributes.get("numFmtId", ""))

    def end(self, tag: str) -> None:
        if tag == "cellXfs":
            self._in_cells = False

    def data(self, text: str) -> None: ...

    def formatted(self, raw: str, *, style: int, epoch_1904: bool) -> str:
        """The number with 15 digits as in Excel, or as a date or time in ISO 8601; other formats are not applied."""
        try:
            value = float(raw)
        except ValueError:
            return raw
        code = self._code(style)
        if not code:
            return _plain(raw, value)
        if 0 <= value < _LAST_DAY:
            if _ELAPSED.search(code):
                return _elapsed(value)
            if any(letter in "ymdhs" for letter in _NOT_LETTERS_OF_DATES.sub("", code).lower()):
                return _date(value, epoch_1904=epoch_1904)
        if code.endswith("%"):
            return f"{value * 100:.15g}%"
        return _plain(raw, value)

    def _code(self, style: int) -> str:
        """The format code of a style, such as `yyyy-mm-dd`; "" if it is unknown."""
        name = self._formats[style] if style < len(self._formats) else ""
        return self._codes[name].split(";")[0] if name in self._codes else _BUILT_IN.get(name, "")


def _plain(raw: str, value: float) -> str:
    # 0.1 + 0.2 is stored with its binary rounding error.
    return f"{value:.15g}" if len(raw) > _DIGITS and "e" not in f"{value:.15g}" else raw.strip()


def _elapsed(days: float) -> str:
    minutes, seconds = divmod(round(days * _SECONDS), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def _date(value: float, *, epoch_1904: bool) -> str:
    epoch = _EPOCH_1904 if epoch_1904 else _EPOCH
    if not epoch_1904 and 1 <= value < _BEFORE_THE_LEAP_DAY:
        value += 1
    when = epoch + timedelta(seconds=round(value * _SECONDS))
    if value < 1:
        return when.strftime("%H:%M:%S")
    return when.strftime("%Y-%m-%d") if value == int(value) else when.strftime("%Y-%m-%d %H:%M:%S")
