"""What two tenants have, by the names under which the API asks for it, and the service in front of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import httpx
from fastapi import FastAPI

from app.asgi import create_app
from app.bootstrap import Runtime, open_runtime
from app.domain.documents import Document, blob_key
from app.domain.ids import DocumentId, JobId, TenantId, WebhookId, uuid7
from app.domain.jobs import Job
from app.domain.keys import Scope
from app.domain.search import MOST_RANK, SearchPosition, parse_query
from app.domain.webhooks import Event, Webhook
from app.settings import Settings
from app.telemetry import Metrics
from app.web import pagination
from app.web.pagination import binding
from tests.security.operations import PLAIN
from tests.support.databases import Cloned
from tests.support.event_streams import LeavesEndless
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import Rig, done, new_page
from tests.support.scripted_llm import Scripted

WANTED = str(PLAIN["q"][0])


def settings_of(database_url: str, **given: Any) -> Settings:
    ours: dict[str, Any] = {"database_url": database_url, "blob_url": "memory://", "role": "web", "ocr": "null"}
    return Settings(_env_file=None, **ours | given)


@dataclass(frozen=True, kw_only=True)
class TenantFixtures:
    """Of one tenant: a document that was read, a job that is done and one that waits, a webhook."""

    tenant_id: TenantId
    content: bytes
    document: Document
    done: Job
    queued: Job
    found: SearchPosition
    """Where a search finds the document."""
    webhook: Webhook

    @property
    def marks(self) -> set[str]:
        """Whoever sees one of these has seen something of this tenant."""
        ids = [self.document.id, self.done.id, self.queued.id, self.webhook.id]
        return {str(self.tenant_id), *map(str, ids), self.document.filename}

    def values(self) -> dict[str, Any]:
        """Of the API's parameters that name something of a tenant's."""
        return {
            "document_id": str(self.document.id),
            "job_id": str(self.queued.id),
            "filename": self.document.filename,
            "sha256": self.document.sha256,
            "file": self.content,
            "documents cursor": self._bound(
                "/v1/documents", pagination.pack_document_place(self.document.created_at, self.document.id)
            ),
            "jobs cursor": self._bound("/v1/jobs", pagination.pack_job_place(self.done.id)),
            "search cursor": self._bound("/v1/search", pagination.pack_search_place(self.found), ("q", WANTED)),
            "webhook_id": str(self.webhook.id),
            "webhooks cursor": self._bound("/v1/webhooks", pagination.pack_webhook_place(self.webhook.id)),
            "deliveries cursor": self._bound(
                f"/v1/webhooks/{self.webhook.id}/deliveries", pagination.pack_job_place(self.done.id)
            ),
        }

    def _bound(self, path: str, place: str, *filters: tuple[str, str]) -> str:
        """As the listing gives it to who asks with these filters."""
        return f"{place}.{binding(place, self.tenant_id, path, list(filters))}"


def unknown_values(moment: datetime) -> dict[str, Any]:
    """The same for what nobody has; it would have been made at that moment."""
    return {
        "document_id": str(uuid7()),
        "job_id": str(uuid7()),
        "filename": uuid7().hex,
        "sha256": uuid7().hex * 2,
        "file": b"%PDF-1.7 " + uuid7().hex.encode(),
        "documents cursor": pagination.pack_document_place(moment, DocumentId(uuid7())),
        "jobs cursor": pagination.pack_job_place(JobId(uuid7())),
        "search cursor": pagination.pack_search_place(
            SearchPosition(rank=MOST_RANK, document_id=DocumentId(uuid7()), page=1)
        ),
        "webhook_id": str(uuid7()),
        "webhooks cursor": pagination.pack_webhook_place(WebhookId(uuid7())),
        "deliveries cursor": pagination.pack_job_place(JobId(uuid7())),
    }


@dataclass(frozen=True, kw_only=True)
class InProcessService:
    """The service on a database with the wall, called in the process."""

    app: FastAPI
    runtime: Runtime
    client: httpx.AsyncClient
    rig: Rig

    async def key(self, tenant_id: TenantId) -> str:
        return await self.runtime.tenants.issue_key(tenant_id, name="a key", scopes=frozenset({Scope.ADMIN}))

    async def add_fixtures(self, tenant_id: TenantId) -> TenantFixtures:
        content = b"%PDF-1.7 " + uuid7().hex.encode()
        digest = sha256(content).hexdigest()
        document = await self.rig.document(tenant_id, filename=f"{uuid7().hex}.pdf", sha256=digest, size=len(content))
        await self.runtime.documents.blobs.put(blob_key(tenant_id, document.id), _whole(content))
        ended = await self.rig.enqueue(tenant_id, document_id=document.id)
        await self.rig.settle(done(await self.rig.lease(ended)))
        async with self.rig.database.begin(tenant_id) as tx:
            await tx.pages.replace(document.id, [new_page(text=f"Dear {tenant_id}")])
            await tx.documents.set_read(document.id, page_count=1)
            await tx.search.index(document.id)
            (hit,) = (await tx.search.find(parse_query("dear"), limit=2)).hits
        found = SearchPosition(rank=hit.rank, document_id=hit.document_id, page=hit.page)
        queued = await self.rig.enqueue(tenant_id, document_id=document.id, dedup_key=uuid7().hex)
        webhook = await self.rig.webhook(tenant_id, events=frozenset({Event.JOB_FAILED}))
        return TenantFixtures(
            tenant_id=tenant_id,
            content=content,
            document=document,
            done=ended,
            queued=queued,
            found=found,
            webhook=webhook,
        )


async def _whole(content: bytes) -> AsyncIterator[bytes]:
    yield content


@asynccontextmanager
async def in_process_service(cloned: Cloned, app: FastAPI, **given: Any) -> AsyncIterator[InProcessService]:
    settings = settings_of(**{"database_url": cloned.app_url} | given)
    # A model is set up: every kind of job can be asked for.
    async with open_runtime(settings, Metrics(), llm=Scripted()) as runtime:
        app.state.runtime = runtime
        transport = httpx.ASGITransport(LeavesEndless(app), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://daira.test") as client:
            yield InProcessService(app=app, runtime=runtime, client=client, rig=rig_of(cloned, runtime))


def rig_of(cloned: Cloned, runtime: Runtime) -> Rig:
    """On the connections that the service itself has."""
    database = runtime.documents.database
    return postgres_rig(cloned, database._database._engine)  # type: ignore[attr-defined]


def new_app() -> FastAPI:
    return create_app(settings_of("postgresql://db.test/daira"))
