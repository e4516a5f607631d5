"""Ports of a transaction for documents, their pages, the search index, and a language model's answers about them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from app.domain.documents import Document, DocumentCursor, DocumentStatus
from app.domain.ids import DocumentId, JobId
from app.domain.leases import Lease
from app.domain.llm.kept_answers import KeptAnswer
from app.domain.pages import Page
from app.domain.search import SearchPosition, SearchQuery, SearchResults
from app.domain.warnings import DocumentWarning, WarningCode


class Documents(Protocol):
    async def add(self, document: Document) -> Document | None:
        """Insert. None when this tenant already has the same bytes."""
        ...

    async def get(self, document_id: DocumentId) -> Document | None: ...

    async def with_bytes(self, sha256: str) -> Document | None:
        """Return the document with these bytes, which stays until this transaction ends.

        Waits for one that is being removed.
        """
        ...

    async def newest(
        self,
        *,
        limit: int,
        before: DocumentCursor | None = None,
        status: DocumentStatus | None = None,
        filename: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        sha256: str | None = None,
    ) -> list[Document]:
        """Return documents, newest first. `before` is the last document of the previous page."""
        ...

    async def known(self, document_ids: Sequence[DocumentId]) -> set[DocumentId]:
        """Return those of the ids that belong to a document."""
        ...

    async def set_read(
        self, document_id: DocumentId, *, page_count: int, warnings: Sequence[DocumentWarning] = ()
    ) -> bool:
        """Record that the text has been read. False when the document is gone."""
        ...

    async def remove(self, document_id: DocumentId) -> bool:
        """Delete the document with its pages, jobs and results. False when it is already gone."""
        ...


class Pages(Protocol):
    async def replace(
        self,
        document_id: DocumentId,
        new: Sequence[Page],
        *,
        drafts_of: JobId | None = None,
        keep_others: bool = False,
    ) -> None:
        """Replace the document's pages by these and by the job's drafts, which stop being drafts.

        Of a page that is in both, this one counts. `keep_others` keeps the pages with other numbers. Another caller
        waits until this transaction has ended, and then sees its pages. Raises NotFound when there is no such document.
        """
        ...

    async def draft(self, lease: Lease, new: Sequence[Page]) -> bool:
        """Store the pages that an attempt has read so far, for the next attempt. False when the lease is lost.

        A page that was drafted before stays unchanged.
        """
        ...

    async def drafted(self, job_id: JobId) -> frozenset[int]:
        """Return the numbers of the job's drafts."""
        ...

    async def unreadable(self, job_id: JobId) -> int:
        """Return how many of the job's drafts stand for pages that could not be read."""
        ...

    async def all(self, document_id: DocumentId) -> list[Page]:
        """Return the pages in order, without their words."""
        ...

    async def get(self, document_id: DocumentId, number: int) -> Page | None:
        """Return the page with its words."""
        ...

    async def some(self, document_id: DocumentId, *, after: int, limit: int, words: bool = True) -> list[Page]:
        """Return pages in order, from the first number beyond `after`; on request without their words."""
        ...

    async def warnings(self, document_id: DocumentId) -> Mapping[int, Sequence[WarningCode]]:
        """Return warnings by page number, without pages that have none."""
        ...


class Answers(Protocol):
    async def keep(self, lease: Lease, kept: KeptAnswer) -> bool:
        """Store the answer to a question of the job, for the next attempt. False when the lease is lost.

        Its cost is added to the tenant's usage. A question that already has an answer stays unchanged and adds no cost.
        """
        ...

    async def kept(self, job_id: JobId) -> list[KeptAnswer]: ...

    async def forget(self, job_id: JobId) -> None:
        """Delete the job's stored answers, because it has its result."""
        ...


class Search(Protocol):
    async def index(self, document_id: DocumentId, *, only_new: bool = False) -> bool:
        """Index the document's pages as they are in this transaction. False when there is nothing to do.

        `only_new` leaves a document that was indexed before unchanged. Call it after all other writes of the document.
        """
        ...

    async def unindexed(self, *, limit: int, after: DocumentId | None = None) -> list[DocumentId]:
        """Return documents with a text that were never indexed, in order of their ids."""
        ...

    async def find(
        self,
        query: SearchQuery,
        *,
        limit: int,
        after: SearchPosition | None = None,
        document_id: DocumentId | None = None,
    ) -> SearchResults:
        """Return pages of indexed documents, best first, up to the limit of one query.

        Raises Invalid for words that are too common to search for, and Unavailable where the search takes too long.
        """
        ...
