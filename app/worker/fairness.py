"""Slots that are fair over time: running jobs make room while other tenants wait.

A free slot goes to the tenant whose turn it is, by the order of the queue. This module is about slots that are taken by
long jobs of a tenant that came first.

A lane may have recognition slots: no more of its jobs do OCR at a time, and the other slots are for documents that need
none. A job that needs OCR while none of them is free is put back, and claimed again when one becomes free. So nothing
that needs no OCR waits for what does.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Coroutine, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import structlog

from app.domain.doorbells import Ring
from app.domain.ids import TenantId
from app.domain.leases import ClaimedJob
from app.services.ringing import Ringer
from app.services.sweeping import Sweeper
from app.worker.heartbeat import HeldLease, monotonic

log = structlog.get_logger()

SHARE_EVERY = 1.0
"""Seconds between looks for tenants that wait while all slots are taken."""

RING_ON_EVERY, RING_ON_FOR = 1.0, 30.0
"""Seconds between rings for jobs that this worker had no recognition slot for, so that a worker with a free one hears
of them; and the longest delay of such a ring. Beyond it the sweeper rings."""

SLICE = 2.0
"""Seconds that a job keeps its slot where there are more tenants than slots, before it goes to the next one."""


@dataclass(eq=False, slots=True, kw_only=True)
class RunningJob:
    """A job in one of a consumer's slots."""

    tenant_id: TenantId
    hold: HeldLease | None = None
    """None until its attempt begins."""
    since: float = field(default_factory=monotonic)
    is_recognizing: bool = False
    """True from when it has one of the recognition slots."""

    def make_room(self) -> None:
        if self.hold is not None:
            self.hold.must_yield = True


