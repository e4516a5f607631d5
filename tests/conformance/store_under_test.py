"""The store that the state machine of jobs is run on: a rig with two tenants, and one line of time for all in it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from app.domain.documents import Document
from app.domain.ids import JobId, TenantId
from app.domain.jobs import Attempt, Job
from tests.support.rig import Rig, memory_rig


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a store says of a job."""

    row: Job
    history: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUnderTest:
    rig: Rig
    documents: Sequence[Document]
    """One of each tenant."""
    now: Callable[[], datetime]
    """The store's clock, and the time that was let pass besides."""
    moved: Callable[[], timedelta]
    """How far stored times were moved into the past, where it is they that move and not the clock."""

    @property
    def tenants(self) -> list[TenantId]:
        return [document.tenant_id for document in self.documents]

    async def look(self) -> dict[JobId, Seen]:
        """Every job of the tenants as it is stored, on the line of time of `now`."""
        return await self.told()

    async def told(self) -> dict[JobId, Seen]:
        """The same as callers are told it."""
        found: dict[JobId, Seen] = {}
        for tenant in self.tenants:
            async with self.rig.database.begin(tenant) as tx:
                for job in await tx.jobs.newest():
                    found[job.id] = self.seen(job, await tx.jobs.attempts(job.id))
        return found

    def seen(self, stored: Job, history: Sequence[Attempt]) -> Seen:
        return Seen(row=self.job(stored), history=tuple(self._attempt(entry) for entry in history))

    def job(self, stored: Job) -> Job:
        return replace(
            stored,
            run_after=stored.run_after + self.moved(),
            created_at=stored.created_at + self.moved(),
            lease_until=self._time(stored.lease_until),
            started_at=self._time(stored.started_at),
            finished_at=self._time(stored.finished_at),
        )

    def _attempt(self, stored: Attempt) -> Attempt:
        moved = self.moved()
        return replace(stored, started_at=stored.started_at + moved, finished_at=stored.finished_at + moved)

    def _time(self, stored: datetime | None) -> datetime | None:
        return None if stored is None else stored + self.moved()


OpenStore = Callable[[], AbstractAsyncContextManager[StoreUnderTest]]


@asynccontextmanager
async def memory_under_test() -> AsyncIterator[StoreUnderTest]:
    """Time stands still but for what is let pass."""
    rig, passed = memory_rig(), timedelta()

    async def advance(delta: timedelta) -> None:
        nonlocal passed
        passed += delta
        await rig.advance(delta)

    documents = [await rig.document(await rig.tenant(name)) for name in ("acme", "bolt")]
    async with rig.database.begin(documents[0].tenant_id) as tx:
        tenant = await tx.tenant.get()
    assert tenant is not None
    start = tenant.created_at
    yield StoreUnderTest(
        rig=replace(rig, advance=advance), documents=documents, now=lambda: start + passed, moved=timedelta
    )
