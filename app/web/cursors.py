"""Places in listings, packed: what a cursor is made of. `listings` binds it to what was asked for."""

import base64
import binascii
import json
import re
from datetime import datetime
from uuid import UUID

from app.domain.documents import Cursor
from app.domain.errors import Invalid
from app.domain.ids import DocumentId, JobId, WebhookId
from app.domain.search import Place
from app.web.schemas import in_utc

SMALL = re.compile(r"[0-9]{1,9}")
"""A number that every store can hold."""


def of_document(created_at: datetime, document_id: DocumentId) -> str:
    return _pack([created_at.isoformat(), str(document_id)])


def document(cursor: str | None) -> Cursor | None:
    if cursor is None:
        return None
    try:
        created_at, document_id = _unpack(cursor)
        moment = datetime.fromisoformat(created_at)
        if moment.tzinfo is None:
            raise _refused()
        return Cursor(created_at=in_utc(moment), id=DocumentId(UUID(document_id)))
    except (ValueError, TypeError, AttributeError):
        raise _refused() from None


def of_job(job_id: JobId) -> str:
    return _pack([str(job_id)])


def job(cursor: str | None) -> JobId | None:
    return None if cursor is None else JobId(_id(cursor))


def of_webhook(webhook_id: WebhookId) -> str:
    return _pack([str(webhook_id)])


def webhook(cursor: str | None) -> WebhookId | None:
    return None if cursor is None else WebhookId(_id(cursor))


def _id(cursor: str) -> UUID:
    try:
        (one,) = _unpack(cursor)
        return UUID(one)
    except (ValueError, TypeError, AttributeError):
        raise _refused() from None


def of_hit(place: Place) -> str:
    return _pack([str(place.rank), str(place.document_id), str(place.page)])


def hit(cursor: str | None) -> Place | None:
    if cursor is None:
        return None
    try:
        rank, document_id, page = _unpack(cursor)
        return Place(rank=_number(rank), document_id=DocumentId(UUID(document_id)), page=_number(page))
    except (ValueError, TypeError, AttributeError):
        raise _refused() from None


def _number(text: str) -> int:
    if not SMALL.fullmatch(text):
        raise _refused()
    return int(text)


def _pack(parts: list[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).rstrip(b"=").decode()


def _unpack(cursor: str) -> list[str]:
    try:
        parts: list[str] = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, UnicodeDecodeError, RecursionError) as error:
        raise ValueError from error
    return parts


def _refused() -> Invalid:
    return Invalid("the cursor is not one that this listing gave", pointer="/cursor")
