"""Documents and their paginated listing."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from app.adapters.postgres.clamped import ClampedConnection, known_faults
from app.adapters.postgres.stored import stored_object, stored_values
from app.adapters.postgres.tables import documents, jobs
from app.domain.documents import Document, DocumentCursor, DocumentStatus
from app.domain.ids import DocumentId
from app.domain.jobs import JobState
from app.domain.warnings import DocumentWarning

ADD = insert(documents).on_conflict_do_nothing(constraint="documents_bytes_key").returning(documents)

GET = select(documents).where(documents.c.tenant_id == bindparam("tenant"), documents.c.id == bindparam("document"))


class PostgresDocuments:
    def __init__(self, clamped: ClampedConnection) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def add(self, document: Document) -> Document | None:
        if document.tenant_id != self._tenant_id:
            raise ValueError("this document is another tenant's")
        values = {
            "tenant_id": self._tenant_id,
            "id": document.id,
            "filename": document.filename,
            "media_type": document.media_type,
            "size": document.size,
            "sha256": document.sha256,
            "language": document.language,
            "metadata": dict(document.metadata),
            "created_at": document.created_at,
        }
        with known_faults():
            row = (await self._clamped.execute(ADD, values)).one_or_none()
        return _document(row) if row else None

    async def get(self, document_id: DocumentId) -> Document | None:
        values = {"tenant": self._tenant_id, "document": document_id}
        row = (await self._clamped.execute(GET, values)).one_or_none()
        return _document(row) if row else None

    async def with_bytes(self, sha256: str) -> Document | None:
        statement = select(documents).where(documents.c.tenant_id == self._tenant_id, documents.c.sha256 == sha256)
        row = (await self._clamped.execute(statement.with_for_update(key_share=True, read=True))).one_or_none()
        return _document(row) if row else None

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
        c = documents.c
        wanted = [c.tenant_id == self._tenant_id]
        if before is not None:
            wanted.append(tuple_(c.created_at, c.id) < (before.created_at, before.id))
        if status is not None:
            wanted.append(_has_status(status))
        if filename is not None:
            wanted.append(func.lower(c.filename).contains(filename.lower(), autoescape=True))
        if created_after is not None:
            wanted.append(c.created_at > created_after)
        if created_before is not None:
            wanted.append(c.created_at < created_before)
        if sha256 is not None:
            wanted.append(c.sha256 == sha256)
        statement = select(documents).where(and_(*wanted)).order_by(c.created_at.desc(), c.id.desc()).limit(limit)
        return [_document(row) for row in await self._clamped.execute(statement)]

    async def known(self, document_ids: Sequence[DocumentId]) -> set[DocumentId]:
        c = documents.c
        statement = select(c.id).where(c.tenant_id == self._tenant_id, c.id.in_(document_ids))
        return {DocumentId(row.id) for row in await self._clamped.execute(statement)}

    async def set_read(
        self, document_id: DocumentId, *, page_count: int, warnings: Sequence[DocumentWarning] = ()
    ) -> bool:
        stored = [asdict(warning) for warning in warnings]
        statement = update(documents).where(self._own(document_id)).values(page_count=page_count, warnings=stored)
        return (await self._clamped.execute(statement)).rowcount == 1

    async def remove(self, document_id: DocumentId) -> bool:
        # A settle locks its job and then the document; the cascade would lock them in the opposite order.
        of_it = and_(jobs.c.tenant_id == self._tenant_id, jobs.c.document_id == document_id)
        await self._clamped.execute(select(jobs.c.id).where(of_it).order_by(jobs.c.id).with_for_update())
        statement = delete(documents).where(self._own(document_id))
        return (await self._clamped.execute(statement)).rowcount == 1

    def _own(self, document_id: DocumentId) -> ColumnElement[bool]:
        return and_(documents.c.tenant_id == self._tenant_id, documents.c.id == document_id)


def _has_status(status: DocumentStatus) -> ColumnElement[bool]:
    """The condition in SQL that equals `domain.documents.status`."""
    ready = documents.c.page_count.is_not(None)
    live = (
        select(jobs.c.id)
        .where(
            jobs.c.tenant_id == documents.c.tenant_id,
            jobs.c.document_id == documents.c.id,
            jobs.c.state.in_([JobState.QUEUED, JobState.CLAIMED]),
        )
        .exists()
    )
    match status:
        case DocumentStatus.READY:
            return ready
        case DocumentStatus.PROCESSING:
            return and_(~ready, live)
        case DocumentStatus.FAILED:
            return and_(~ready, ~live)


def _document(row: Row[tuple[object, ...]]) -> Document:
    warnings = tuple(stored_values(DocumentWarning, row.warnings, detail=""))
    return Document(**{**row._asdict(), "metadata": stored_object(row.metadata), "warnings": warnings})
