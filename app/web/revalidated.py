"""Answers that a client may keep and ask about: one that is the same still is not sent again (RFC 9110, section 13)."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from app.web.downloads import REVALIDATED, matches

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
