"""Bodies of the API's answers, named as in its contract."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator

from app.domain.documents import JOBS_SHOWN, Document, DocumentStatus, document_status, shown_jobs
from app.domain.jobs import Attempt, AttemptOutcome, Job, JobState
from app.domain.keys import Scope
from app.domain.pages import Page, Source
from app.domain.tenants import Caller
from app.domain.warnings import WarningCode
from app.web.job_results import RESULT


def in_utc(moment: datetime) -> datetime:
    """Return the time in UTC. Raises ValueError if UTC's calendar has no such day."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the time is out of range") from None


def _check_time_format(value: object) -> object:
    """Refuse all but RFC 3339: Pydantic would accept seconds since 1970 as well."""
    if isinstance(value, str) and not re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]", value):
        raise ValueError("write the time like 2026-11-30T09:00:00Z")
    if isinstance(value, str) and re.search(r" [0-9]{2}:?[0-9]{2}$", value[16:]):
        raise ValueError("a + is written %2B in an address: there it means a blank")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_check_time_format), AfterValidator(in_utc)]


class ErrorBody(BaseModel):
    """The reason why a job, or an attempt, has failed."""

    code: str
    message: str


class ProgressBody(BaseModel):
    """The progress of a running job."""

    done: int
    total: int
    unit: str


class AttemptBody(BaseModel):
    """One attempt at a job, with its outcome."""

    attempt: int
    outcome: AttemptOutcome
    error: ErrorBody | None
    started_at: datetime
    finished_at: datetime


class JobBody(BaseModel):
    """A job as it is now."""

    id: UUID
    document_id: UUID | None
    kind: str
    state: JobState
    attempts: int
    failures: int
    expiries: int
    releases: int
    max_attempts: int
    progress: ProgressBody | None
    result: Annotated[Any, RESULT]
    error: ErrorBody | None
    created_at: datetime
    run_after: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, job: Job) -> "JobBody":
        return cls.model_validate(job, from_attributes=True)


class JobWithHistory(JobBody):
    """A job with its attempts, oldest first."""

    history: list[AttemptBody]

    @classmethod
    def with_history(cls, job: Job, attempts: list[Attempt]) -> "JobWithHistory":
        fields = {name: getattr(job, name) for name in JobBody.model_fields}
        return cls.model_validate({**fields, "history": attempts}, from_attributes=True)


class JobList(BaseModel):
    """Jobs, newest first; `next_cursor` asks for the next page."""

    data: list[JobBody]
    next_cursor: str | None


class ProgressOfJob(ProgressBody):
    job_id: UUID


class WarningBody(BaseModel):
    """A warning about a document that was read all the same."""

    code: WarningCode
    detail: str
    pages: list[int]


class DocumentBody(BaseModel):
    """A document with its jobs."""

    id: UUID
    filename: str
    media_type: str
    size: int
    sha256: str
    page_count: int | None
    language: str
    metadata: dict[str, Any]
    status: DocumentStatus
    warnings: list[WarningBody]
    deduplicated: bool
    created_at: datetime
    jobs: list[JobBody]
    """Up to 20 jobs, newest first; queued and claimed ones are shown before ended ones."""
    more_jobs: bool
    """True if it has more jobs than these. `GET /v1/jobs?document_id=` lists all."""

    @classmethod
    def of(cls, document: Document, of_it: list[Job], *, deduplicated: bool = False) -> "DocumentBody":
        return cls(
            id=document.id,
            filename=document.filename,
            media_type=document.media_type,
            size=document.size,
            sha256=document.sha256,
            page_count=document.page_count,
            language=document.language,
            metadata=dict(document.metadata),
            status=document_status(document, of_it),
            warnings=[WarningBody.model_validate(warning, from_attributes=True) for warning in document.warnings],
            deduplicated=deduplicated,
            created_at=document.created_at,
            jobs=[JobBody.of(job) for job in shown_jobs(of_it)],
            more_jobs=len(of_it) > JOBS_SHOWN,
        )


class DocumentList(BaseModel):
    """Documents, newest first; `next_cursor` asks for the next page."""

    data: list[DocumentBody]
    next_cursor: str | None


class WordBody(BaseModel):
    """A word. Its box is in points of the page as displayed, from the top left."""

    text: str
    box: tuple[float, float, float, float]
    confidence: float
    source: Source
    line: int
    block: int


class PageBody(BaseModel):
    """A page with its text."""

    number: int
    text: str
    source: Source
    confidence: float | None
    width: float | None
    height: float | None
    rotation: int
    language: str
    warnings: list[WarningCode]

    @classmethod
    def of(cls, page: Page) -> "PageBody":
        return cls.model_validate(page, from_attributes=True)


class PageWithWords(PageBody):
    """A page with its words."""

    words: list[WordBody]


class PageList(BaseModel):
    """The document's pages, in order."""

    data: list[PageBody]


class LimitsBody(BaseModel):
    """The tenant's limits."""

    max_running: int | None
    max_queued: int
    max_upload_bytes: int
    requests_per_minute: int


class MeBody(BaseModel):
    """The key's tenant, name, scopes and limits."""

    tenant: str
    key: str
    scopes: list[Scope]
    limits: LimitsBody

    @classmethod
    def of(cls, caller: Caller) -> "MeBody":
        return cls(
            tenant=caller.tenant_id,
            key=caller.name,
            scopes=sorted(caller.scopes),
            limits=LimitsBody.model_validate(caller.allowance, from_attributes=True),
        )
