"""Documents, their pages, and what a language model has answered about them, inside a transaction."""

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
        """Insert; None when this tenant has the same bytes already."""
        ...

    async def get(self, document_id: DocumentId) -> Document | None: ...

    async def with_bytes(self, sha256: str) -> Document | None:
        """It stays until this transaction is over: one that is being removed is waited for."""
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
        """Newest first; `before` is the last document of the previous page."""
        ...

    async def known(self, document_ids: Sequence[DocumentId]) -> set[DocumentId]:
        """Those of them that there is a document of."""
        ...

    async def set_read(
        self, document_id: DocumentId, *, page_count: int, warnings: Sequence[DocumentWarning] = ()
    ) -> bool:
        """Say that the text is there; False when the document is gone."""
        ...

    async def remove(self, document_id: DocumentId) -> bool:
        """Delete with its pages, jobs and results; False when it is gone already."""
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
        """The document has these pages from now on, and those that the job drafted, which are drafts no longer.

        `keep_others`: and those it had under other numbers. Raises NotFound when there is no such document.
        """
        ...

    async def draft(self, lease: Lease, new: Sequence[Page]) -> bool:
        """Keep what an attempt has read so far, for the next one; False when the lease is lost.

        A page that was drafted before stays as it is.
        """
        ...

    async def drafted(self, job_id: JobId) -> frozenset[int]:
        """The numbers of the job's drafts."""
        ...

    async def all(self, document_id: DocumentId) -> list[Page]:
        """In order, without their words."""
        ...

    async def get(self, document_id: DocumentId, number: int) -> Page | None:
        """With its words."""
        ...

    async def some(self, document_id: DocumentId, *, after: int, limit: int) -> list[Page]:
        """With their words, in order, from the first number beyond `after`."""
        ...

    async def warnings(self, document_id: DocumentId) -> Mapping[int, Sequence[WarningCode]]:
        """Of the pages that have any, by their numbers."""
        ...


class Answers(Protocol):
    async def keep(self, lease: Lease, kept: KeptAnswer) -> bool:
        """Keep what a question of the job was answered, for the next attempt; False when the lease is lost.

        What it cost is the tenant's usage. A question that was answered before stays as it is, and costs nothing.
        """
        ...

    async def kept(self, job_id: JobId) -> list[KeptAnswer]: ...

    async def forget(self, job_id: JobId) -> None:
        """The job has its result: what led to it goes."""
        ...


class Search(Protocol):
    async def index(self, document_id: DocumentId, *, only_new: bool = False) -> bool:
        """Let the document's pages be found, as they are in this transaction; False when there is nothing to do.

        `only_new`: a document that was indexed before stays as it is. Take it after everything else of the document.
        """
        ...

    async def unindexed(self, *, limit: int, after: DocumentId | None = None) -> list[DocumentId]:
        """Documents with a text that were never indexed, in order of their ids."""
        ...

    async def find(
        self,
        query: SearchQuery,
        *,
        limit: int,
        after: SearchPosition | None = None,
        document_id: DocumentId | None = None,
    ) -> SearchResults:
        """Pages of indexed documents, best first, as far as one look goes.

        Raises Invalid for words that are too common to be looked for, and Unavailable where it takes too long.
        """
        ...
