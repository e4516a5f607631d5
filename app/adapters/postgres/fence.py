"""The condition of a worker's write beside its settle: the job is still claimed, in this very attempt."""

from sqlalchemy import and_, select

from app.adapters.postgres.clamped import Clamped
from app.adapters.postgres.tables import jobs
from app.domain.jobs import JobState
from app.domain.leases import Lease


async def holds(clamped: Clamped, lease: Lease) -> bool:
    """Locks the job's row: whoever ends the attempt comes before this, and is seen, or after the transaction."""
    fence = and_(
        jobs.c.tenant_id == clamped.tenant_id,
        jobs.c.id == lease.job_id,
        jobs.c.attempts == lease.attempt,
        jobs.c.state == JobState.CLAIMED,
    )
    held = await clamped.execute(select(jobs.c.id).where(fence).with_for_update(read=True))
    return held.one_or_none() is not None
