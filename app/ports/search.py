"""The index of pages by their words, as part of a transaction."""

from typing import Protocol

from app.domain.ids import DocumentId
from app.domain.search import Found, Place, Query


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
        self, query: Query, *, limit: int, after: Place | None = None, document_id: DocumentId | None = None
    ) -> Found:
        """Pages of indexed documents, best first, as far as one look goes.

        Raises Invalid for words that are too common to be looked for, and Unavailable where it takes too long.
        """
        ...
