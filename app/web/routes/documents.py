"""Documents: upload, read, remove."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse

from app.domain.documents import DocumentStatus, displayable_filename
from app.domain.errors import Conflict, Invalid, LlmNotConfigured, NotFound, NotReady, TooMany, Unsupported
from app.domain.idempotency import IdempotencyKey
from app.domain.pages import Page
from app.domain.tenants import Caller
from app.services.documents import DocumentListing
from app.services.uploads import AcceptedUpload, JobRequest, ReceivedBlob, UploadService
from app.web import pagination
from app.web.bodies import MultipartForm, parse_json, read_text
from app.web.callers import JobWritingCaller, Reader, Writer, WritingCaller
from app.web.dependencies import (
    ADocumentId,
    AnIdempotencyKey,
    PageNumber,
    TheChecks,
    TheDocuments,
    TheJobs,
    TheOutputs,
    TheUploads,
    tell_replayed,
)
from app.web.file_responses import NOT_MODIFIED, conditional_json, with_first_chunk
from app.web.job_requests import JOB_BODY
from app.web.openapi.headers import header_parameters
from app.web.openapi.upload_form import UPLOAD_FORM
from app.web.pagination import TheListing
from app.web.refusals import refuses
from app.web.schemas import (
    DocumentBody,
    DocumentList,
    JobBody,
    Moment,
    PageBody,
    PageList,
    PageWithWords,
)
from app.web.waiting import unless_disconnected, wait_preference

router = APIRouter(prefix="/v1/documents", tags=["documents"])


@router.post(
    "",
    status_code=202,
    response_description="The document is stored, and its jobs are queued.",
    responses={200: {"model": DocumentBody, "description": "The document existed already; `deduplicated` is true."}},
    openapi_extra=UPLOAD_FORM | header_parameters("Prefer"),
)
@refuses(LlmNotConfigured, Unsupported)
async def upload_document(
    request: Request,
    response: Response,
    caller: WritingCaller,
    uploads: TheUploads,
    jobs: TheJobs,
    checks: TheChecks,
    once: AnIdempotencyKey,
) -> DocumentBody:
    """Store a document and queue its jobs. The same bytes again are the same document, answered with 200.

    With `Prefer: wait=N` the answer comes as soon as the jobs have ended, or after N seconds.
    """
    form = MultipartForm(content_type=request.headers.get("content-type", ""), body=request.stream())
    received = await _receive(form, caller, uploads)
    try:
        requests = await checks.requests(request, caller.tenant_id, form.fields.get("jobs", '[{"kind": "ocr"}]'))
    except BaseException:
        await uploads.discard(received)
        raise
    try:
        accepted = await _accept(form, received, caller, uploads, requests=requests, once=once)
    except (Conflict, Invalid, NotFound, TooMany):
        # Refused before any commit. After another failure the row may exist, so its bytes must stay.
        await uploads.discard(received)
        raise
    if accepted.deduplicated:
        response.status_code = 200
    response.headers["Location"] = f"/v1/documents/{accepted.document.id}"
    tell_replayed(response, replayed=accepted.replayed)
    preference = wait_preference(request)
    response.headers.update(preference.headers)
    listed = DocumentListing(document=accepted.document, jobs=list(accepted.jobs))
    if preference.wait:
        listed = await unless_disconnected(request, jobs.wait_for_document(listed, at_most=preference.wait))
    return DocumentBody.of(listed.document, listed.jobs, deduplicated=accepted.deduplicated)


@router.get("", response_model=DocumentList)
async def list_documents(
    tenant_id: Reader,
    documents: TheDocuments,
    listing: TheListing,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    status: DocumentStatus | None = None,
    filename: Annotated[
        str | None, Query(max_length=255, pattern=r"^[^\x00]*$", description="A part of the name.")
    ] = None,
    created_after: Annotated[Moment | None, Query(description="Only documents created later.")] = None,
    created_before: Annotated[Moment | None, Query(description="Only documents created earlier.")] = None,
    sha256: Annotated[
        str | None, Query(pattern=r"^[0-9a-f]{64}$", description="The hash of the bytes; at most one document has it.")
    ] = None,
) -> Response:
    """List documents, newest first."""
    listed, more = await documents.newest(
        tenant_id,
        limit=limit,
        before=pagination.document_place(listing.cursor),
        status=status,
        filename=filename,
        created_after=created_after,
        created_before=created_before,
        sha256=sha256,
    )
    last = listed[-1].document if more else None
    return await listing.answer(
        (DocumentBody.of(each.document, each.jobs) for each in listed),
        following=pagination.pack_document_place(last.created_at, last.id) if last else None,
    )


@router.get(
    "/{document_id}",
    response_model=DocumentBody,
    responses=NOT_MODIFIED,
    openapi_extra=header_parameters("If-None-Match"),
)
async def get_document(
    tenant_id: Reader,
    document_id: ADocumentId,
    documents: TheDocuments,
    request: Request,
) -> Response:
    """Return the document with its jobs, newest first."""
    listed = await documents.get(tenant_id, document_id)
    return conditional_json(request, DocumentBody.of(listed.document, listed.jobs))


@router.delete("/{document_id}", status_code=204, response_description="The document is removed.")
async def delete_document(tenant_id: Writer, document_id: ADocumentId, documents: TheDocuments) -> None:
    """Remove the document with its bytes, pages, jobs and results."""
    await documents.remove(tenant_id, document_id)


@router.get("/{document_id}/text", response_class=PlainTextResponse, response_description="The text.")
@refuses(NotReady, Conflict)
async def get_text(tenant_id: Reader, document_id: ADocumentId, outputs: TheOutputs) -> StreamingResponse:
    """Return the text of all pages, separated by form feeds; 409 `not_ready` until it is there."""
    document = await outputs.read_document(tenant_id, document_id)
    text = await with_first_chunk(outputs.text(document))
    return StreamingResponse(text, media_type="text/plain; charset=utf-8")


@router.get("/{document_id}/pages", response_model=PageList)
@refuses(NotReady, Conflict)
async def list_pages(tenant_id: Reader, document_id: ADocumentId, outputs: TheOutputs) -> StreamingResponse:
    """Return all pages with their text, without their words."""
    document = await outputs.read_document(tenant_id, document_id)
    pages = await with_first_chunk(_page_list(outputs.pages(document)))
    return StreamingResponse(pages, media_type="application/json")


async def _page_list(pages: AsyncIterator[Page]) -> AsyncIterator[bytes]:
    """The JSON of a `PageList`, page by page: a long document's would be tens of megabytes."""
    before = b'{"data":['
    async for page in pages:
        yield before + PageBody.of(page).model_dump_json().encode()
        before = b","
    yield (b"" if before == b"," else before) + b"]}"


