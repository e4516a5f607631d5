"""A mail (RFC 5322, MIME): sender, recipients, date, subject, the best form of the body, and names of attachments."""

import email
import re
from collections.abc import Iterator
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.policy import compat32
from pathlib import Path

from app.domain.errors import DocumentFault
from app.reading.faults import too_large
from app.reading.office.charset import decoded_text, with_newlines
from app.reading.office.html import HtmlReader
from app.reading.office.pagination import PageWriter

_SHOWN_FIELDS = ("From", "To", "Cc", "Date", "Subject")
_LONGEST_FIELD = 10_000
"""Characters of a header field at most, as of a mail to three hundred people."""
_MOST_PARTS = 5000
_MOST_NAMES = 1000
_FOLDED = re.compile(r"\s*[\r\n]+\s*")
_SEALED = frozenset({"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"})


def read(path: Path, pages: PageWriter) -> None:
    with path.open("rb") as stream:
        # The newer policies parse addresses and dates, at a cost that grows with the square of the errors in them.
        message = email.message_from_binary_file(stream, policy=compat32)
    for name in _SHOWN_FIELDS:
        if value := _field(message, name):
            pages.line(f"{name}: {value}")
    pages.line("")
    _Body(pages).read(message)
    if pages.attachments:
        pages.line("")
        pages.line(f"Attachments: {', '.join(pages.attachments)}")


class _Body:
    """Writes the text of a mail's parts to `pages`, and collects the names of attachments."""

    def __init__(self, pages: PageWriter) -> None:
        self._pages = pages
        self._parts = 0

    def read(self, part: Message) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise too_large(f"The mail has more than {_MOST_PARTS:,} parts")
        kind = part.get_content_type()
        if kind in _SEALED and part.get_param("smime-type") != "signed-data":
            raise DocumentFault("encrypted", "The mail is encrypted: save it decrypted and upload it again.")
        if kind == "multipart/alternative":
            self.read_best(part)
        elif part.is_multipart() and part.get_content_maintype() == "multipart":
            for inner in _inner(part):
                self.read(inner)
        elif kind in {"text/plain", "text/html"} and part.get_content_disposition() != "attachment":
            self._write(part, is_html=kind == "text/html")
        else:
            self._attach(part)

    def read_best(self, part: Message) -> None:
        """Read one of several forms of a text: plain text unless it is blank, then HTML, then the first multipart."""
        forms = list(_inner(part))
        for kind in ("text/plain", "text/html"):
            for inner in forms:
                if inner.get_content_type() == kind and _text(inner).strip():
                    self.read(inner)
                    return
        for inner in forms:
            if inner.is_multipart():
                self.read(inner)
                return

    def _write(self, part: Message, *, is_html: bool) -> None:
        text = _text(part)
        if not is_html:
            self._pages.write(with_newlines(text))
            self._pages.line("")
            return
        writer = HtmlReader(self._pages)
        writer.feed(text)
        writer.close()

    def _attach(self, part: Message) -> None:
        if len(self._pages.attachments) < _MOST_NAMES:
            self._pages.attachments.append(_name(part))


def _inner(part: Message) -> Iterator[Message]:
    payload = part.get_payload()
    if isinstance(payload, list):
        yield from (inner for inner in payload if isinstance(inner, Message))


def _text(part: Message) -> str:
    payload = part.get_payload(decode=True)
    charset = part.get_param("charset")
    return decoded_text(
        payload if isinstance(payload, bytes) else b"", declared=charset if isinstance(charset, str) else None
    )


def _name(part: Message) -> str:
    name = part.get_filename()
    if not name and part.get_content_type() == "message/rfc822":
        name = next((f"{subject}.eml" for inner in _inner(part) if (subject := _field(inner, "Subject"))), "")
    return _unfolded(_decoded_words(name)) if name else part.get_content_type()


def _field(message: Message, name: str) -> str:
    """The decoded field, "" if missing. Its raw value is used, because `Message.get` spoils bytes beyond ASCII.

    Such bytes are UTF-8 today, or an old character set.
    """
    value = next((raw for key, raw in message.raw_items() if key.lower() == name.lower()), "")
    return _unfolded(_decoded_words(str(value)[:_LONGEST_FIELD]))


def _decoded_words(value: str) -> str:
    raw = value.encode("utf-8", "surrogateescape")
    text = decoded_text(raw) if not raw.isascii() else value
    try:
        return "".join(_word(word, charset) for word, charset in decode_header(text))
    except (HeaderParseError, ValueError):
        return text


def _word(word: str | bytes, charset: str | None) -> str:
    return word if isinstance(word, str) else decoded_text(word, declared=charset)


def _unfolded(value: str) -> str:
    return _FOLDED.sub(" ", value).strip()
