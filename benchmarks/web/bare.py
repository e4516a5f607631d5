"""A minimal FastAPI service in Daira's place: the same clamped reads and writes, nothing else.

It looks no key up, hashes, limits and logs nothing, and takes the tenant from the environment. It uses Daira's own
pool, tables and adapters, so that only the rest of Daira is measured.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from uuid import UUID, uuid4

from fastapi import FastAPI, HTTPException, UploadFile

from app.adapters.postgres.database import PostgresDatabase
from app.adapters.postgres.engine import PostgresEngine
from app.domain.documents import Document
from app.domain.ids import DocumentId, JobId, TenantId, uuid7
from app.domain.jobs import NewJob
from app.web.schemas import JobBody, JobWithHistory

TENANT = TenantId(os.environ.get("BARE_TENANT", "acme"))
FOLDER = Path(os.environ.get("BARE_FOLDER", "."))
DURABLE = os.environ.get("BARE_DURABLE") == "true"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    engine = PostgresEngine(os.environ["BARE_DATABASE_URL"], pool_size=10, name="bare")
    app.state.database = PostgresDatabase(engine)
    yield
    await engine.close()


app = FastAPI(lifespan=lifespan)


@app.get("/v1/jobs/{job_id}")
async def get_job(job_id: UUID) -> JobWithHistory:
    async with app.state.database.begin(TENANT) as tx:
        job = await tx.jobs.get(JobId(job_id))
        if job is None:
            raise HTTPException(404)
        return JobWithHistory.with_history(job, await tx.jobs.attempts(JobId(job_id)))


@app.post("/v1/documents", status_code=202)
async def upload(file: Annotated[UploadFile, "the one part of the form"]) -> JobBody:
    content = await file.read()
    await asyncio.to_thread(_store, content)
    document = Document(
        id=DocumentId(uuid7()),
        tenant_id=TENANT,
        filename=file.filename or "",
        media_type="text/plain",
        size=len(content),
        sha256=uuid4().hex * 2,
        language="eng",
        metadata={},
        created_at=datetime.now(UTC),
    )
    async with app.state.database.begin(TENANT) as tx:
        await tx.documents.add(document)
        # Due in a day, so that no worker takes it while the next requests are measured.
        job = await tx.jobs.add(NewJob(id=JobId(uuid7()), kind="ocr", document_id=document.id, payload={}))
    return JobBody.of(job)


def _store(content: bytes) -> None:
    with (FOLDER / uuid4().hex).open("wb") as file:
        file.write(content)
        if DURABLE:
            file.flush()
            os.fsync(file.fileno())
