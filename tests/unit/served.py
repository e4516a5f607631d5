"""The service on memory adapters, called in the process. Its worker does not run: jobs stay queued until `read`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any
from uuid import UUID

import httpx
from fastapi import FastAPI

from app.adapters.memory.blobs import MemoryBlobs
from app.asgi import create_app
from app.bootstrap import Runtime, open_runtime
from app.domain.doorbells import Ring
from app.domain.ids import JobId, TenantId
from app.domain.keys import Scope
from app.domain.leases import ClaimedJob
from app.ports.llm import Llm
from app.services.execution import Execution
from app.settings import Settings
from app.telemetry import Metrics
from app.worker.heartbeat import HeldLease, monotonic
from tests.support.described import Descriptions, held_to
from tests.support.event_streams import LeavesEndless
from tests.support.rig import KIND, LEASE

ACME = TenantId("acme")

PROBLEM = "application/problem+json"

_numbers = count()


@dataclass(frozen=True, kw_only=True)
class Served:
    app: FastAPI
    runtime: Runtime
    client: httpx.AsyncClient
    """With a key of acme's."""

    async def key_of(self, tenant: str) -> dict[str, str]:
        """The header of another tenant."""
        await self.runtime.tenants.create(TenantId(tenant))
        key = await self.runtime.tenants.issue_key(TenantId(tenant), name="a key", scopes=frozenset({Scope.ADMIN}))
        return {"Authorization": f"Bearer {key}"}

    async def upload(self, content: bytes | None = None, **fields: Any) -> httpx.Response:
        file = ("letter.pdf", new_bytes() if content is None else content)
        return await self.client.post("/v1/documents", files={"file": file}, data=fields)

    async def uploaded(self, **fields: Any) -> dict[str, Any]:
        answer = await self.upload(**fields)
        assert answer.status_code == 202, answer.text
        body: dict[str, Any] = answer.json()
        return body

    async def form(
        self, body: bytes | AsyncIterator[bytes], *, content_type: str = "multipart/form-data; boundary=x"
    ) -> httpx.Response:
        return await self.client.post("/v1/documents", content=body, headers={"Content-Type": content_type})

    async def claim(self, document: dict[str, Any], *, tenant: TenantId = ACME) -> ClaimedJob:
        """The document's first job, as a worker takes it."""
        ring = Ring(tenant, JobId(UUID(document["jobs"][0]["id"])))
        (claim,) = await self._execution.claim([ring], kinds=frozenset({KIND}))
        assert claim.job is not None
        return claim.job

    async def read(self, document: dict[str, Any], *, tenant: TenantId = ACME) -> None:
        """Do what a worker does: afterwards the document has its pages, one without a real reader."""
        job = await self.claim(document, tenant=tenant)
        await self._execution.run(job, HeldLease(job.lease, claimed_at=monotonic(), length=LEASE))

    @property
    def blobs(self) -> list[str]:
        """The keys of all that is stored."""
        assert isinstance(self.runtime.uploads.blobs, MemoryBlobs)
        return list(self.runtime.uploads.blobs._blobs)

    @property
    def _execution(self) -> Execution:
        assert self.runtime.worker is not None
        return self.runtime.worker.consumers[0]._execution


@asynccontextmanager
async def served(*, llm: Llm | None = None, **settings: Any) -> AsyncIterator[Served]:
    app = the_app()
    async with open_runtime(in_memory(**settings), Metrics(), llm=llm) as runtime:
        app.state.runtime = runtime
        transport = httpx.ASGITransport(LeavesEndless(app), raise_app_exceptions=False)
        hooks = {"response": [held_to(the_descriptions())]}
        async with httpx.AsyncClient(transport=transport, base_url="http://daira.test", event_hooks=hooks) as client:
            web = Served(app=app, runtime=runtime, client=client)
            client.headers.update(await web.key_of(ACME))
            yield web


def in_memory(**settings: Any) -> Settings:
    urls = {"database_url": "memory://", "queue_url": "memory://", "blob_url": "memory://"}
    return Settings(_env_file=None, **urls | {"ocr": "null"} | settings)


@cache
def the_app() -> FastAPI:
    """One for all tests: what differs between them is the runtime, and the first request to an app is a slow one."""
    return create_app(in_memory())


@cache
def the_descriptions() -> Descriptions:
    return Descriptions(the_app())


def new_bytes() -> bytes:
    """A PDF unlike any before, as far as its first bytes tell."""
    return b"%%PDF-1.7 number %d" % next(_numbers)


def part(name: str, content: bytes | str, *, filename: str | None = None) -> bytes:
    """One part of a multipart body with the boundary `x`."""
    disposition = f'form-data; name="{name}"' + ("" if filename is None else f'; filename="{filename}"')
    content = content.encode() if isinstance(content, str) else content
    return b"--x\r\nContent-Disposition: " + disposition.encode() + b"\r\n\r\n" + content + b"\r\n"


END = b"--x--\r\n"
