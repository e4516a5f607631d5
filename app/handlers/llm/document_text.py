"""The text that a job is about, read in one short transaction; or why there is none, or not yet."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from app.domain.documents import Document
from app.domain.errors import DocumentFault
from app.domain.ids import DocumentId
from app.domain.jobs import Job, JobError
from app.domain.leases import ClaimedJob
from app.domain.llm.chunks import Chunk, PagePart, ranges
from app.domain.llm.citations import CitationPages
from app.domain.llm.prompt_injection import orders_in
from app.domain.pages import Page
from app.ports.database import Database

LOOK_AGAIN = timedelta(seconds=60)
"""While the text is being read. The end of the `ocr` job wakes the job earlier; this is for when that was lost."""


class TextNotReady(Exception):
    """The text is on its way."""

    after = LOOK_AGAIN


@dataclass(frozen=True)
class DocumentText:
    document: Document
    pages: Sequence[Page]

    @cached_property
    def pieces(self) -> list[PagePart]:
        """One for each page that has a text."""
        return [PagePart(page=page.number, text=page.text) for page in self.pages if page.text.strip()]

    def shown(self, chunk: Chunk) -> CitationPages:
        """The pages that a model was shown: of others it can know nothing, and what it says of them is not counted."""
        numbers = set(chunk.pages)
        return CitationPages(page for page in self.pages if page.number in numbers)

    def coverage(self, read: Collection[int] | None = None) -> dict[str, object]:
        """What the answer rests on. `read`: the pages that a model was shown; None: all."""
        numbers = [page.number for page in self.pages] if read is None else read
        return {"pages": ranges(numbers), "read": len(set(numbers)), "total": len(self.pages)}

    @cached_property
    def warnings(self) -> list[dict[str, object]]:
        found = []
        if silent := [page.number for page in self.pages if not page.text.strip()]:
            detail = "these pages have no text, and so no part in the answer"
            found.append(warning("pages_without_text", detail, pages=silent))
        if speaking := [page.number for page in self.pages if any(orders_in(page.text))]:
            detail = "text on these pages gives orders to language models: what stands there confirms nothing"
            found.append(warning("speaks_to_models", detail, pages=speaking))
        return found


def warning(code: str, detail: str, *, pages: Sequence[int] = (), at: Sequence[str] = ()) -> dict[str, object]:
    """`at`: JSON pointers into the result's data."""
    told: dict[str, object] = {"code": code, "detail": detail}
    if pages:
        told["pages"] = ranges(pages)
    if at:
        told["at"] = list(at)
    return told


async def text_of(database: Database, job: ClaimedJob) -> DocumentText:
    """Raises NotYet while an `ocr` job may still bring it, DocumentFault where there will be none."""
    async with database.begin(job.lease.tenant_id) as tx:
        document = await tx.documents.get(DocumentId(job.document_id)) if job.document_id is not None else None
        if document is None:
            raise DocumentFault("internal", "the document was deleted")
        if document.page_count is None:
            raise _missing(await tx.jobs.newest(document_ids=[document.id], kind="ocr"))
        text = DocumentText(document, await tx.pages.all(document.id))
    if not text.pieces:
        raise DocumentFault("empty", "the document has no text on any of its pages")
    # Beside the loop, and kept: of a thousand pages it takes a second.
    await asyncio.to_thread(lambda: text.warnings)
    return text


def _missing(readings: Sequence[Job]) -> TextNotReady | DocumentFault:
    if any(not job.state.terminal for job in readings):
        return TextNotReady("the document is being read")
    reason = next((job.error for job in readings if job.error is not None), None)
    if reason is None:
        return DocumentFault("empty", "the document has no text: ask for an ocr job first")
    return _because(reason)


def _because(reason: JobError) -> DocumentFault:
    return DocumentFault(reason.code, f"the document's text could not be read: {reason.message}")
