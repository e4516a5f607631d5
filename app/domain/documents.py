"""A document: bytes in the blob store, described by a row."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from app.domain.errors import Invalid
from app.domain.ids import TENANT_PATTERN, DocumentId, TenantId
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
class DocumentCursor:
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


NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]{0,127}")
"""No dot: neither `..` nor a clash with the dot files of a store, and lower case for file systems that fold it."""


def parse_blob_key(key: str) -> tuple[TenantId, str]:
    """The tenant and the name; raises Invalid for any other shape."""
    tenant, _, name = key.partition("/")
    if not TENANT_PATTERN.fullmatch(tenant) or not NAME_PATTERN.fullmatch(name):
        raise Invalid("a blob's key is tenant/name, of lower-case letters, digits, - and _")
    return TenantId(tenant), name


LIMIT = 255
"""Bytes kept, in UTF-8: what file systems take."""

UNNAMED = "document"

_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,10}\Z")


def displayable(name: str) -> str:
    """The last part of a path, composed (NFC), without what can't be seen or turns text around (Unicode category C)."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    seen = "".join(character for character in last if unicodedata.category(character)[0] != "C").strip()
    # One of dots alone is a folder's: whoever saved under it would miss the file.
    return _cut(unicodedata.normalize("NFC", seen)) if seen.strip(".") else UNNAMED


def _cut(name: str) -> str:
    """To LIMIT; what says the type of the file stays."""
    if len(name.encode()) <= LIMIT:
        return name
    suffix = found[0] if (found := _SUFFIX.search(name)) else ""
    return name.encode()[: LIMIT - len(suffix)].decode(errors="ignore") + suffix
