"""The character set of bytes that do not tell it, or tell it wrongly."""

import codecs
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from app.domain.filetypes.text import BOMS, utf16_without_mark
from app.domain.filetypes.types import HEAD
from app.reading.faults import damaged
from app.reading.office.pagination import PageWriter

SAMPLE = 64 * 1024
_BLOCK = 1024 * 1024
_FALLBACK = "cp1252"
"""The character set of most programs for Windows; every byte but five is a character in it."""
_WESTERN = frozenset(
    "àâäáãåæçéèêëíìîïñóòôöõøœùúûüÿßÀÂÄÁÃÅÆÇÉÈÊËÍÌÎÏÑÓÒÔÖÕØŒÙÚÛÜŸ€‚„…‘’“”–—•™«»°§©®·¡¿ºª£´\u00a0"
) | frozenset(map(chr, range(0x80)))
"""The letters of texts of Western Europe. The library took French sentences for Latvian and German ones for Chinese."""


def encoding_of(stream: BinaryIO) -> str:
    """The name of a codec; the stream is back at its beginning afterwards."""
    sample = stream.read(SAMPLE)
    stream.seek(0)
    for mark, encoding in BOMS:
        if sample.startswith(mark):
            return encoding
    if wide := utf16_without_mark(sample[:HEAD]):
        return wide
    bad = _first_byte_that_is_not_utf8(stream)
    # The region that gave it away: the beginning may be plain ASCII.
    stream.seek(max(0, (bad or 0) - SAMPLE // 2))
    region = stream.read(SAMPLE)
    stream.seek(0)
    return "utf-8" if bad is None else guessed_encoding(region)


def guessed_encoding(data: bytes) -> str:
    """An old character set, by how likely what it makes of the bytes is."""
    from charset_normalizer import from_bytes

    sample = b"\n".join(line for line in data.splitlines() if not line.isascii())[:SAMPLE]
    if _WESTERN.issuperset(sample.decode(_FALLBACK, "replace")):
        return _FALLBACK
    best = from_bytes(sample).best()
    return best.encoding if best is not None else _FALLBACK


def decoded_text(data: bytes, *, declared: str | None = None) -> str:
    """Text at any rate: bytes that make no sense become U+FFFD."""
    for mark, encoding in BOMS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    for encoding in filter(None, (known_codec(declared), "utf-8")):
        try:
            return data.decode(encoding)
        except (UnicodeError, ValueError):
            continue
    return data.decode(known_codec(declared) or guessed_encoding(data), "replace")


def known_codec(name: str | None) -> str | None:
    """A codec for text of that name, if there is one."""
    if not name:
        return None
    try:
        codec = codecs.lookup(name.strip().strip("\"'"))
        # What browsers do: pages that say Latin-1 mean Windows' superset of it.
        codec_name = _FALLBACK if codec.name in {"iso8859-1", "ascii"} else codec.name
        b"".decode(codec_name)
    except (LookupError, ValueError):
        # LookupError also for codecs that make bytes of bytes.
        return None
    return codec_name


def text_blocks(stream: BinaryIO, encoding: str) -> Iterator[str]:
    """The whole stream as text, a block at a time."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    while block := stream.read(_BLOCK):
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def _first_byte_that_is_not_utf8(stream: BinaryIO) -> int | None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    passed = 0
    while block := stream.read(_BLOCK):
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            return passed + error.start
        passed += len(block)
    return None


_SAMPLED = 10_000
_MOST_JUNK = 0.05
"""Share of characters that no writer of text puts there, in any block: beyond it the file is no text."""
_LAYOUT = frozenset("\t\n\v\f\r\b\a\x1b")


def read(path: Path, pages: PageWriter) -> None:
    with path.open("rb") as stream:
        held = ""
        for block in text_blocks(stream, encoding_of(stream)):
            _check_text(block[:_SAMPLED])
            text = held + block
            # The halves of a line's end may lie in two blocks.
            held = "\r" if text.endswith("\r") else ""
            pages.write(with_newlines(text.removesuffix("\r") if held else text))
        pages.write(with_newlines(held))


def with_newlines(text: str) -> str:
    """Lines ended by a newline, whatever system wrote them."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _check_text(text: str) -> None:
    junk = sum(c == "\ufffd" or (c not in _LAYOUT and unicodedata.category(c) in {"Cc", "Cs", "Cn"}) for c in text)
    # Zeros are what a lone byte order mark or a padded file leaves behind: dropped, not counted.
    if junk - text.count("\0") > len(text) * _MOST_JUNK:
        raise damaged("text")
