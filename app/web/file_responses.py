"""Files as answers: what keeps a browser from running, guessing or mixing up what some tenant has uploaded."""

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

CHUNK = 256 * 1024

QUIET = {
    # Opened all the same, a page of somebody's making runs no script and reaches nothing.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    # One browser may hold several tenants' keys.
    "Vary": "Authorization",
}

REVALIDATED = "private, no-cache"
KEPT = "private, max-age=31536000, immutable"
"""A year: a document's bytes never change, nor do images of its pages."""


def attachment(filename: str) -> str:
    """Content-Disposition (RFC 6266): the name in ASCII for old readers, in full for all others."""
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\%' else "_" for c in filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"


def renamed(filename: str, suffix: str) -> str:
    """`letter.pdf` as `letter` with another suffix; a name that is all suffix is kept."""
    stem, dot, _ = filename.rpartition(".")
    return (stem if dot and stem else filename) + suffix


def matches(header: str | None, tag: str) -> bool:
    """Whether If-None-Match names this tag (RFC 9110, section 13.1.2: a weak one will do)."""
    named = [each.strip().removeprefix("W/") for each in (header or "").split(",")]
    return "*" in named or f'"{tag}"' in named


async def begun(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same, with the first one at hand: what fails until then is told by a status, and not by a broken answer."""
    first = await anext(chunks, b"")

    async def all_of_them() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    return all_of_them()


class RenditionResponse(StreamingResponse):
    """A rendition on its way, closed when it has arrived or its reader has left."""

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
    """Not included."""

    def content_range(self, size: int) -> str:
        return f"bytes {self.start}-{self.end - 1}/{size}"


def chosen(header: str | None, *, size: int) -> ByteRange | None:
    """None for all of it: nothing was asked for, or nothing that can be understood.

    Raises HTTPException (416) for a range that has nothing of the document.
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
            416, f"the document has {size} bytes, and none in this range", headers={"Content-Range": f"bytes */{size}"}
        )
    return ByteRange(start, end)


NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "What the client has is the same still."}}


def revalidated(request: Request, body: BaseModel, *, headers: Mapping[str, str] | None = None) -> Response:
    """The body with its ETag, or 304 for who has it."""
    content = body.model_dump_json().encode()
    tag = sha256(content).hexdigest()[:32]
    # One browser may hold several tenants' keys.
    told = {"ETag": f'"{tag}"', "Cache-Control": REVALIDATED, "Vary": "Authorization", **(headers or {})}
    if matches(", ".join(request.headers.getlist("if-none-match")), tag):
        return Response(status_code=304, headers=told)
    return Response(content, media_type="application/json", headers=told)
