"""Detects text and its kind: HTML, a mail, or plain text."""

import codecs
import re
import unicodedata
from collections import Counter

from app.domain.filetypes.types import EML, HTML, TEXT

BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # Before UTF-16, because its little-endian mark begins with UTF-16's.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_LAYOUT = "\t\n\v\f\r\b\a\x1b"
"""Control characters found in text: ANSI logs and ISO-2022 have escapes."""
_NEVER = frozenset(range(32)) - set(_LAYOUT.encode()) | {0x7F}
_PROLOG = re.compile(r"(\s*(<\?xml[^>]*>|<!--.*?-->))*\s*", re.DOTALL)
_PICTURE = re.compile(r"%!PS|<svg[\s>]|<!DOCTYPE\s+svg\b", re.IGNORECASE)
"""Pictures that are written as text: PostScript and SVG."""
_TAGS = "!doctype html|html|head|body|title|meta|link|script|style|table|div|p|h1|h2|span|font|center|ul|ol|a|br|b|i"
_HTML = re.compile(rf"<({_TAGS})[\s>/]", re.IGNORECASE)
_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9-]*):")
_ONLY_IN_MAIL = frozenset({"received", "message-id", "return-path", "mime-version", "delivered-to", "dkim-signature"})
_IN_EVERY_MAIL = frozenset({"from", "date", "to", "subject"})
_FEWEST = 2
_ENOUGH = 3
_LEAST_UNITY = 0.4
_FEW = 8
"""Characters; with fewer, any bytes might look like one script."""
_LEAST_BLANKS = 0.05
"""The least share of spaces, digits and the like in text that is not in Latin letters."""
_UNWRITTEN = frozenset({"Cc", "Cs", "Co", "Cn"})
_MOST_JUNK = 0.1
"""The largest share of junk characters after a byte order mark. Some are no reason to refuse a text.
Random bytes have a quarter."""


def text_type(head: bytes) -> str | None:
    """Return the media type of text, or None for anything else.

    `head` is the beginning, perhaps cut within a character.
    """
    text = _decoded(head)
    if text is None:
        return None
    text = text.lstrip("\ufeff \t\r\n")
    start = text[_PROLOG.match(text).end() :]  # type: ignore[union-attr]  # it matches nothing, too
    if _PICTURE.match(start):
        return None
    if _HTML.match(start):
        return HTML
    return EML if _is_mail(text) else TEXT


def utf16_without_mark(head: bytes) -> str | None:
    """Return the byte order in which bytes with zeros among them are UTF-16 text; None if they are not."""
    if b"\0" not in head:
        return None
    even = head[: len(head) // 2 * 2]
    candidates = [(order, even.decode(order, "replace")) for order in ("utf-16-le", "utf-16-be")]
    likely = [(_unity(text), order) for order, text in candidates if _junk(text) == 0]
    unity, order = max(likely, default=(0.0, None))
    return order if unity >= _LEAST_UNITY else None


def _unity(text: str) -> float:
    """Return the rough share of characters that are of one script. Bytes that are not text spread over many scripts."""
    ascii_share = sum(map(str.isascii, text)) / len(text)
    if len(text) < _FEW or ascii_share < _LEAST_BLANKS:
        return ascii_share
    rows = Counter(ord(c) >> 8 for c in text if not c.isspace())
    return max(ascii_share, max(rows.values(), default=0) / len(text))


def _decoded(head: bytes) -> str | None:
    for mark, encoding in BOMS:
        if head.startswith(mark):
            text = codecs.getincrementaldecoder(encoding)("replace").decode(head)
            return text if _junk(text) <= len(text) * _MOST_JUNK else None
    if b"\0" in head:
        order = utf16_without_mark(head)
        return head.decode(order, "ignore") if order else None
    # DOS ended a text with Ctrl-Z.
    if _NEVER.intersection(head.rstrip(b"\x1a")):
        return None
    # The old character set does not matter: the checks here look only at ASCII.
    return head.decode("latin-1")


def _junk(text: str) -> int:
    """Count the characters that no author of text writes."""
    return sum(c == "\ufffd" or (c not in _LAYOUT and unicodedata.category(c) in _UNWRITTEN) for c in text)


def _is_mail(text: str) -> bool:
    """Return True if the text begins with a block of header fields that only mails have."""
    names = set()
    *lines, last = text.splitlines() or [""]
    for line in lines:
        if not line.strip():
            break
        field = _FIELD.match(line)
        if field is not None:
            names.add(field[1].lower())
        elif not line[0].isspace():
            return False
    else:
        # The head may be cut short, which is no reason against a mail.
        names |= {field[1].lower() for field in [_FIELD.match(last)] if field}
    has_sender = len(names & _IN_EVERY_MAIL) >= _ENOUGH
    return has_sender or (len(names) >= _FEWEST and bool(names & _ONLY_IN_MAIL))
