"""Routes of downloads: the original, page images, a searchable PDF, and the text as hOCR, ALTO or Markdown."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from app.domain.documents import Document
from app.domain.errors import Conflict, NotReady
from app.domain.formats.formats import ALTO, HOCR, MARKDOWN, TextFormat
from app.domain.ids import DocumentId, TenantId
from app.services.outputs import OutputService
from app.web.callers import Reader
from app.web.dependencies import ADocumentId, PageNumber, TheOutputs, TheRenditions
from app.web.errors import PROBLEM
from app.web.file_responses import (
    CACHED_FOR_GOOD,
    REVALIDATE,
    SAFE_HEADERS,
    ByteRange,
    RenditionResponse,
    attachment,
    matches_etag,
    requested_range,
    with_first_chunk,
    with_suffix,
)
from app.web.openapi.headers import header_responses
from app.web.refusals import refuses
from app.web.waiting import unless_disconnected

router = APIRouter(prefix="/v1/documents/{document_id}", tags=["outputs"])

IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="An ETag; answered with 304 if it is still current.")
]
OF_CONTENT = ("ETag", "Content-Disposition", "Accept-Ranges")
NAMED = ("Content-Disposition",)
Width = Annotated[int, Query(ge=16, le=4000, description="Pixels; a very long page may be rendered smaller.")]


def _gives(media_type: str, description: str, *headers: str) -> dict[int | str, dict[str, Any]]:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {200: {"description": description, "content": content, **header_responses(*headers)}}


@router.get(
    "/content",
    response_class=StreamingResponse,
    responses=_gives("*/*", "The bytes, with the type that was found from them.", *OF_CONTENT)
    | {
        206: {
            "description": "A range of the bytes.",
            "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
            **header_responses(*OF_CONTENT, "Content-Range"),
        },
        304: {"description": "Unchanged.", **header_responses(*OF_CONTENT)},
        416: {
            "description": "The range is outside the document.",
            "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            **header_responses("Content-Range"),
        },
    },
)
@refuses(Conflict)
async def download_document(
    tenant_id: Reader,
    document_id: ADocumentId,
    outputs: TheOutputs,
    range_: Annotated[str | None, Header(alias="Range", description="One range of bytes, `bytes=0-99`.")] = None,
    if_range: Annotated[
        str | None, Header(alias="If-Range", description="An ETag; the range is sent if it matches, else all bytes.")
    ] = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Download the original, byte for byte."""
    document = await outputs.document(tenant_id, document_id)
    headers = _of_original(document)
    if matches_etag(if_none_match, document.sha256):
        return Response(status_code=304, headers=headers)
    asked = range_ if if_range in {None, headers["ETag"]} else None
    part = requested_range(asked, size=document.size)
    if part is None:
        return await _all(outputs, document, headers)
    return await _part(outputs, document, part, headers)


@router.head(
    "/content",
    response_class=Response,
    responses={200: {"description": "The headers of GET, without the bytes.", **header_responses(*OF_CONTENT)}},
)
async def describe_download(tenant_id: Reader, document_id: ADocumentId, outputs: TheOutputs) -> Response:
    """Return the headers of the original's download."""
    document = await outputs.document(tenant_id, document_id)
    sized = {"Content-Length": str(document.size)}
    return Response(headers=_of_original(document) | sized, media_type=document.media_type)


