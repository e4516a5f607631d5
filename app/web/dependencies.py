"""Dependencies of routes: the services, ids, and the Idempotency-Key. The caller's are in `callers`."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Header, Path, Request, Response
from pydantic import BeforeValidator

from app.domain.errors import Conflict, IdempotencyMismatch, Invalid, NotFound
from app.domain.idempotency import IdempotencyKey
from app.domain.ids import DocumentId, JobId, WebhookId
from app.services.documents import DocumentService
from app.services.events.open import EventService
from app.services.jobs import JobService
from app.services.outputs import OutputService
from app.services.renditions import RenditionService
from app.services.search import SearchService
from app.services.uploads import UploadService
from app.services.usage import UsageService
from app.services.webhooks import WebhookService
from app.web.job_checks import JobChecks
from app.web.refusals import refuses


def _of_runtime(name: str) -> Any:
    """Return a dependency on one of the running program's services."""

    # A coroutine, though it awaits nothing, because a plain function would be run in a thread.
    async def service(request: Request) -> Any:
        return getattr(request.app.state.runtime, name)

    return Depends(service)


def _id_of(noun: str) -> BeforeValidator:
    """Return a validator that answers a malformed id with 404, like an unknown one."""

    def read(text: str) -> UUID:
        try:
            return UUID(text)
        except ValueError:
            raise NotFound(f"there is no such {noun}") from None

    return BeforeValidator(read)


PageNumber = Annotated[int, Path(description="From 1.", json_schema_extra={"minimum": 1})]
"""A page number. One out of any range gets the same 404 as a missing page."""

TheChecks = Annotated[JobChecks, _of_runtime("checks")]
TheDocuments = Annotated[DocumentService, _of_runtime("documents")]
TheEvents = Annotated[EventService, _of_runtime("events")]
TheJobs = Annotated[JobService, _of_runtime("jobs")]
TheOutputs = Annotated[OutputService, _of_runtime("outputs")]
TheRenditions = Annotated[RenditionService, _of_runtime("renditions")]
TheSearch = Annotated[SearchService, _of_runtime("search")]
TheUploads = Annotated[UploadService, _of_runtime("uploads")]
TheWebhooks = Annotated[WebhookService, _of_runtime("webhooks")]
TheUsage = Annotated[UsageService, _of_runtime("usage")]
ADocumentId = Annotated[DocumentId, _id_of("document")]
AJobId = Annotated[JobId, _id_of("job")]
AWebhookId = Annotated[WebhookId, _id_of("webhook")]


IDEMPOTENCY_HEADER = Header(
    alias="Idempotency-Key",
    min_length=1,
    max_length=255,
    pattern=r"^[\x20-\x7e]*$",
    description="1 to 255 printable ASCII characters of your choice. A request sent again with the same key within 24"
    " hours does nothing new and is answered with the result of the first one.",
    examples=["8e03978e-40d5-43dd-bc93-6894a57f9324"],
)


@refuses(Conflict, IdempotencyMismatch)
async def _idempotency_key(
    request: Request, key: Annotated[str | None, IDEMPOTENCY_HEADER] = None
) -> IdempotencyKey | None:
    if key is None:
        return None
    if len(request.headers.getlist("idempotency-key")) > 1:
        raise Invalid("send one Idempotency-Key", pointer="/Idempotency-Key")
    return IdempotencyKey(key=key, operation=f"{request.method} {request.url.path}")


def tell_replayed(response: Response, *, replayed: bool) -> None:
    if replayed:
        response.headers["Idempotency-Replayed"] = "true"


AnIdempotencyKey = Annotated[IdempotencyKey | None, Depends(_idempotency_key)]
