"""The text that a job is about, read in one short transaction, or the reason why there is none yet or none at all."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from app.domain.documents import Document
from app.domain.errors import AttemptOver, DocumentFault
from app.domain.ids import DocumentId
from app.domain.jobs import Job, JobError
from app.domain.leases import ClaimedJob
from app.domain.llm.chunks import Chunk, PagePart, page_ranges
from app.domain.llm.citations import CitationPages
from app.domain.llm.prompt_injection import instructions_in
from app.domain.pages import Page
from app.ports.database import Database

CHECK_AGAIN_AFTER = timedelta(seconds=60)
"""The wait while the text is being read. The end of the `ocr` job wakes the job earlier; this is for a lost wake-up."""


class TextNotReady(Exception):
    """The text is still being read."""

    after = CHECK_AGAIN_AFTER


@dataclass(frozen=True)
class DocumentText:
    document: Document
    pages: Sequence[Page]

    @cached_property
    def pieces(self) -> list[PagePart]:
        """One piece for each page that has text."""
        return [PagePart(page=page.number, text=page.text) for page in self.pages if page.text.strip()]

    def shown(self, chunk: Chunk) -> CitationPages:
        """Return the pages that a model was shown.

        It can know nothing of others, so its claims about them don't count.
        """
        numbers = set(chunk.pages)
        return CitationPages(page for page in self.pages if page.number in numbers)

    def coverage(self, read: Collection[int] | None = None) -> dict[str, object]:
        """Return the pages that the answer is based on. `read` has the pages that a model was shown; None means all."""
        numbers = [page.number for page in self.pages] if read is None else read
        return {"pages": page_ranges(numbers), "read": len(set(numbers)), "total": len(self.pages)}

    @cached_property
    def warnings(self) -> list[dict[str, object]]:
        found = []
        if silent := [page.number for page in self.pages if not page.text.strip()]:
            detail = "these pages have no text, so the answer does not use them"
            found.append(warning("pages_without_text", detail, pages=silent))
        if speaking := [page.number for page in self.pages if any(instructions_in(page.text))]:
            detail = "text on these pages gives orders to language models: it confirms no value"
            found.append(warning("speaks_to_models", detail, pages=speaking))
        return found


def warning(code: str, detail: str, *, pages: Sequence[int] = (), at: Sequence[str] = ()) -> dict[str, object]:
    """Return a warning. `at` has JSON pointers into the result's data."""
    entry: dict[str, object] = {"code": code, "detail": detail}
    if pages:
        entry["pages"] = page_ranges(pages)
    if at:
        entry["at"] = list(at)
    return entry


async def text_of(database: Database, job: ClaimedJob) -> DocumentText:
    """Return the document's text.

    Raises TextNotReady while an `ocr` job may still bring it, DocumentFault where there will be none, and AttemptOver
    where the document was deleted.
    """
    async with database.begin(job.lease.tenant_id) as tx:
        document = await tx.documents.get(DocumentId(job.document_id)) if job.document_id is not None else None
        if document is None:
            raise AttemptOver("the document was deleted")
        if document.page_count is None:
            raise _missing(await tx.jobs.newest(document_ids=[document.id], kind="ocr"))
        text = DocumentText(document, await tx.pages.all(document.id))
    if not text.pieces:
        raise DocumentFault("empty", "the document has no text on any of its pages")
    # In a thread, and cached: it takes a second for a thousand pages.
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
