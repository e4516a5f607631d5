"""Faults of a file that more than one reader finds."""

from app.domain.errors import DocumentFault


def too_many_pages(most: int) -> DocumentFault:
    return DocumentFault("too_many_pages", f"A file may have {most} pages: split it and upload the parts.")


def damaged(what: str) -> DocumentFault:
    return DocumentFault("corrupt", f"The {what} is damaged: save it anew and upload it again.")


def too_large(what: str) -> DocumentFault:
    return DocumentFault("too_large", f"{what}: split the document and upload the parts.")


def locked(what: str) -> DocumentFault:
    return DocumentFault("encrypted", f"The {what} is encrypted: remove its password and upload it again.")


def nested_too_deep() -> DocumentFault:
    return DocumentFault("corrupt", "The document is nested too deep to be read: save it anew in another program.")
