"""The `selftest` job: lasts as long as requested, hashes a blob if one is named, and reports its attempt."""

import asyncio
import hashlib
import math
from dataclasses import dataclass
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.domain.documents import blob_key
from app.domain.errors import NotFound
from app.domain.ids import DocumentId, TenantId
from app.domain.jobs import Progress
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Outcome
from app.domain.selftest import KIND, LONGEST
from app.ports.blobs import Blobs
from app.ports.database import Tx
from app.ports.leases import ProgressReporter


class SelftestPayload(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    seconds: float = Field(0, ge=0, le=LONGEST.total_seconds())
    blob: UUID | None = None
    """A blob of the job's own tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestHandler:
    blobs: Blobs
    kind: str = KIND

    async def run(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        payload = SelftestPayload.model_validate(job.payload)
        await _wait(payload.seconds, reporter)
        result = {"attempt": job.lease.attempt, "sha256": await self._digest(job.lease.tenant_id, payload.blob)}

        async def apply(tx: Tx) -> None:
            await tx.jobs.save_result(job.lease.job_id, result)

        return Done(apply)

    async def _digest(self, tenant_id: TenantId, blob: UUID | None) -> str | None:
        """Return the blob's SHA-256; None where no blob is named, or where it is not in this worker's store."""
        if blob is None:
            return None
        digest = hashlib.sha256()
        try:
            async for chunk in self.blobs.get(blob_key(tenant_id, DocumentId(blob))):
                digest.update(chunk)
        except NotFound:
            return None
        return digest.hexdigest()


async def _wait(seconds: float, reporter: ProgressReporter) -> None:
    """Wait, with progress each second.

    Progress is sent with a heartbeat at once, whose answer reports a requested cancel.
    """
    total = math.ceil(seconds)
    for done in range(total):
        reporter.report(Progress(done=done, total=total, unit="second"))
        await asyncio.sleep(min(1, seconds - done))
