"""Faults of a file that several readers report, and text cleaned for databases and JSON encoders."""

import unicodedata

from app.domain.errors import DocumentFault


def too_many_pages(most: int) -> DocumentFault:
    return DocumentFault("too_many_pages", f"A file may have at most {most} pages: split it and upload the parts.")


def damaged(what: str) -> DocumentFault:
    return DocumentFault("corrupt", f"The {what} is damaged: save it anew and upload it again.")


def too_large(what: str) -> DocumentFault:
    return DocumentFault("too_large", f"{what}: split the document and upload the parts.")


def password_protected(what: str) -> DocumentFault:
    return DocumentFault("encrypted", f"The {what} is encrypted: remove its password and upload it again.")


def nested_too_deep() -> DocumentFault:
    return DocumentFault("corrupt", "The document is nested too deeply to be read: save it anew in another program.")


_ALLOWED_CONTROLS = frozenset("\n\t")


def scrubbed(text: str) -> str:
    """The text without lone surrogates and control characters, except newline and tab; surrogate pairs are joined."""
    # Nearly every word is printable, and this check is twenty times as fast as one of each character.
    if text.isprintable():
        return text
    # PDFium returns UTF-16 units: a round trip joins the halves of an astral character.
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return "".join(c for c in joined if c in _ALLOWED_CONTROLS or unicodedata.category(c) not in {"Cc", "Cs"})


def is_junk(character: str) -> bool:
    """Return true for an invisible character, such as a font without a mapping to Unicode yields."""
    if character.isspace():
        return False
    return character == "\ufffd" or unicodedata.category(character) in {"Cc", "Co"}


class RecognitionNeeded(Exception):
    """Only OCR can read the page, and this reader does none."""
