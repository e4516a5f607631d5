"""An upload: blob, then one transaction with the document and its jobs, then the ring.

The blob comes first, so that no row is ever without its bytes; the purge collects a blob that is left without a row.
The ring comes last, because a worker could answer an earlier one before it can see the row.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic

import structlog

from app.domain.documents import ACCEPTED_WITHIN, Document, DocumentStatus, blob_key, document_status
from app.domain.doorbells import NEED_TEXT, TEXT_KIND, Ring
from app.domain.errors import Collided, Invalid, LlmNotConfigured, TooLarge
from app.domain.filetypes.sniff import Sniffer
from app.domain.filetypes.types import HEAD
from app.domain.idempotency import IdempotencyKey
from app.domain.ids import DocumentId, JobId, TenantId, uuid7
from app.domain.jobs import Job, NewJob
from app.domain.usage import UsageCounts
from app.ports.blobs import Blobs
from app.ports.database import Database, Tx
from app.services import idempotency, outputs
from app.services.documents import jobs_shown
from app.services.limits import refuse_beyond_queue_limit
from app.services.ringing import Ringer
from app.tracing import current

log = structlog.get_logger()

TRIES = 4
"""For a transaction that collides with another."""

WAIT_FOR_TEXT = timedelta(minutes=5)
"""A job that waits for the text is woken when the text job ends. If the worker dies just then, it looks by itself after
this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedBlob:
    """Bytes in the blob store that have no row yet."""

    tenant_id: TenantId
    document_id: DocumentId
    media_type: str
    size: int
    sha256: str
    begun_at: datetime
    """A time of the database's clock, before the first byte was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    kind: str
    payload: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedUpload:
    document: Document
    jobs: list[Job]
    deduplicated: bool
    replayed: bool = False
    """True if an earlier request with the same idempotency key did the work, and nothing was done now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadService:
    database: Database
    blobs: Blobs
    ringing: Ringer
    languages: Callable[[], frozenset[str]]
    llm: bool
    """True if a language model is configured."""

    async def receive(
        self, tenant_id: TenantId, chunks: AsyncIterator[bytes], *, max_bytes: int, begun_at: datetime
    ) -> ReceivedBlob:
        """Store the bytes while counting and hashing them. Leaves nothing behind if it raises.

        Raises TooLarge beyond the limit, Invalid for an empty file and for one that takes too long. Raises Unsupported
        after the first bytes or, for a container format, after the last.
        """
        document_id = DocumentId(uuid7())
        meter = UploadStream(chunks, limit=max_bytes)
        await meter.begin()
        await self.blobs.put(blob_key(tenant_id, document_id), meter.stream())
        return ReceivedBlob(
            tenant_id=tenant_id,
            document_id=document_id,
            media_type=meter.media_type,
            size=meter.size,
            sha256=meter.digest.hexdigest(),
            begun_at=begun_at,
        )

    async def accept(
        self,
        received: ReceivedBlob,
        *,
        filename: str,
        language: str,
        metadata: Mapping[str, object],
        requests: Sequence[JobRequest],
        max_queued: int,
        once: IdempotencyKey | None = None,
    ) -> AcceptedUpload:
        """Make a document of received bytes, or return the existing one with the same bytes.

        With `once` the same request is done once. After Conflict, Invalid, NotFound, TooMany and LlmNotConfigured there
        is no row, and the caller must discard the bytes.
        """
        check_kinds(requests, llm=self.llm)
        check_languages(language, requests, installed=self.languages())

        def document_at(now: datetime) -> Document:
            return Document(
                id=received.document_id,
                tenant_id=received.tenant_id,
                filename=filename,
                media_type=received.media_type,
                size=received.size,
                sha256=received.sha256,
                language=language,
                metadata=metadata,
                created_at=now,
            )

        accepted, new = await self._enter(received, document_at, requests, max_queued=max_queued, once=once)
        if accepted.document.id != received.document_id:
            await self._mend(accepted.document, received)
            await self.discard(received)
        due = [job for job in new if job.kind not in NEED_TEXT]
        await self.ringing.ring((job.kind, Ring(received.tenant_id, job.id)) for job in due)
        return accepted

    async def _enter(
        self,
        received: ReceivedBlob,
        document_at: Callable[[datetime], Document],
        requests: Sequence[JobRequest],
        *,
        max_queued: int,
        once: IdempotencyKey | None,
    ) -> tuple[AcceptedUpload, list[Job]]:
        """Enter the document in one transaction; one that collides with another is begun again."""
        for left in reversed(range(TRIES)):
            try:
                async with self.database.begin(received.tenant_id) as tx:
                    refuse_late(tx.now - received.begun_at)
                    accepted, new = await _enter_idempotently(tx, document_at(tx.now), requests, once=once)
                    if new:
                        await refuse_beyond_queue_limit(max_queued, tx)
                    return accepted, new
            except Collided:
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    async def discard(self, received: ReceivedBlob) -> None:
        await self.blobs.delete(blob_key(received.tenant_id, received.document_id))

    async def _mend(self, document: Document, received: ReceivedBlob) -> None:
        """Store the received bytes as the document's if its own were lost, by a disk or a restored backup."""
        if not await outputs.is_intact(self.blobs, document):
            log.warning("document_mended", tenant_id=document.tenant_id, document_id=str(document.id))
            uploaded = self.blobs.get(blob_key(received.tenant_id, received.document_id))
            await self.blobs.put(blob_key(document.tenant_id, document.id), uploaded)


