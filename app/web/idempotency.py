"""`Idempotency-Key`: a POST that may be sent again and is done once."""

from typing import Annotated

from fastapi import Depends, Header, Request, Response

from app.domain.errors import Conflict, IdempotencyMismatch, Invalid
from app.domain.idempotency import Once
from app.web.refusals import refuses

KEY = Header(
    alias="Idempotency-Key",
    min_length=1,
    max_length=255,
    pattern=r"^[\x20-\x7e]*$",
    description="1 to 255 printable ASCII characters of your choice. Sent again within 24 hours with the same key, the"
    " request is answered with what the first one made, and nothing is made twice.",
    examples=["8e03978e-40d5-43dd-bc93-6894a57f9324"],
)


@refuses(Conflict, IdempotencyMismatch)
async def _once(request: Request, key: Annotated[str | None, KEY] = None) -> Once | None:
    if key is None:
        return None
    if len(request.headers.getlist("idempotency-key")) > 1:
        raise Invalid("send one Idempotency-Key", pointer="/Idempotency-Key")
    return Once(key=key, operation=f"{request.method} {request.url.path}")


def tell_replayed(response: Response, *, replayed: bool) -> None:
    if replayed:
        response.headers["Idempotency-Replayed"] = "true"


AnOnce = Annotated[Once | None, Depends(_once)]
