"""Documents in the memory store."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime

from app.adapters.memory.store import Session, Tables
from app.domain.documents import Cursor, Document, DocumentStatus, status
from app.domain.errors import Conflict
from app.domain.ids import DocumentId
from app.domain.text import scrub, scrub_mapping
from app.domain.warnings import DocumentWarning


class MemoryDocuments:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, document: Document) -> Document | None:
        self._session.check_owner(document.tenant_id)
        tables = await self._session.writing()
        tables.require_tenant()
        if _with_bytes(tables, document.sha256):
            return None
        if document.id in tables.documents:
            raise Conflict(f"document {document.id} exists already")
        tables.documents[document.id] = _scrubbed(document)
        return _copied(tables.documents[document.id])

    async def get(self, document_id: DocumentId) -> Document | None:
        return _copied(self._session.reading().documents.get(document_id))

    async def with_bytes(self, sha256: str) -> Document | None:
        return _copied(_with_bytes(await self._session.writing(), sha256))

    async def newest(
        self,
        *,
        limit: int,
        before: Cursor | None = None,
        status: DocumentStatus | None = None,
        filename: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        sha256: str | None = None,
    ) -> list[Document]:
        tables = self._session.reading()
        found = [
            deepcopy(document)
            for document in tables.documents.values()
            if (before is None or _place(document) < _place(before))
            and (status is None or _status(tables, document) is status)
            and (filename is None or filename.lower() in document.filename.lower())
            and _between(document, after=created_after, before=created_before)
            and sha256 in {None, document.sha256}
        ]
        return sorted(found, key=_place, reverse=True)[:limit]

    async def known(self, document_ids: Sequence[DocumentId]) -> set[DocumentId]:
        return self._session.reading().documents.keys() & set(document_ids)

    async def set_read(
        self, document_id: DocumentId, *, page_count: int, warnings: Sequence[DocumentWarning] = ()
    ) -> bool:
        documents = (await self._session.writing()).documents
        document = documents.get(document_id)
        if document is None:
            return False
        documents[document_id] = replace(document, page_count=page_count, warnings=tuple(map(_told, warnings)))
        return True

    async def remove(self, document_id: DocumentId) -> bool:
        tables = await self._session.writing()
        if tables.documents.pop(document_id, None) is None:
            return False
        tables.pages.pop(document_id, None)
        tables.indexed.pop(document_id, None)
        for key in [key for key, row in tables.idempotency_keys.items() if row.document_id == document_id]:
            del tables.idempotency_keys[key]
        for job_id in [row.job.id for row in tables.jobs.values() if row.job.document_id == document_id]:
            del tables.jobs[job_id]
            tables.attempts.pop(job_id, None)
            tables.drafts.pop(job_id, None)
            tables.answers.pop(job_id, None)
        return True


def _with_bytes(tables: Tables, sha256: str) -> Document | None:
    return next((document for document in tables.documents.values() if document.sha256 == sha256), None)


def _place(position: Document | Cursor) -> tuple[datetime, DocumentId]:
    return position.created_at, position.id


def _status(tables: Tables, document: Document) -> DocumentStatus:
    return status(document, [row.job for row in tables.jobs.values() if row.job.document_id == document.id])


def _between(document: Document, *, after: datetime | None, before: datetime | None) -> bool:
    return (after is None or after < document.created_at) and (before is None or document.created_at < before)


def _told(warning: DocumentWarning) -> DocumentWarning:
    return replace(warning, detail=scrub(warning.detail))


def _scrubbed(document: Document) -> Document:
    return replace(
        document,
        filename=scrub(document.filename),
        media_type=scrub(document.media_type),
        language=scrub(document.language),
        metadata=scrub_mapping(document.metadata),
    )


def _copied(document: Document | None) -> Document | None:
    """The metadata is a mapping that a caller could change."""
    return deepcopy(document)