@router.get(
    "/pages/{number}/image",
    response_class=StreamingResponse,
    responses=_gives("image/png", "The page as displayed.", "ETag")
    | {304: {"description": "Unchanged.", **header_responses("ETag")}},
)
@refuses(Conflict)
async def get_page_image(
    request: Request,
    tenant_id: Reader,
    document_id: ADocumentId,
    number: PageNumber,
    outputs: TheOutputs,
    renditions: TheRenditions,
    width: Width = 1000,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Render a page as displayed, turned and cropped, as PNG. The boxes of words refer to it. It needs no text."""
    document = await outputs.document(tenant_id, document_id)
    tag = renditions.page_image_tag(document, number, width=width)
    headers = {"ETag": f'"{tag}"', "Cache-Control": CACHED_FOR_GOOD, **SAFE_HEADERS}
    if matches_etag(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    image = await unless_disconnected(request, renditions.page_image(document, number, width=width))
    return RenditionResponse(image, media_type="image/png", headers=headers)


@router.get(
    "/searchable.pdf",
    response_class=StreamingResponse,
    responses=_gives("application/pdf", "The pages with an invisible text layer.", "Content-Disposition"),
)
@refuses(NotReady, Conflict)
async def get_searchable_pdf(
    request: Request, tenant_id: Reader, document_id: ADocumentId, outputs: TheOutputs, renditions: TheRenditions
) -> Response:
    """Render the document as a searchable PDF: it looks the same, with the recognised text laid invisibly over it."""
    document = await outputs.read_document(tenant_id, document_id)
    copy = await unless_disconnected(request, renditions.searchable(document))
    disposition = attachment(with_suffix(document.filename, ".searchable.pdf"))
    return RenditionResponse(
        copy, media_type="application/pdf", headers={"Content-Disposition": disposition, **SAFE_HEADERS}
    )


@router.get("/hocr", response_class=StreamingResponse, responses=_gives("text/html", "hOCR.", *NAMED))
@refuses(NotReady, Conflict)
async def get_hocr(tenant_id: Reader, document_id: ADocumentId, outputs: TheOutputs) -> Response:
    """Return the text as hOCR: HTML with the place of each word, in pixels at 300 dpi."""
    return await _in_format(tenant_id, document_id, outputs, HOCR)


@router.get("/alto", response_class=StreamingResponse, responses=_gives("application/xml", "ALTO 4.", *NAMED))
@refuses(NotReady, Conflict)
async def get_alto(tenant_id: Reader, document_id: ADocumentId, outputs: TheOutputs) -> Response:
    """Return the text as ALTO 4: XML with the place of each word, in 1200ths of an inch."""
    return await _in_format(tenant_id, document_id, outputs, ALTO)


@router.get("/markdown", response_class=StreamingResponse, responses=_gives("text/markdown", "Markdown.", *NAMED))
@refuses(NotReady, Conflict)
async def get_markdown(tenant_id: Reader, document_id: ADocumentId, outputs: TheOutputs) -> Response:
    """Return the text as Markdown: paragraphs, and headings for lines that are set clearly larger."""
    return await _in_format(tenant_id, document_id, outputs, MARKDOWN)


async def _in_format(
    tenant_id: TenantId, document_id: DocumentId, outputs: OutputService, form: TextFormat
) -> Response:
    document = await outputs.read_document(tenant_id, document_id)
    disposition = attachment(with_suffix(document.filename, form.suffix))
    text = await with_first_chunk(outputs.written(document, form))
    return StreamingResponse(
        text,
        media_type=f"{form.media_type}; charset=utf-8",
        headers={"Content-Disposition": disposition, **SAFE_HEADERS},
    )


def _of_original(document: Document) -> dict[str, str]:
    return {
        "Content-Disposition": attachment(document.filename),
        "ETag": f'"{document.sha256}"',
        "Accept-Ranges": "bytes",
        "Cache-Control": REVALIDATE,
        **SAFE_HEADERS,
    }


async def _all(outputs: OutputService, document: Document, headers: dict[str, str]) -> Response:
    chunks = await with_first_chunk(outputs.original(document))
    sized = {"Content-Length": str(document.size)}
    return StreamingResponse(chunks, media_type=document.media_type, headers=headers | sized)


async def _part(outputs: OutputService, document: Document, part: ByteRange, headers: dict[str, str]) -> Response:
    chunks = await with_first_chunk(outputs.part(document, start=part.start, end=part.end))
    ranged = {"Content-Length": str(part.end - part.start), "Content-Range": part.content_range(document.size)}
    return StreamingResponse(chunks, status_code=206, media_type=document.media_type, headers=headers | ranged)
