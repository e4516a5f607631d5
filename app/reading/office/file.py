"""Files that are read as text and never by OCR: DOCX, XLSX, PPTX, ODF, HTML, mail, RTF and plain text."""

from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from app.domain.filetypes.types import DOCX, EML, ENCRYPTED, HTML, ODP, ODS, ODT, PPTX, RTF, TEXT, XLSX
from app.domain.pages import Page, Source
from app.domain.warnings import DocumentWarning, WarningCode, document_warning
from app.ports.reading import Mode
from app.reading.faults import nested_too_deep, password_protected, scrubbed
from app.reading.office.pagination import PageWriter

_READERS = MappingProxyType(
    {
        DOCX: "docx",
        XLSX: "xlsx",
        PPTX: "pptx",
        ODT: "odf",
        ODS: "odf",
        ODP: "odf",
        HTML: "html",
        EML: "mail",
        RTF: "rtf",
        TEXT: "charset",
    }
)
"""Media type → module with `read(path, pages)`. It is imported with the first file of its type; most never are."""

_MOST_NAMED = 20
_LONGEST_NAME = 100


class TextFile:
    """Reads a whole file when opened. Raises DocumentFault (encrypted, corrupt, too_large, too_many_pages) then."""

    def __init__(self, path: Path, *, media_type: str, language: str, max_pages: int) -> None:
        if media_type == ENCRYPTED:
            raise password_protected("document")
        self._language = language
        pages = PageWriter(most=max_pages)
        try:
            import_module(f"app.reading.office.{_READERS[media_type]}").read(path, pages)
        except RecursionError as error:
            raise nested_too_deep() from error
        self._pages = pages.finished()
        self.page_count = len(self._pages)
        self.warnings = _warnings(pages.attachments)

    def read(self, number: int, *, mode: Mode) -> Page:  # noqa: ARG002 - there is nothing to force or skip
        page = self._pages[number - 1]
        return Page(
            number=number,
            text=page.text,
            source=Source.TEXT_LAYER,
            confidence=None,
            width=None,
            height=None,
            rotation=0,
            language=self._language,
            warnings=tuple(sorted(page.warnings)),
        )

    def close(self) -> None:
        self._pages = []


def _warnings(attachments: list[str]) -> list[DocumentWarning]:
    if not attachments:
        return []
    named = [scrubbed(name)[:_LONGEST_NAME] for name in attachments[:_MOST_NAMED]]
    more = [f"and {len(attachments) - len(named)} more"] if len(attachments) > len(named) else []
    return [document_warning(WarningCode.HAS_ATTACHMENTS, names=named + more)]
