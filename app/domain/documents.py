"""A document: bytes in the blob store, described by a row.

Blob keys have the form `tenant/name`, so that no part of one can act as a path. A file's name is the client's. It is
shown to people and never becomes part of a path.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from app.domain.errors import Invalid
from app.domain.ids import TENANT_PATTERN, DocumentId, TenantId
from app.domain.jobs import Job
from app.domain.warnings import DocumentWarning

ACCEPTED_WITHIN = timedelta(hours=12)
"""The time limit of an upload, from its first byte to its row. A longer one is refused."""

ORPHAN_AFTER = timedelta(days=1)
"""The age from which a blob without a document counts as an orphan.
Twice ACCEPTED_WITHIN, because the database's and the blob store's clocks may run at different speeds."""


class DocumentStatus(StrEnum):
    PROCESSING = "processing"
    READY = "ready"
    """The document's text can be read."""
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
    """ISO 639-2, as requested."""
    metadata: Mapping[str, object]
    created_at: datetime
    page_count: int | None = None
    """None until the text has been read."""
    warnings: tuple[DocumentWarning, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentCursor:
    """The last document of a page of a listing, which is sorted by time and then by id, newest first."""

    created_at: datetime
    id: DocumentId


def document_status(document: Document, jobs: list[Job]) -> DocumentStatus:
    """Derive the status from the jobs, so that the two can't disagree, whatever ended the jobs."""
    if document.page_count is not None:
        return DocumentStatus.READY
    if any(not job.state.terminal for job in jobs):
        return DocumentStatus.PROCESSING
    return DocumentStatus.FAILED


JOBS_SHOWN = 20
"""Jobs that come with a document at most; a document may have thousands."""


def shown_jobs(jobs: Sequence[Job]) -> list[Job]:
    """Return those of a document's jobs that come with it, newest first: live ones before ended ones."""
    chosen = sorted(jobs, key=lambda job: job.state.terminal)[:JOBS_SHOWN]
    return sorted(chosen, key=lambda job: job.id, reverse=True)


def blob_key(tenant: TenantId, document: DocumentId) -> str:
    """Return the key of a document's blob.

    It has only names made by Daira; nothing that a client sent becomes part of a path.
    """
    return f"{tenant}/{document}"


def document_of(key: str) -> DocumentId | None:
    """Return the id of the document that a blob belongs to; None for a blob of another kind."""
    name = key.partition("/")[2]
    try:
        document_id = DocumentId(UUID(name))
    except ValueError:
        return None
    # A UUID has other spellings than that of `blob_key`.
    return document_id if str(document_id) == name else None


BLOB_NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]{0,127}")
"""Lower case, because some file systems fold case.
Without a dot, no name is `..` or clashes with a store's dot files."""


def parse_blob_key(key: str) -> tuple[TenantId, str]:
    """Return the tenant and the name. Raises Invalid for any other shape."""
    tenant, _, name = key.partition("/")
    if not TENANT_PATTERN.fullmatch(tenant) or not BLOB_NAME_PATTERN.fullmatch(name):
        raise Invalid("a blob's key is tenant/name, of lower-case letters, digits, - and _")
    return TenantId(tenant), name


FILENAME_LIMIT = 255
"""The longest file name, in bytes of UTF-8; file systems take no more."""

UNNAMED_FILE = "document"

_FILENAME_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,10}\Z")


def displayable_filename(name: str) -> str:
    """Return a path's last part in NFC, without invisible or text-reversing characters (Unicode category C)."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    seen = "".join(character for character in last if unicodedata.category(character)[0] != "C").strip()
    # A name of dots only is a folder's: a file saved under it could not be found again.
    return _cut_filename(unicodedata.normalize("NFC", seen)) if seen.strip(".") else UNNAMED_FILE


def _cut_filename(name: str) -> str:
    """Cut a name to LIMIT bytes and keep the suffix, which shows the file's type."""
    if len(name.encode()) <= FILENAME_LIMIT:
        return name
    suffix = found[0] if (found := _FILENAME_SUFFIX.search(name)) else ""
    return name.encode()[: FILENAME_LIMIT - len(suffix)].decode(errors="ignore") + suffix
