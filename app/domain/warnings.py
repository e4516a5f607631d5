"""Warnings about a document that was read in spite of them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

MOST_PAGES = 100
"""Page numbers named in one warning."""


class WarningCode(StrEnum):
    TEXT_LAYER_UNTRUSTED = "text_layer_untrusted"
    HIDDEN_TEXT = "hidden_text"
    PAGE_UNREADABLE = "page_unreadable"
    LOW_CONFIDENCE = "low_confidence"
    RESOLUTION_REDUCED = "resolution_reduced"
    ANIMATION_FIRST_FRAME = "animation_first_frame"
    DOCUMENT_REPAIRED = "document_repaired"
    XFA_FORM_UNSUPPORTED = "xfa_form_unsupported"
    HAS_ATTACHMENTS = "has_attachments"
    SIGNED = "signed"
    RESTRICTED_PERMISSIONS = "restricted_permissions"


DETAILS: Mapping[WarningCode, str] = MappingProxyType(
    {
        WarningCode.TEXT_LAYER_UNTRUSTED: "the file's own text differs from the page: it was read by OCR instead",
        WarningCode.HIDDEN_TEXT: "text that a reader of the page can't see was left out",
        WarningCode.PAGE_UNREADABLE: "the page could not be read and is empty here",
        WarningCode.LOW_CONFIDENCE: "the page was hard to read: compare its text with its image",
        WarningCode.RESOLUTION_REDUCED: "the page is so large that it was read at a low resolution",
        WarningCode.ANIMATION_FIRST_FRAME: "only the first frame of the animation was read",
        WarningCode.DOCUMENT_REPAIRED: "the file was damaged; only the part that could be repaired was read",
        WarningCode.XFA_FORM_UNSUPPORTED: "the form is XFA: only the text that other PDF readers show was read",
        WarningCode.HAS_ATTACHMENTS: "attached files were not read: upload them as separate documents",
        WarningCode.SIGNED: "the document is signed; a searchable copy of it is not",
        WarningCode.RESTRICTED_PERMISSIONS: "the document's owner has restricted what may be done with it",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentWarning:
    code: WarningCode
    detail: str
    pages: tuple[int, ...] = ()
    """Numbers, from 1, of the first MOST_PAGES pages concerned. Empty for the document as a whole."""


def document_warning(code: WarningCode, *, names: Iterable[str] = ()) -> DocumentWarning:
    """Return a warning about the whole document. `names` lists its subjects, such as attached files."""
    listed = ", ".join(names)
    return DocumentWarning(code=code, detail=f"{DETAILS[code]} ({listed})" if listed else DETAILS[code])


def page_warnings(found: Mapping[int, Iterable[WarningCode]]) -> list[DocumentWarning]:
    """Return one warning for each code, from warnings by page number."""
    numbers: dict[WarningCode, list[int]] = defaultdict(list)
    for number in sorted(found):
        for code in found[number]:
            numbers[code].append(number)
    return [
        DocumentWarning(code=code, detail=DETAILS[code], pages=tuple(numbers[code][:MOST_PAGES]))
        for code in sorted(numbers)
    ]
