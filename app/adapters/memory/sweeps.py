"""The sweeper's view of the memory store: who has due work, and a pass over those tenants."""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from app.adapters.memory import transitions
from app.adapters.memory.store import JobRow, MemoryStore, Tables
from app.domain.doorbells import Ring
from app.domain.ids import TenantId
from app.domain.jobs import Job, JobState
from app.domain.tenants import TenantState
from app.domain.webhooks import KIND as WEBHOOK
from app.ports.sweeps import Backlog, Swept, Wear


class MemorySweeps:
    def __init__(self, store: MemoryStore, *, jitter: Callable[[], float] = random.random) -> None:
        self._store = store
        self._jitter = jitter

    async def tenants_with_due_work(self, *, limit: int, early: frozenset[str] | None = None) -> list[TenantId]:
        now = self._store.now()
        due = (tenant for tenant in self._store.registered() if _has_work(self._store.tables(tenant), now, early))
        return list(due)[:limit]

    async def tenants(self, *, after: TenantId | None, limit: int) -> list[TenantId]:
        return [tenant for tenant in self._store.registered() if after is None or tenant > after][:limit]

    async def sweep(
        self, tenants: Sequence[TenantId], *, limit: int, early: frozenset[str] | None = None
    ) -> list[Swept]:
        swept: list[Swept] = []
        for tenant in sorted(set(tenants) & set(self._store.registered())):
            async with self._store.writing(tenant) as tables:
                now = self._store.now()
                # Found before the lost ones are queued again: those are rung already in this pass.
                unheard = _unheard(tables, now, early)
                for row in _lost(tables, now):
                    swept += self._expire(tables, row, now=now)
                # A tenant with a cap is rung for what has room: its other jobs wait, and cost nothing meanwhile.
                # Its deliveries are not counted.
                room = int(min(limit, transitions.room(tables, now=now)))
                swept += [self._ring_again(tables, row, now=now) for row in _rung(unheard, room=room, limit=limit)]
        return swept

    async def backlog(self) -> list[Backlog]:
        jobs: defaultdict[str, list[tuple[Job, bool]]] = defaultdict(list)
        for tenant in self._store.registered():
            tables = self._store.tables(tenant)
            for row in tables.jobs.values():
                if not row.job.state.terminal:
                    jobs[row.job.kind].append((row.job, _is_active(tables)))
        return [_backlog(kind, jobs[kind], now=self._store.now()) for kind in sorted(jobs)]

    async def wear(self) -> Wear:
        return Wear(dead={}, live={}, oldest_snapshot=timedelta(), oldest_transactions=0)

    def _expire(self, tables: Tables, row: JobRow, *, now: datetime) -> list[Swept]:
        after = transitions.expire(tables, row, now=now, jitter=self._jitter())
        due = after.job.state is JobState.QUEUED
        delay = after.job.run_after - now if due else timedelta()
        ring = Ring(row.job.tenant_id, row.job.id)
        expired = Swept(ring=ring, kind=row.job.kind, expired=True, due=due, delay=delay)
        told = transitions.announce(tables, after.job, now=now)
        return [expired, *(Swept(ring=bell, kind=kind, expired=False, due=True) for kind, bell in told)]

    def _ring_again(self, tables: Tables, row: JobRow, *, now: datetime) -> Swept:
        tables.jobs[row.job.id] = transitions.rung(row, now=now, jitter=self._jitter())
        return Swept(ring=Ring(row.job.tenant_id, row.job.id), kind=row.job.kind, expired=False, due=True)


def _has_work(tables: Tables, now: datetime, early: frozenset[str] | None) -> bool:
    return bool(_lost(tables, now) or _unheard(tables, now, early))


def _is_active(tables: Tables) -> bool:
    return tables.tenant is not None and tables.tenant.state is TenantState.ACTIVE


def _lost(tables: Tables, now: datetime) -> list[JobRow]:
    """Claimed, and the lease is over."""
    return [row for row in tables.jobs.values() if _is_stuck(row.job, now)]


def _unheard(tables: Tables, now: datetime, early: frozenset[str] | None) -> list[JobRow]:
    """Due, and the last ring was long enough ago (early: of these kinds, whenever it was); the longest ago first."""
    if not _is_active(tables):
        return []
    found = [
        row
        for row in tables.jobs.values()
        if _is_due(row.job, now) and (row.ring_after <= now if early is None else row.job.kind in early)
    ]
    return sorted(found, key=lambda row: row.ring_after)


def _rung(unheard: list[JobRow], *, room: int, limit: int) -> list[JobRow]:
    own = [row for row in unheard if row.job.kind != WEBHOOK]
    deliveries = [row for row in unheard if row.job.kind == WEBHOOK]
    return unheard[:limit] if room == limit else own[:room] + deliveries[:limit]


def _is_due(job: Job, now: datetime) -> bool:
    return job.state is JobState.QUEUED and job.run_after <= now


def _is_stuck(job: Job, now: datetime) -> bool:
    return job.state is JobState.CLAIMED and job.lease_until is not None and job.lease_until < now


def _backlog(kind: str, of_kind: list[tuple[Job, bool]], *, now: datetime) -> Backlog:
    """`of_kind` says of each job whether its tenant is active: a suspended one's are not late."""
    jobs = [job for job, _ in of_kind]
    due = [job for job, active in of_kind if active and _is_due(job, now)]
    stuck = sum(_is_stuck(job, now) for job in jobs)
    return Backlog(
        kind=kind,
        due=len(due),
        scheduled=sum(job.state is JobState.QUEUED for job in jobs) - len(due),
        running=sum(job.state is JobState.CLAIMED for job in jobs) - stuck,
        stuck=stuck,
        oldest_due=max((now - job.run_after for job in due), default=timedelta()),
    )