class UploadStream:
    """Passes a stream on while it counts and hashes it and finds its type: from the content, never from the name."""

    def __init__(self, chunks: AsyncIterator[bytes], *, limit: int) -> None:
        self._chunks = chunks
        self._limit = limit
        self._began = monotonic()
        self._head = b""
        self.media_type = ""
        """The type that was found; empty until the whole stream has passed."""
        self.size = 0
        self.digest = hashlib.sha256()

    async def begin(self) -> None:
        """Read just enough to find an unsupported type early. Raises Invalid for an empty file, else Unsupported."""
        async for chunk in self._chunks:
            self._head += chunk
            if len(self._head) >= HEAD:
                break
        if not self._head:
            raise Invalid("the file is empty", pointer="/file")
        self._sniffer = Sniffer(self._head)

    async def stream(self) -> AsyncIterator[bytes]:
        yield self._passed(self._head)
        self._head = b""
        async for chunk in self._chunks:
            yield self._passed(chunk)
        # Within the stream: an error here leaves no blob behind.
        self.media_type = self._sniffer.media_type()

    def _passed(self, chunk: bytes) -> bytes:
        self.size += len(chunk)
        if self.size > self._limit:
            raise TooLarge(f"the file has more than {self._limit:,} bytes, this tenant's limit")
        refuse_late(timedelta(seconds=monotonic() - self._began))
        self.digest.update(chunk)
        self._sniffer.feed(chunk)
        return chunk


def refuse_late(taken: timedelta) -> None:
    """Raise Invalid after `ACCEPTED_WITHIN`: the purge could take the bytes for an orphan's before their row exists."""
    if taken > ACCEPTED_WITHIN:
        hours = ACCEPTED_WITHIN.total_seconds() / 3600
        raise Invalid(
            f"the upload took more than {hours:.0f} hours; send it again over a faster connection", pointer="/file"
        )


def check_kinds(requests: Sequence[JobRequest], *, llm: bool) -> None:
    """Raise LlmNotConfigured if a request needs a language model and none is configured: no worker could do it."""
    wanted = sorted({request.kind for request in requests} & NEED_TEXT)
    if wanted and not llm:
        raise LlmNotConfigured(
            f"jobs of the kind {', '.join(wanted)} need a language model, and this service has none:"
            " its operator can set one up"
        )