def to_make_room(
    running: Sequence[RunningJob], *, waiting: AbstractSet[TenantId], slots: int, now: float
) -> list[RunningJob]:
    """Return the jobs that are to be put back, because their tenants hold more than their share and others wait.

    A share is the number of slots by the number of tenants that run or wait, and at least one slot. Where there are
    more tenants than slots, they follow one another after a SLICE each.
    """
    held = Counter(job.tenant_id for job in running)
    share = max(1, slots // max(1, len(waiting | held.keys())))
    wanted = sum(max(0, share - held[tenant]) for tenant in waiting) - (slots - len(running))
    if wanted <= 0:
        return []
    oldest = sorted(running, key=lambda job: job.since)
    over = list(_beyond(share, oldest))
    return (over or [job for job in oldest if now - job.since >= SLICE])[:wanted]


def _beyond(share: int, oldest: Iterable[RunningJob]) -> Iterable[RunningJob]:
    """Yield each tenant's jobs beyond its share, the oldest first."""
    jobs: dict[TenantId, list[RunningJob]] = {}
    for job in oldest:
        jobs.setdefault(job.tenant_id, []).append(job)
    for own in jobs.values():
        yield from own[: max(0, len(own) - share)]


def next_in_turn(
    waiting: Iterable[TenantId], *, running: Iterable[RunningJob], after: TenantId | None
) -> list[TenantId]:
    """Return the tenants in the order in which they are to be served: who holds fewer slots first, then in rotation."""
    held = Counter(job.tenant_id for job in running)
    return sorted(waiting, key=lambda tenant: (held[tenant], after is not None and tenant <= after, tenant))


def beside(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    """Run the work beside the caller, in this set until it is done: the loop itself holds no strong reference to it."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


class ClaimCallback(Protocol):
    async def __call__(self, rings: list[Ring], *, recognizing: bool) -> list[ClaimedJob]:
        """Claim the jobs of these rings and start them; with `recognizing` each of them gets a recognition slot."""
        ...


class SlotSharing:
    """Shares a consumer's slots, and its recognition slots, among tenants."""

    def __init__(
        self,
        *,
        lane: str,
        kinds: frozenset[str],
        slots: int,
        recognition: int | None,
        running: Collection[RunningJob],
        sweeping: Sweeper,
        ringing: Ringer,
        claim: ClaimCallback,
    ) -> None:
        """`running` is a view of the consumer's jobs. `recognition` None: any number of them may do OCR."""
        self._lane = lane
        self._kinds = kinds
        self._slots = slots
        self._recognition = recognition
        self._running = running
        self._sweeping = sweeping
        self._ringing = ringing
        self._claim = claim
        self._asides: set[asyncio.Task[None]] = set()
        self._filling = asyncio.Lock()
        self._served: TenantId | None = None
        """The tenant that got the last recognition slot."""
        self._rung_on_at = 0.0
        self._closed = False

    @property
    def free_recognition(self) -> int | None:
        """Return the number of free recognition slots, or None where any number of jobs may do OCR."""
        # A slot may be taken while a job is being claimed for it: then one more job does OCR than there are slots.
        return None if self._recognition is None else max(0, self._recognition - len(self._recognizing))

    @property
    def _recognizing(self) -> list[RunningJob]:
        return [job for job in self._running if job.is_recognizing]

    def begin_recognition(self, job: RunningJob, ring: Ring) -> bool:
        """Give the job a recognition slot. Returns False if none is free; the caller then puts the job back."""
        if self.free_recognition == 0 and not job.is_recognizing:
            # The look of the next second would find the same.
            self._make_room(self._recognizing, slots=self._recognition or 0, waiting={job.tenant_id})
            self.ring_on([ring])
            return False
        job.is_recognizing = self._recognition is not None
        return True

    def fill(self) -> None:
        """Claim jobs that wait for recognition, as a slot has become free."""
        beside(self._fill(), self._asides)

    def ring_on(self, rings: list[Ring]) -> None:
        """Ring for jobs that need a recognition slot, one a second, so that a worker with a free one hears of them."""
        if rings:
            beside(self._ring_on(rings), self._asides)

    async def _ring_on(self, rings: list[Ring]) -> None:
        kind = next(iter(self._kinds))
        for ring in rings:
            now = monotonic()
            at = max(now, self._rung_on_at) + RING_ON_EVERY
            if at - now > RING_ON_FOR:
                return
            self._rung_on_at = at
            await self._ringing.ring([(kind, ring)], delay=timedelta(seconds=at - now))

    async def run(self) -> None:
        """Each second, ask jobs to make room where other tenants wait for their slots. Runs until cancelled."""
        while True:
            await asyncio.sleep(SHARE_EVERY)
            try:
                if len(self._running) >= self._slots:
                    await self._share_out(list(self._running), slots=self._slots, recognition=False)
                if self.free_recognition == 0:
                    await self._share_out(self._recognizing, slots=self._recognition or 0, recognition=True)
            except Exception as error:  # noqa: BLE001 - it must go on: without it a tenant may keep its slots for hours
                log.warning("share_failed", lane=self._lane, reason=f"{type(error).__name__}: {error}")

    async def _share_out(self, running: list[RunningJob], *, slots: int, recognition: bool) -> None:
        told_apart = None if self._recognition is None else recognition
        waiting = await self._sweeping.waiting_tenants(self._kinds, recognition=told_apart)
        self._make_room(running, slots=slots, waiting=set(waiting))

    @staticmethod
    def _make_room(running: list[RunningJob], *, slots: int, waiting: set[TenantId]) -> None:
        for job in to_make_room(running, waiting=waiting, slots=slots, now=monotonic()):
            job.make_room()

    async def _fill(self) -> None:
        async with self._filling:
            try:
                while not self._closed and self.free_recognition and len(self._running) < self._slots:
                    if not await self._filled_one():
                        break
            except Exception as error:  # noqa: BLE001 - whatever it is, the sweeper rings for these jobs later
                log.warning("fill_failed", lane=self._lane, reason=f"{type(error).__name__}: {error}")

    async def _filled_one(self) -> bool:
        waiting = await self._sweeping.waiting_tenants(self._kinds, recognition=True)
        for tenant in next_in_turn(waiting, running=self._recognizing, after=self._served):
            self._served = tenant
            rings = await self._sweeping.next_for_recognition(tenant, self._kinds)
            if rings and await self._claim(rings, recognizing=True):
                return True
        return False

    async def close(self) -> None:
        """Claim nothing from now on, and wait for what is being claimed."""
        self._closed = True
        await asyncio.gather(*self._asides, return_exceptions=True)
