"""What routes ask for: the services, and ids that may be nonsense. Who asks is in `callers`."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Request

from app.domain.errors import NotFound
from app.domain.ids import DocumentId, JobId, WebhookId
from app.services.documents import Documents
from app.services.events import Events
from app.services.jobs import Jobs
from app.services.outputs import Outputs
from app.services.renditions import Renditions
from app.services.search import Search
from app.services.uploads import Uploads
from app.services.usage import Usage
from app.services.webhooks import Webhooks
from app.web.refusals import refuses


def _of_runtime(name: str) -> Any:
    """One of the services that the running program consists of."""

    # A coroutine, though it awaits nothing: a plain function would be run in a thread.
    async def service(request: Request) -> Any:
        return getattr(request.app.state.runtime, name)

    return Depends(service)


AN_ID = Path(json_schema_extra={"format": "uuid"})


@refuses(NotFound)
async def _document_id(document_id: Annotated[str, AN_ID]) -> DocumentId:
    return DocumentId(_uuid(document_id, "document"))


@refuses(NotFound)
async def _job_id(job_id: Annotated[str, AN_ID]) -> JobId:
    return JobId(_uuid(job_id, "job"))


@refuses(NotFound)
async def _webhook_id(webhook_id: Annotated[str, AN_ID]) -> WebhookId:
    return WebhookId(_uuid(webhook_id, "webhook"))


def _uuid(text: str, what: str) -> UUID:
    """What is no id can't be one of anything: answered like an unknown one."""
    try:
        return UUID(text)
    except ValueError:
        raise NotFound(f"there is no such {what}") from None


PageNumber = Annotated[int, Path(description="From 1.", json_schema_extra={"minimum": 1})]
"""One that no document has is answered like one that this document has not."""

TheDocuments = Annotated[Documents, _of_runtime("documents")]
TheEvents = Annotated[Events, _of_runtime("events")]
TheJobs = Annotated[Jobs, _of_runtime("jobs")]
TheOutputs = Annotated[Outputs, _of_runtime("outputs")]
TheRenditions = Annotated[Renditions, _of_runtime("renditions")]
TheSearch = Annotated[Search, _of_runtime("search")]
TheUploads = Annotated[Uploads, _of_runtime("uploads")]
TheWebhooks = Annotated[Webhooks, _of_runtime("webhooks")]
TheUsage = Annotated[Usage, _of_runtime("usage")]
ADocumentId = Annotated[DocumentId, Depends(_document_id)]
AJobId = Annotated[JobId, Depends(_job_id)]
AWebhookId = Annotated[WebhookId, Depends(_webhook_id)]
