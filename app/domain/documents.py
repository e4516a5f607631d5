"""A document: bytes in the blob store, described by a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from app.domain.ids import DocumentId, TenantId
from app.domain.jobs import Job
from app.domain.warnings import DocumentWarning

ACCEPTED_WITHIN = timedelta(hours=12)
"""An upload, from its first bytes to its row: one that takes longer is refused."""

ORPHAN_AFTER = timedelta(days=1)
"""A blob so old that has no document never will. Twice the time that an upload gets, so that clocks may differ."""


class DocumentStatus(StrEnum):
    PROCESSING = "processing"
    READY = "ready"
    """Its text can be read."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    id: DocumentId
    tenant_id: TenantId
    filename: str
    media_type: str
    size: int
    """Bytes received, counted while streaming."""
    sha256: str
    """Hexadecimal; unique within the tenant."""
    language: str
    """ISO 639-2, as asked for."""
    metadata: Mapping[str, object]
    created_at: datetime
    page_count: int | None = None
    """None until the text is there."""
    warnings: tuple[DocumentWarning, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where a page of a listing ended: newest first, by time and then by id."""

    created_at: datetime
    id: DocumentId


def status(document: Document, jobs: list[Job]) -> DocumentStatus:
    """Derived, so that it can't disagree with the jobs, whoever ended them."""
    if document.page_count is not None:
        return DocumentStatus.READY
    if any(not job.state.terminal for job in jobs):
        return DocumentStatus.PROCESSING
    return DocumentStatus.FAILED


def blob_key(tenant: TenantId, document: DocumentId) -> str:
    """Made from names of ours alone: nothing that a client sent becomes part of a path."""
    return f"{tenant}/{document}"


def document_of(key: str) -> DocumentId | None:
    """Whose blob that is; None for one of another kind."""
    name = key.partition("/")[2]
    try:
        document_id = DocumentId(UUID(name))
    except ValueError:
        return None
    # There are other spellings of a UUID than that of `blob_key`.
    return document_id if str(document_id) == name else None