@router.get("/{document_id}/pages/{number}")
@refuses(NotReady, Conflict)
async def get_page(
    tenant_id: Reader, document_id: ADocumentId, number: PageNumber, documents: TheDocuments
) -> PageWithWords:
    """Return a page with its words."""
    page = await documents.page(tenant_id, document_id, number)
    return PageWithWords.model_validate(page, from_attributes=True)


@router.post(
    "/{document_id}/jobs",
    status_code=202,
    response_description="The job is queued.",
    responses={200: {"model": JobBody, "description": "An equal job, which is already queued or running."}},
    openapi_extra=JOB_BODY | header_parameters("Prefer"),
)
@refuses(Conflict, LlmNotConfigured)
async def request_job(
    caller: JobWritingCaller,
    document_id: ADocumentId,
    request: Request,
    jobs: TheJobs,
    checks: TheChecks,
    response: Response,
    once: AnIdempotencyKey,
) -> JobBody:
    """Queue a job; an equal one that is already queued or claimed is returned with 200.

    With `Prefer: wait=N` the answer comes as soon as the job has ended, or after N seconds.
    """
    # Read here, because the framework would read the whole body before it checks the key.
    body = await read_text(request.stream())
    max_queued = caller.allowance.max_queued
    wanted = await checks.request(request, caller.tenant_id, body)
    requested = await jobs.request(caller.tenant_id, document_id, wanted, max_queued=max_queued, once=once)
    if not requested.new:
        response.status_code = 200
    job = requested.job
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    tell_replayed(response, replayed=requested.replayed)
    preference = wait_preference(request)
    response.headers.update(preference.headers)
    if preference.wait:
        (job,) = await unless_disconnected(request, jobs.wait_for_all([job], at_most=preference.wait))
    return JobBody.of(job)


async def _receive(form: MultipartForm, caller: Caller, uploads: UploadService) -> ReceivedBlob:
    """Read the whole form and store its one file. After an error nothing is stored."""
    received: ReceivedBlob | None = None
    try:
        async for chunks in form.parts():
            _refuse_second(received)
            received = await uploads.receive(
                caller.tenant_id,
                chunks,
                max_bytes=caller.allowance.max_upload_bytes,
                begun_at=caller.admitted_at,
            )
    except BaseException:
        if received is not None:
            await uploads.discard(received)
        raise
    if received is None:
        raise Invalid("the form has no part named file; send the document as file", pointer="/file")
    return received


def _refuse_second(received: ReceivedBlob | None) -> None:
    if received is not None:
        raise Invalid("the form has more than one file; send each document in a request of its own", pointer="/file")


async def _accept(
    form: MultipartForm,
    received: ReceivedBlob,
    caller: Caller,
    uploads: UploadService,
    *,
    requests: Sequence[JobRequest],
    once: IdempotencyKey | None,
) -> AcceptedUpload:
    unknown = form.fields.keys() - {"jobs", "metadata", "language"}
    if unknown:
        raise Invalid(f"unknown fields: {', '.join(sorted(unknown))[:200]}", pointer=f"/{min(unknown)[:200]}")
    return await uploads.accept(
        received,
        filename=displayable_filename(form.filename),
        language=form.fields.get("language", "eng"),
        metadata=_metadata(form.fields.get("metadata", "{}")),
        requests=requests,
        max_queued=caller.allowance.max_queued,
        once=once,
    )


def _metadata(text: str) -> Mapping[str, object]:
    try:
        metadata = parse_json(text)
    except ValueError as error:
        raise Invalid(f"metadata is not JSON: {error}", pointer="/metadata") from None
    if not isinstance(metadata, dict):
        raise Invalid("metadata must be a JSON object", pointer="/metadata")
    return metadata
