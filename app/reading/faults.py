"""Faults of a file that more than one reader finds."""

import unicodedata

from app.domain.errors import DocumentFault


def too_many_pages(most: int) -> DocumentFault:
    return DocumentFault("too_many_pages", f"A file may have {most} pages: split it and upload the parts.")


def damaged(what: str) -> DocumentFault:
    return DocumentFault("corrupt", f"The {what} is damaged: save it anew and upload it again.")


def too_large(what: str) -> DocumentFault:
    return DocumentFault("too_large", f"{what}: split the document and upload the parts.")


def password_protected(what: str) -> DocumentFault:
    return DocumentFault("encrypted", f"The {what} is encrypted: remove its password and upload it again.")


def nested_too_deep() -> DocumentFault:
    return DocumentFault("corrupt", "The document is nested too deep to be read: save it anew in another program.")


_KEPT = frozenset("\n\t")


def scrubbed(text: str) -> str:
    """Pairs of surrogates joined; lone ones, NUL and other control characters but newline and tab dropped."""
    # True of nearly every word, and twenty times as fast as looking at its characters.
    if text.isprintable():
        return text
    # PDFium hands out UTF-16 units: a round trip joins the halves of an astral character.
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return "".join(c for c in joined if c in _KEPT or unicodedata.category(c) not in {"Cc", "Cs"})


def is_junk(character: str) -> bool:
    """A character no reader would see: what a font without a mapping to Unicode yields."""
    if character.isspace():
        return False
    return character == "\ufffd" or unicodedata.category(character) in {"Cc", "Co"}
