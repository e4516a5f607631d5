"""A reader of RTF. The available library drops footnotes and text boxes and reports neither pages nor hidden text."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.reading.faults import damaged, nested_too_deep
from app.reading.office.pagination import PageWriter
from app.reading.office.rtf_words import LEFT_OUT, SHOWN_STARRED, WRITTEN, codec_of_font, codepage

_TOKEN = re.compile(
    rb"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,9})?\x20?"
    rb"|\\'(?P<hex>[0-9a-fA-F]{2})"
    rb"|\\(?P<symbol>[^a-zA-Z])"
    rb"|(?P<brace>[{}])"
    rb"|(?P<text>[^\\{}\r\n\x00]+)"
    rb"|[\r\n\x00]+|\\"
)
_DEEPEST = 10_000
_SYMBOLS = {b"~": "\u00a0", b"_": "-", b"\n": "\n", b"\r": "\n"}
_LITERAL = frozenset(b"\\{}")
_SWITCHES = {"v": "hides", "deleted": "is_deleted"}
_HIGH = 0x80
_WRAP = 0x10000


def read(path: Path, pages: PageWriter) -> None:
    data = path.read_bytes()
    reading = _RtfReader(pages)
    at = 0
    while (token := _TOKEN.match(data, at)) is not None:
        at = token.end() + reading.take(token)
        if reading.is_over:
            break
    reading.flush()
    if not reading.has_begun:
        raise damaged("document")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The state that a group sets, until its brace is closed."""

    is_left_out: bool = False
    hides: bool = False
    is_deleted: bool = False
    in_fonts: bool = False
    in_table: bool = False
    skips: int = 1
    """Characters after one of Unicode that replace it for readers without Unicode."""
    font: int = -1


class _RtfReader:
    """Writes the text of an RTF file to `pages`, token by token."""

    def __init__(self, pages: PageWriter) -> None:
        self._pages = pages
        self._group = _Group()
        self._outer: list[_Group] = []
        self._starred = self._opened = False
        """True if the last token was a star, or a brace."""
        self._to_skip = 0
        self._bytes = bytearray()
        """Bytes of characters in an old character set; Asian ones take two."""
        self._units: list[int] = []
        """Units of UTF-16; a character beyond the first plane has two."""
        self._codepage = "cp1252"
        self._fonts: dict[int, str] = {}
        self._tabs = 0
        """Cells that have ended since the last text was written."""
        self.has_begun = self.is_over = False

    def take(self, token: re.Match[bytes]) -> int:
        """Handle a token; return the number of bytes to skip after it."""
        kind = token.lastgroup
        if token["word"] is not None:
            return self._word(token["word"].decode(), token["number"])
        match kind:
            case "hex":
                self._byte(int(token["hex"], 16))
            case "symbol":
                self._symbol(token["symbol"])
            case "brace":
                self._brace(token["brace"])
            case "text":
                self._text(token["text"])
            case _:
                pass
        return 0

    def flush(self) -> None:
        """Write the bytes and units collected so far."""
        if self._bytes:
            data, self._bytes = bytes(self._bytes), bytearray()
            self._write(data.decode(self._fonts.get(self._group.font, self._codepage), "replace"))
        if self._units:
            units, self._units = self._units, []
            self._write(b"".join(unit.to_bytes(2, "little") for unit in units).decode("utf-16-le", "ignore"))

    def _brace(self, brace: bytes) -> None:
        self.flush()
        self._to_skip = 0
        if brace == b"{":
            if len(self._outer) >= _DEEPEST:
                raise nested_too_deep()
            self.has_begun = self._opened = True
            self._outer.append(self._group)
        elif self._outer:
            self._group = self._outer.pop()
            # Text after the outermost group is not part of the document.
            self.is_over = not self._outer
        self._starred = False

    def _word(self, word: str, number: bytes | None) -> int:
        value = None if number is None else int(number)
        if word == "bin":
            return max(value or 0, 0)
        if word == "u" and value is not None:
            self._unit(value)
            return 0
        self.flush()
        self._to_skip = 0
        self._begin_destination(word)
        if word in {"cell", "nestcell"}:
            self._tabs += 1
        elif word in WRITTEN:
            self._write(WRITTEN[word])
        elif word in {"par", "line", "sect", "column"}:
            self._write(" " if self._group.in_table else "\n")
        elif word in {"page", "softpage"}:
            self._break_page()
        else:
            self._state(word, value)
        return 0

    def _begin_destination(self, word: str) -> None:
        if self._opened:
            starred = self._starred and word not in SHOWN_STARRED
            self._group = replace(
                self._group,
                is_left_out=self._group.is_left_out or starred or word in LEFT_OUT,
                in_fonts=self._group.in_fonts or word == "fonttbl",
            )
        self._opened = self._starred = False

    def _state(self, word: str, value: int | None) -> None:
        match word:
            case "ansicpg":
                self._codepage = codepage(value)
            case "mac":
                self._codepage = "mac_roman"
            case "fcharset" if self._group.in_fonts:
                self._fonts[self._group.font] = codec_of_font(value, otherwise=self._codepage)
            case _ if changed := _of_group(word, value):
                self._group = replace(self._group, **changed)
            case _:
                pass

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._starred = True
            return
        if symbol in _SYMBOLS:
            self.flush()
            self._write(_SYMBOLS[symbol])
        elif symbol[0] in _LITERAL or symbol[0] >= _HIGH:
            self._byte(symbol[0])

    def _text(self, text: bytes) -> None:
        skipped = min(self._to_skip, len(text))
        self._to_skip -= skipped
        self._opened = False
        if skipped < len(text):
            self._bytes += self._after_units(text[skipped:])

    def _byte(self, value: int) -> None:
        if self._to_skip:
            self._to_skip -= 1
            return
        self._opened = False
        self._bytes += self._after_units(bytes((value,)))

    def _after_units(self, data: bytes) -> bytes:
        if self._units:
            self.flush()
        return data

    def _unit(self, value: int) -> None:
        if self._bytes:
            self.flush()
        self._opened = False
        self._units.append(value % _WRAP)
        self._to_skip = self._group.skips

    def _write(self, text: str) -> None:
        group = self._group
        if group.is_left_out or group.in_fonts or group.is_deleted:
            return
        if not group.hides:
            # Tabs are written before the next text only, because the last cell of a row has none after it.
            tabs, self._tabs = "\t" * self._tabs, 0
            self._pages.write(text if text == "\n" else tabs + text)
        elif text.strip():
            self._pages.hide()

    def _break_page(self) -> None:
        if not self._group.is_left_out and not self._pages.is_blank:
            self._pages.end_page()


def _of_group(word: str, value: int | None) -> dict[str, Any]:
    """The changes of state by a control word, which last until its group ends."""
    if word in _SWITCHES:
        return {_SWITCHES[word]: value != 0}
    if word == "f" and value is not None:
        return {"font": value}
    if word == "uc":
        return {"skips": max(value or 0, 0)}
    if word in {"intbl", "pard"}:
        return {"in_table": word == "intbl"}
    return {"hides": False, "is_deleted": False} if word == "plain" else {}