def check_languages(language: str | None, requests: Sequence[JobRequest], *, installed: frozenset[str]) -> None:
    """Raise Invalid for a language that is not installed: no worker could read it."""
    wanted: list[tuple[str, object]] = [("/language", language)]
    # In jobs for a language model `language` is the one to write in, and needs no OCR model.
    read = [(n, request.payload) for n, request in enumerate(requests) if request.kind not in NEED_TEXT]
    wanted += [(f"/jobs/{n}/language", payload.get("language")) for n, payload in read]
    for pointer, name in wanted:
        if name is not None and (missing := set(str(name).split("+")) - installed):
            known = ", ".join(sorted(installed))
            raise Invalid(f"language {min(missing)!r} is not installed here; there is {known}", pointer=pointer)


async def _enter_idempotently(
    tx: Tx, document: Document, requests: Sequence[JobRequest], *, once: IdempotencyKey | None
) -> tuple[AcceptedUpload, list[Job]]:
    """Enter the document, or return the first request's as it is now: its jobs may have ended since."""
    while earlier := await idempotency.earlier_result(tx, once, _parts(document, requests)):
        known = await tx.documents.get(DocumentId(earlier.resource_id))
        if known is not None:
            jobs = await jobs_shown(tx, known.id)
            return AcceptedUpload(document=known, jobs=jobs, deduplicated=not earlier.made, replayed=True), []
        await idempotency.forget_result(tx, once)
    accepted, new = await _enter(tx, document, requests)
    made, identity = not accepted.deduplicated, accepted.document.id
    await idempotency.record_result(tx, once, resource_id=identity, made=made, document_id=identity)
    return accepted, new


def _parts(document: Document, requests: Sequence[JobRequest]) -> Mapping[str, object]:
    return {
        "sha256": document.sha256,
        "filename": document.filename,
        "language": document.language,
        "metadata": document.metadata,
        "jobs": [[request.kind, request.payload] for request in requests],
    }


async def _enter(tx: Tx, document: Document, requests: Sequence[JobRequest]) -> tuple[AcceptedUpload, list[Job]]:
    added = await tx.documents.add(document)
    while added is None:
        # A document with the same bytes exists; or existed a moment ago, and its removal made room for this one.
        known = await tx.documents.with_bytes(document.sha256)
        if known is not None:
            jobs = await jobs_shown(tx, known.id)
            # Sent again after a failure: that asks for another try.
            failed = document_status(known, jobs) is DocumentStatus.FAILED
            again = await _add_jobs(tx, known, requests) if failed else []
            return AcceptedUpload(document=known, jobs=again[::-1] + jobs, deduplicated=True), again
        added = await tx.documents.add(document)
    await tx.usage.add(UsageCounts(documents=1, bytes=added.size))
    jobs = await _add_jobs(tx, added, requests)
    return AcceptedUpload(document=added, jobs=jobs[::-1], deduplicated=False), jobs


async def _add_jobs(tx: Tx, document: Document, requests: Sequence[JobRequest]) -> list[Job]:
    """Add the jobs, the text job first: every transaction that locks several jobs of a document keeps this order."""
    needing = [request.kind in NEED_TEXT for request in requests]
    if any(needing) and not any(request.kind == TEXT_KIND for request in requests):
        kind = requests[needing.index(True)].kind
        raise Invalid(f"{kind} needs the document's text; request {TEXT_KIND} too", pointer="/jobs")
    jobs = [
        await tx.jobs.add(new_job(JobId(tx.new_id()), document.id, request, waits=request.kind in NEED_TEXT))
        for request in sorted(requests, key=lambda request: request.kind in NEED_TEXT)
    ]
    return [job for job in jobs if job]


def new_job(job_id: JobId, document_id: DocumentId, request: JobRequest, *, waits: bool = False) -> NewJob:
    """Return a job for the request; equal requests for a document have equal dedup keys.

    With `waits` it is put off until the document's text is there, at most by `WAIT_FOR_TEXT`.
    """
    canonical = json.dumps(request.payload, sort_keys=True, separators=(",", ":"))
    return NewJob(
        id=job_id,
        kind=request.kind,
        document_id=document_id,
        payload=request.payload,
        run_in=WAIT_FOR_TEXT if waits else timedelta(),
        traceparent=current.get(),
        dedup_key=f"{document_id}:{hashlib.sha256(canonical.encode()).hexdigest()}",
    )
