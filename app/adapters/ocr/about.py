"""What a reader should know of a PDF as a whole: attached files, signatures, forms and permissions."""

import ctypes
from collections.abc import Iterator

import pypdfium2
import pypdfium2.raw as pdfium

from app.adapters.ocr.scrub import scrubbed
from app.domain.warnings import DocumentWarning, WarningCode, of_document

_XFA = frozenset({pdfium.FORMTYPE_XFA_FULL, pdfium.FORMTYPE_XFA_FOREGROUND})
_EVERYTHING = 0b1111_0011_1100
"""Bits 3 to 6 and 9 to 12 of the permissions (ISO 32000-1, table 22)."""
_MOST_NAMES = 20
_LONGEST_NAME = 100


def warnings_about(document: pypdfium2.PdfDocument, *, repaired: bool) -> Iterator[DocumentWarning]:
    if repaired:
        yield of_document(WarningCode.DOCUMENT_REPAIRED)
    if _is_restricted(document):
        yield of_document(WarningCode.RESTRICTED_PERMISSIONS)
    if pdfium.FPDF_GetFormType(document) in _XFA:
        yield of_document(WarningCode.XFA_FORM_UNSUPPORTED)
    attached = pdfium.FPDFDoc_GetAttachmentCount(document)
    if attached > 0:
        names = [_name(document, index) for index in range(min(attached, _MOST_NAMES))]
        more = [f"{attached - _MOST_NAMES} more"] if attached > _MOST_NAMES else []
        yield of_document(WarningCode.HAS_ATTACHMENTS, names=[*filter(None, names), *more])
    if pdfium.FPDF_GetSignatureCount(document) > 0:
        yield of_document(WarningCode.SIGNED)


def _is_restricted(document: pypdfium2.PdfDocument) -> bool:
    is_encrypted = pdfium.FPDF_GetSecurityHandlerRevision(document) >= 0
    return is_encrypted and bool(pdfium.FPDF_GetDocPermissions(document) & _EVERYTHING != _EVERYTHING)


def _name(document: pypdfium2.PdfDocument, index: int) -> str:
    attachment = pdfium.FPDFDoc_GetAttachment(document, index)
    if not attachment:
        return ""
    units = (ctypes.c_ushort * _LONGEST_NAME)()
    size = pdfium.FPDFAttachment_GetName(attachment, units, ctypes.sizeof(units))
    # A name that is longer than the buffer is not written at all.
    if size > ctypes.sizeof(units):
        return "a very long name"
    name = bytes(units)[: max(size - 2, 0)].decode("utf-16-le", "surrogatepass")
    return " ".join(scrubbed(name).split())
