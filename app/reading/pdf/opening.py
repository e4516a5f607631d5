"""Opening a PDF: unchanged, else without the bytes before its header, else as qpdf repairs it, once.

`warnings_about` reports facts of the whole file: attachments, signatures, forms and permissions.
"""

import ctypes
import io
from collections.abc import Iterator
from enum import Enum, auto
from pathlib import Path

import pypdfium2
import pypdfium2.raw as pdfium

from app.domain.errors import DocumentFault
from app.domain.warnings import DocumentWarning, WarningCode, document_warning
from app.reading.faults import scrubbed

_HEADER = b"%PDF-"
_FARTHEST = 1 << 20
"""Bytes from the file's start within which the header is searched."""
_ENDED = b"\nendstream\nendobj\n%%EOF\n"
_ENCRYPTION = b"/Encrypt"
_LOCKED = frozenset({pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY})


class _OpenFailure(Enum):
    LOCKED = auto()
    NO_PAGES = auto()
    DAMAGED = auto()


_FAULTS = {
    _OpenFailure.LOCKED: ("encrypted", "The PDF is encrypted: remove its password and upload it again."),
    _OpenFailure.NO_PAGES: ("empty", "The PDF has no pages: nothing to read."),
    _OpenFailure.DAMAGED: ("corrupt", "The PDF is damaged: save it anew and upload it again."),
}


def open_document(path: Path) -> tuple[pypdfium2.PdfDocument, bytes | None]:
    """The document, and its repaired bytes; None if it opened unchanged.

    Raises DocumentFault (encrypted, corrupt, empty).
    """
    document = _loaded(path)
    if isinstance(document, pypdfium2.PdfDocument):
        return document, None
    refusal = document
    for content in _repaired(path) if refusal is not _OpenFailure.LOCKED else ():
        document = _loaded(content)
        if isinstance(document, pypdfium2.PdfDocument):
            return document, content
        # A file that a repair made ask for its password is not damaged.
        refusal = document if document is _OpenFailure.LOCKED else refusal
    raise DocumentFault(*_FAULTS[refusal])


def _loaded(source: Path | bytes) -> "pypdfium2.PdfDocument | _OpenFailure":
    # Without the wrapper, which asks for the last error of a document that opened without pages, and gets an older one.
    if isinstance(source, Path):
        handle = pdfium.FPDF_LoadDocument(f"{source}\0".encode(errors="surrogateescape"), None)
    else:
        handle = pdfium.FPDF_LoadMemDocument64(source, len(source), None)
    if not handle:
        return _OpenFailure.LOCKED if pdfium.FPDF_GetLastError() in _LOCKED else _OpenFailure.DAMAGED
    if pdfium.FPDF_GetPageCount(handle) < 1:
        pdfium.FPDF_CloseDocument(handle)
        return _OpenFailure.NO_PAGES
    document = pypdfium2.PdfDocument(handle)
    if isinstance(source, bytes):
        document._data_holder.append(source)  # noqa: SLF001 - the bytes must live as long as the document, as the wrapper provides
    return document


def _repaired(path: Path) -> Iterator[bytes]:
    """Repaired versions of the file that may open."""
    content = path.read_bytes()
    start = content.find(_HEADER, 0, _FARTHEST)
    if start > 0:
        content = content[start:]
        yield content
    if start < 0:
        return
    # Imported on demand: it takes 0.2 s and 30 MB, and only damaged files need it.
    import pikepdf

    out = io.BytesIO()
    try:
        # The last object of a truncated file has no end, and qpdf would drop it.
        with pikepdf.open(io.BytesIO(content + _ENDED), suppress_warnings=True) as document:
            is_locked = _ENCRYPTION in content and not document.is_encrypted
            document.save(out)
    except pikepdf.PasswordError:
        raise DocumentFault(*_FAULTS[_OpenFailure.LOCKED]) from None
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - any error of qpdf means that the file can't be repaired
        return
    if is_locked:
        # The encryption dictionary is lost: the file would open and show no text.
        raise DocumentFault(*_FAULTS[_OpenFailure.LOCKED])
    yield out.getvalue()


_XFA = frozenset({pdfium.FORMTYPE_XFA_FULL, pdfium.FORMTYPE_XFA_FOREGROUND})
_ALL_PERMISSIONS = 0b1111_0011_1100
"""All permissions: bits 3 to 6 and 9 to 12 (ISO 32000-1, table 22)."""
_MOST_NAMES = 20
_LONGEST_NAME = 100


def warnings_about(document: pypdfium2.PdfDocument, *, repaired: bool) -> Iterator[DocumentWarning]:
    if repaired:
        yield document_warning(WarningCode.DOCUMENT_REPAIRED)
    if _is_restricted(document):
        yield document_warning(WarningCode.RESTRICTED_PERMISSIONS)
    if pdfium.FPDF_GetFormType(document) in _XFA:
        yield document_warning(WarningCode.XFA_FORM_UNSUPPORTED)
    attached = pdfium.FPDFDoc_GetAttachmentCount(document)
    if attached > 0:
        names = [_attachment_name(document, index) for index in range(min(attached, _MOST_NAMES))]
        more = [f"{attached - _MOST_NAMES} more"] if attached > _MOST_NAMES else []
        yield document_warning(WarningCode.HAS_ATTACHMENTS, names=[*filter(None, names), *more])
    if pdfium.FPDF_GetSignatureCount(document) > 0:
        yield document_warning(WarningCode.SIGNED)


def _is_restricted(document: pypdfium2.PdfDocument) -> bool:
    is_encrypted = pdfium.FPDF_GetSecurityHandlerRevision(document) >= 0
    return is_encrypted and bool(pdfium.FPDF_GetDocPermissions(document) & _ALL_PERMISSIONS != _ALL_PERMISSIONS)


def _attachment_name(document: pypdfium2.PdfDocument, index: int) -> str:
    attachment = pdfium.FPDFDoc_GetAttachment(document, index)
    if not attachment:
        return ""
    units = (ctypes.c_ushort * _LONGEST_NAME)()
    size = pdfium.FPDFAttachment_GetName(attachment, units, ctypes.sizeof(units))
    # PDFium does not write a name that is longer than the buffer.
    if size > ctypes.sizeof(units):
        return "a very long name"
    name = bytes(units)[: max(size - 2, 0)].decode("utf-16-le", "surrogatepass")
    return " ".join(scrubbed(name).split())
