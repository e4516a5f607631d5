"""Opens streams of job events: checks the client's last position and limits the number of streams of a tenant."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from app.domain.changes import ChangeWindow, Position
from app.domain.errors import NotFound, TooMany, Unavailable
from app.domain.ids import JobId, TenantId
from app.ports.database import Database
from app.services.events.stream import AccessCheck, EventStream
from app.services.events.watcher import ChangePollers

READY_WITHIN = 10.0
"""Seconds for the watcher's first query."""

COME_BACK = timedelta(seconds=30)
"""The Retry-After of a tenant that has all its streams open; streams are long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventService:
    database: Database
    watching: ChangePollers
    stopping: asyncio.Event
    most: int
    """Streams that a tenant may have open in this process at a time."""
    _open: Counter[TenantId] = field(default_factory=Counter)

    @property
    def open_streams(self) -> int:
        return self._open.total()

    @asynccontextmanager
    async def open(
        self, tenant_id: TenantId, *, job_id: JobId | None, last: str | None, may_go_on: AccessCheck
    ) -> AsyncIterator[EventStream | None]:
        """Open a stream that continues after `last`, the id of the client's last event.

        The stream is None if the client has seen the job's end. Raises NotFound for an unknown job, TooMany at the
        limit of streams, and Unavailable.
        """
        with self._slot(tenant_id):
            since = await self._known(tenant_id, last)
            if job_id is not None and await self._has_seen_the_end(tenant_id, job_id, since):
                yield None
                return
            async with self.watching.follow(tenant_id, job_id, progress=True) as follower:
                if await follower.ready(at_most=READY_WITHIN, stopping=self.stopping) is None:
                    raise Unavailable(
                        "the service is stopping or the database is slow; retry in a few seconds", public=True
                    )
                yield EventStream(
                    database=self.database,
                    tenant_id=tenant_id,
                    job_id=job_id,
                    since=since,
                    follower=follower,
                    stopping=self.stopping,
                    may_go_on=may_go_on,
                )

    @contextmanager
    def _slot(self, tenant_id: TenantId) -> Iterator[None]:
        if self._open[tenant_id] >= self.most:
            raise TooMany(
                f"this tenant has {self.most} event streams open, the limit; one stream of /v1/events has all its jobs",
                retry_after=COME_BACK,
            )
        self._open[tenant_id] += 1
        try:
            yield
        finally:
            self._open[tenant_id] -= 1
            if not self._open[tenant_id]:
                del self._open[tenant_id]

    async def _known(self, tenant_id: TenantId, last: str | None) -> Position | None:
        """Return the position, or None if it is unknown or malformed: a browser sends it by itself and can't fix it."""
        if not last:
            return None
        position = Position(last)
        async with self.database.begin(tenant_id) as tx:
            known = await tx.changes.within(ChangeWindow(since=position), of=(), limit=1)
        return position if known else None

    async def _has_seen_the_end(self, tenant_id: TenantId, job_id: JobId, since: Position | None) -> bool:
        async with self.database.begin(tenant_id) as tx:
            job = await tx.jobs.get(job_id)
            if job is None:
                raise NotFound("there is no such job")
            if since is None or not job.state.terminal:
                return False
            unseen = await tx.changes.within(ChangeWindow(since=since), of=[job_id], limit=1)
        return unseen is not None and not unseen.jobs
