"""Detection of the character set of bytes that declare none or a wrong one, and the reader of plain text.

CSV, Markdown and JSON are read as plain text, too.
"""

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
"""The character set of most programs for Windows. All byte values but five are characters in it."""
_WESTERN = frozenset(
    "àâäáãåæçéèêëíìîïñóòôöõøœùúûüÿßÀÂÄÁÃÅÆÇÉÈÊËÍÌÎÏÑÓÒÔÖÕØŒÙÚÛÜŸ€‚„…‘’“”–—•™«»°§©®·¡¿ºª£´\u00a0"
) | frozenset(map(chr, range(0x80)))
"""Characters of Western European texts. The library took sentences in French for Latvian, in German for Chinese."""


def encoding_of(stream: BinaryIO) -> str:
    """The name of the stream's codec. The stream is back at its beginning afterwards."""
    sample = stream.read(SAMPLE)
    stream.seek(0)
    for mark, encoding in BOMS:
        if sample.startswith(mark):
            return encoding
    if wide := utf16_without_mark(sample[:HEAD]):
        return wide
    bad = _first_byte_that_is_not_utf8(stream)
    # Take a sample around the byte that is not UTF-8, because the beginning may be plain ASCII.
    stream.seek(max(0, (bad or 0) - SAMPLE // 2))
    region = stream.read(SAMPLE)
    stream.seek(0)
    return "utf-8" if bad is None else guessed_encoding(region)


def guessed_encoding(data: bytes) -> str:
    """The old character set that decodes the bytes to the likeliest text."""
    from charset_normalizer import from_bytes

    sample = b"\n".join(line for line in data.splitlines() if not line.isascii())[:SAMPLE]
    if _WESTERN.issuperset(sample.decode(_FALLBACK, "replace")):
        return _FALLBACK
    best = from_bytes(sample).best()
    return best.encoding if best is not None else _FALLBACK


def decoded_text(data: bytes, *, declared: str | None = None) -> str:
    """The bytes as text. Bytes that can't be decoded become U+FFFD."""
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
    """The text codec of that name; None if there is none."""
    if not name:
        return None
    try:
        codec = codecs.lookup(name.strip().strip("\"'"))
        # As in browsers: pages that declare Latin-1 mean Windows' superset of it.
        codec_name = _FALLBACK if codec.name in {"iso8859-1", "ascii"} else codec.name
        b"".decode(codec_name)
    except (LookupError, ValueError):
        # LookupError is also raised for codecs that turn bytes into bytes.
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
"""Share of characters in a block that texts don't contain. Beyond it the file is not text."""
_LAYOUT = frozenset("\t\n\v\f\r\b\a\x1b")


def read(path: Path, pages: PageWriter) -> None:
    with path.open("rb") as stream:
        carried = ""
        for block in text_blocks(stream, encoding_of(stream)):
            _check_text(block[:_SAMPLED])
            text = carried + block
            # A CR at the end of a block may belong to an LF at the beginning of the next.
            carried = "\r" if text.endswith("\r") else ""
            pages.write(with_newlines(text.removesuffix("\r") if carried else text))
        pages.write(with_newlines(carried))


def with_newlines(text: str) -> str:
    """The text without a byte order mark, with a newline after each line, on whatever system it was written."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _check_text(text: str) -> None:
    junk = sum(c == "\ufffd" or (c not in _LAYOUT and unicodedata.category(c) in {"Cc", "Cs", "Cn"}) for c in text)
    # Zeros come from a lone byte order mark or a padded file. They are dropped and not counted.
    if junk - text.count("\0") > len(text) * _MOST_JUNK:
        raise damaged("text")
