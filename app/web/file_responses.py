"""Responses with files: headers that keep a browser from running them, ranges (RFC 9110, section 14), and ETags.

Only one range is served. A request for several gets the whole file, which is always allowed. An answer that the client
already has is not sent again (RFC 9110, section 13).
"""

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from app.services.renditions import Rendition
from app.web.loop_accounts import paced

CHUNK = 256 * 1024

SAFE_HEADERS = {
    # An uploaded page, opened in spite of `attachment`, runs no script and loads nothing.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    # One browser may hold several tenants' keys.
    "Vary": "Authorization",
}

REVALIDATE = "private, no-cache"
CACHED_FOR_GOOD = "private, max-age=31536000, immutable"
"""One year, because a document's bytes and the images of its pages never change."""


def attachment(filename: str) -> str:
    """Return Content-Disposition (RFC 6266) with the name in ASCII, for old clients, and in full."""
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"


def with_suffix(filename: str, suffix: str) -> str:
    """Replace the suffix, for example of `letter.pdf`; a name that is only a suffix, such as `.pdf`, gets one more."""
    stem, dot, _ = filename.rpartition(".")
    return (stem if dot and stem else filename) + suffix


def matches_etag(header: str | None, tag: str) -> bool:
    """Return True if If-None-Match names this tag; weak tags match too (RFC 9110, section 13.1.2)."""
    named = [each.strip().removeprefix("W/") for each in (header or "").split(",")]
    return "*" in named or f'"{tag}"' in named


async def with_first_chunk(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return the chunks with the first one already read, so that an early error gets a status, not a broken answer."""
    first = await anext(chunks, b"")

    async def all_of_them() -> AsyncIterator[bytes]:
        yield first
        async for chunk in paced(chunks):
            yield chunk

    return all_of_them()


class RenditionResponse(StreamingResponse):
    """Sends a rendition, and closes it when it was sent or the client has left."""

    def __init__(self, rendition: Rendition, *, media_type: str, headers: Mapping[str, str]) -> None:
        sized = {"Content-Length": str(rendition.size), **headers}
        super().__init__(_chunks(rendition), media_type=media_type, headers=sized)
        self._rendition = rendition

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._rendition.close()


async def _chunks(rendition: Rendition) -> AsyncIterator[bytes]:
    while chunk := rendition.file.read(CHUNK):
        yield chunk


_ONE_RANGE = re.compile(r"bytes=(?P<first>\d{0,19})-(?P<last>\d{0,19})")


@dataclass(frozen=True, slots=True)
class ByteRange:
    start: int
    end: int
    """The first byte after the range."""

    def content_range(self, size: int) -> str:
        return f"bytes {self.start}-{self.end - 1}/{size}"


def requested_range(header: str | None, *, size: int) -> ByteRange | None:
    """Return the requested range, or None for the whole document: without a header, or with one that is malformed.

    Raises HTTPException (416) for a range outside the document.
    """
    asked = _ONE_RANGE.fullmatch(header.strip()) if header else None
    if asked is None or not (asked["first"] or asked["last"]):
        return None
    if not asked["first"]:
        start, end = max(0, size - int(asked["last"])), size
    else:
        start, end = int(asked["first"]), min(int(asked["last"]) + 1 if asked["last"] else size, size)
        if asked["last"] and int(asked["last"]) < start:
            return None
    if start >= end:
        raise HTTPException(
            416, f"the range is outside the document's {size} bytes", headers={"Content-Range": f"bytes */{size}"}
        )
    return ByteRange(start, end)


NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "The client's copy is still current."}}


def conditional_json(request: Request, body: BaseModel, *, headers: Mapping[str, str] | None = None) -> Response:
    """Return the body with its ETag, or 304 if the client has it."""
    content = body.model_dump_json().encode()
    tag = sha256(content).hexdigest()[:32]
    # One browser may hold several tenants' keys.
    sent = {"ETag": f'"{tag}"', "Cache-Control": REVALIDATE, "Vary": "Authorization", **(headers or {})}
    if matches_etag(", ".join(request.headers.getlist("if-none-match")), tag):
        return Response(status_code=304, headers=sent)
    return Response(content, media_type="application/json", headers=sent)
