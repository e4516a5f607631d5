"""A worker's parts on an empty store in memory, with a handler that does what the test says."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from typing_extensions import override

from app.adapters.memory.blobs import MemoryBlobs
from app.adapters.memory.doorbell import MemoryDoorbell
from app.domain.doorbells import Lane, Ring
from app.domain.errors import Unavailable
from app.domain.ids import TenantId
from app.domain.jobs import Job
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Outcome
from app.ports.blobs import InventoriedBlobs
from app.ports.database import Database
from app.ports.doorbell import Doorbell
from app.ports.leases import Leases, ProgressReporter
from app.services.clocks import TOLERATED, ClockComparer
from app.services.documents import DocumentService
from app.services.execution import Execution
from app.services.maintenance import Maintenance
from app.services.purging import Purger
from app.services.ringing import Ringer
from app.services.search import SearchService, search_turns
from app.services.settling import SettleBatcher
from app.services.sweeping import Sweeper
from app.services.usage import UsageService
from app.telemetry import Metrics
from app.worker.consumer import Consumer
from app.worker.heartbeat import Heartbeat, HeldLease, monotonic, shared_leases
from app.worker.worker import Worker
from tests.support.rig import KIND, LEASE, Rig, ring_of

Act = Callable[[ClaimedJob, ProgressReporter], Awaitable[Outcome]]


async def succeed(_job: ClaimedJob, _reporter: ProgressReporter) -> Outcome:
    return Done()


@dataclass
class Acting:
    """A handler of the test's."""

    act: Act = succeed
    kind: str = KIND
    running: list[ClaimedJob] = field(default_factory=list)
    started: list[ClaimedJob] = field(default_factory=list)

    async def run(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        self.started.append(job)
        self.running.append(job)
        try:
            return await self.act(job, reporter)
        finally:
            self.running.remove(job)


class Away:
    """A store, or a queue, that can't be reached for the first calls of each method named."""

    def __init__(self, inner: object, **calls: int) -> None:
        self._inner = inner
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        if self._calls.get(name, 0) > 0:
            self._calls[name] -= 1
            raise Unavailable("away for a while")
        return getattr(self._inner, name)


class Deaf(MemoryDoorbell):
    """A queue that can't be reached for ringing."""

    @override
    async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
        raise Unavailable("the queue is away")


class Hanging(MemoryDoorbell):
    """A queue that takes a ring and never answers."""

    @override
    async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
        await asyncio.Event().wait()


@dataclass(kw_only=True)
class Bench:
    rig: Rig
    bell: MemoryDoorbell = field(default_factory=MemoryDoorbell)
    handler: Acting = field(default_factory=Acting)
    metrics: Metrics = field(default_factory=Metrics)
    lease: timedelta = LEASE

    @property
    def ringing(self) -> Ringer:
        return Ringer(dict.fromkeys(Lane, self.bell), self.metrics)

    @property
    def sweeping(self) -> Sweeper:
        return Sweeper(sweeps=self.rig.sweeps, ringing=self.ringing, metrics=self.metrics)

    def execution(self, *, database: Database | None = None, leases: Leases | None = None) -> Execution:
        return Execution(
            database=database or self.rig.database,
            leases=leases or self.rig.leases,
            settling=SettleBatcher(leases or self.rig.leases),
            handlers={KIND: self.handler},
            ringing=self.ringing,
            refill=self.sweeping.refill,
            metrics=self.metrics,
            worker="worker",
            lease=self.lease,
        )

    async def run(self, job: Job, *, execution: Execution | None = None, hold: HeldLease | None = None) -> Job:
        """One attempt, from the claim to the settled row."""
        execution = execution or self.execution()
        claimed = await self.rig.claimed(job)
        await execution.run(claimed, hold or a_hold(claimed))
        return await self.rig.again(job)

    def heart(self, leases: Leases | None = None) -> Heartbeat:
        return Heartbeat(lambda: shared_leases(leases or self.rig.leases), lease=self.lease)

    def consumer(
        self,
        *,
        slots: int = 2,
        doorbell: Doorbell | None = None,
        execution: Execution | None = None,
        heart: Heartbeat | None = None,
        sweep_every: timedelta = timedelta(seconds=30),
    ) -> Consumer:
        return Consumer(
            lane=Lane.OCR,
            kinds=frozenset({KIND}),
            slots=slots,
            doorbell=doorbell or self.bell,
            execution=execution or self.execution(),
            heart=heart or self.heart(),
            sweeping=self.sweeping,
            sweep_every=sweep_every,
            metrics=self.metrics,
        )

    def worker(self, *, slots: int = 2, grace: timedelta = timedelta(seconds=10)) -> Worker:
        heart = self.heart()
        return Worker(
            name="worker",
            consumers=[self.consumer(slots=slots, heart=heart)],
            heart=heart,
            sweeping=self.sweeping,
            sweep_every=timedelta(seconds=30),
            purging=purging(self.rig, MemoryBlobs(), metrics=self.metrics),
            purge_every=timedelta(hours=6),
            upkeep=upkeep(self.rig),
            grace=grace,
            metrics=self.metrics,
        )

    async def enqueue(self, tenant: TenantId, *, count: int = 1, **fields: Any) -> list[Job]:
        """Jobs with their bells, as an upload leaves them."""
        jobs = [await self.rig.enqueue(tenant, **fields) for _ in range(count)]
        await self.bell.ring([ring_of(job) for job in jobs])
        return jobs

    async def rung(self) -> list[Ring]:
        """The bells that can be heard now; they are taken."""
        return [delivery.ring for delivery in await self.bell.answer(limit=1000, wait=timedelta())]

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


def purging(
    rig: Rig,
    blobs: InventoriedBlobs,
    *,
    metrics: Metrics | None = None,
    retention: timedelta | None = None,
    job_retention: timedelta | None = None,
    tolerated: timedelta = TOLERATED,
) -> Purger:
    """`tolerated` is for tests that advance the time of the rows alone."""
    return Purger(
        database=rig.database,
        documents=DocumentService(database=rig.database, blobs=blobs),
        blobs=blobs,
        sweeps=rig.sweeps,
        clocks=ClockComparer(sweeps=rig.sweeps, blobs=blobs),
        metrics=metrics or Metrics(),
        job_retention=job_retention,
        tolerated=tolerated,
        retention=retention,
    )


def upkeep(rig: Rig) -> Maintenance:
    return Maintenance(
        sweeps=rig.sweeps,
        search=SearchService(database=rig.database, turns=search_turns(1)),
        usage=UsageService(database=rig.database),
    )


def a_hold(job: ClaimedJob, *, length: timedelta = LEASE) -> HeldLease:
    return HeldLease(job.lease, claimed_at=monotonic(), length=length)


def outcomes(bench: Bench, outcome: str) -> float:
    return bench.count("daira_jobs_finished_total", kind=KIND, outcome=outcome)
