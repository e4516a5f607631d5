"""Plain text, in whatever character set: CSV, Markdown and JSON are that too."""

import unicodedata
from pathlib import Path

from app.adapters.ocr.faults import damaged
from app.adapters.ocr.text.charset import blocks, encoding_of
from app.adapters.ocr.text.pages import Pages

_SAMPLED = 10_000
_MOST_JUNK = 0.05
"""Share of characters that no writer of text puts there, in any block: beyond it the file is no text."""
_LAYOUT = frozenset("\t\n\v\f\r\b\a\x1b")


def read(path: Path, pages: Pages) -> None:
    with path.open("rb") as stream:
        held = ""
        for block in blocks(stream, encoding_of(stream)):
            _check_text(block[:_SAMPLED])
            text = held + block
            # The halves of a line's end may lie in two blocks.
            held = "\r" if text.endswith("\r") else ""
            pages.write(unified(text.removesuffix("\r") if held else text))
        pages.write(unified(held))


def unified(text: str) -> str:
    """Lines ended by a newline, whatever system wrote them."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _check_text(text: str) -> None:
    junk = sum(c == "\ufffd" or (c not in _LAYOUT and unicodedata.category(c) in {"Cc", "Cs", "Cn"}) for c in text)
    # Zeros are what a lone byte order mark or a padded file leaves behind: dropped, not counted.
    if junk - text.count("\0") > len(text) * _MOST_JUNK:
        raise damaged("text")
