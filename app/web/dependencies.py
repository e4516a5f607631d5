"""What routes ask for: the services, and ids that may be nonsense. Who asks is in `callers`."""

from typing import Annotated
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


async def _documents(request: Request) -> Documents:
    documents: Documents = request.app.state.runtime.documents
    return documents


async def _events(request: Request) -> Events:
    events: Events = request.app.state.runtime.events
    return events


async def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.runtime.jobs
    return jobs


async def _outputs(request: Request) -> Outputs:
    outputs: Outputs = request.app.state.runtime.outputs
    return outputs


async def _renditions(request: Request) -> Renditions:
    renditions: Renditions = request.app.state.runtime.renditions
    return renditions


async def _search(request: Request) -> Search:
    search: Search = request.app.state.runtime.search
    return search


async def _uploads(request: Request) -> Uploads:
    uploads: Uploads = request.app.state.runtime.uploads
    return uploads


async def _webhooks(request: Request) -> Webhooks:
    webhooks: Webhooks = request.app.state.runtime.webhooks
    return webhooks


async def _usage(request: Request) -> Usage:
    usage: Usage = request.app.state.runtime.usage
    return usage


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

TheDocuments = Annotated[Documents, Depends(_documents)]
TheEvents = Annotated[Events, Depends(_events)]
TheJobs = Annotated[Jobs, Depends(_jobs)]
TheOutputs = Annotated[Outputs, Depends(_outputs)]
TheRenditions = Annotated[Renditions, Depends(_renditions)]
TheSearch = Annotated[Search, Depends(_search)]
TheUploads = Annotated[Uploads, Depends(_uploads)]
TheWebhooks = Annotated[Webhooks, Depends(_webhooks)]
TheUsage = Annotated[Usage, Depends(_usage)]
ADocumentId = Annotated[DocumentId, Depends(_document_id)]
AJobId = Annotated[JobId, Depends(_job_id)]
AWebhookId = Annotated[WebhookId, Depends(_webhook_id)]
