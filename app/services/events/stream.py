"""One stream of events: first the changes that its reader has missed, or else all current jobs; then new changes.

A stream survives an outage of the database. It ends when the service stops or its reader loses access. A stream of one
job also ends when the job has ended or is gone.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TypeVar

from app.domain.changes import (
    ChangeEvent,
    ChangePage,
    ChangeWindow,
    Position,
    PositionEvent,
    ProgressEvent,
    StateEvent,
    StatePage,
)
from app.domain.errors import Unavailable
from app.domain.ids import JobId, TenantId
from app.domain.jobs import Job
from app.ports.database import Database, Tx
from app.services.events.follower import ReceivedChanges, Subscription, first_done
from app.services.events.watcher import PAGE

T = TypeVar("T")

ASK_AGAIN = 30.0
"""Seconds between checks that the reader may still read."""

AWAY = 1.0
"""Seconds between tries to read while the database is away."""

AccessCheck = Callable[[], Awaitable[bool]]


@dataclass(slots=True, kw_only=True)
class EventStream:
    database: Database
    tenant_id: TenantId
    job_id: JobId | None
    since: Position | None
    follower: Subscription
    stopping: asyncio.Event
    may_go_on: AccessCheck
    _asked_at: float = field(default_factory=monotonic)
    _over: bool = False

    async def events(self) -> AsyncIterator[ChangeEvent]:
        try:
            async for event in self._until_over():
                yield event
        except Unavailable:  # only while the service stops: until then the database is waited for
            return

    async def _until_over(self) -> AsyncIterator[ChangeEvent]:
        upto = await self.follower.ready(at_most=0, stopping=self.stopping)
        assert upto is not None
        async for event in self._catch_up(self.since, upto):
            yield event
        while not self._over and not self.stopping.is_set():
            changes = await self.follower.listen(at_most=self._until_asked, stopping=self.stopping)
            if not await self._may_still_read():
                return
            if changes is not None:
                async for event in self._of(changes):
                    yield event

    async def _of(self, changes: ReceivedChanges) -> AsyncIterator[ChangeEvent]:
        if changes.missed or changes.since is None:
            async for event in self._catch_up(changes.since, changes.upto):
                yield event
        elif changes.jobs:
            async for event in self._batch(_each(changes.jobs), upto=changes.upto):
                yield event
        if changes.look and not self._over:
            async for event in self._batch(self._ended_unseen(), upto=changes.upto):
                yield event
        for job_id, progress in changes.progress.items():
            yield ProgressEvent(job_id=job_id, progress=progress)

    async def _catch_up(self, since: Position | None, upto: Position) -> AsyncIterator[ChangeEvent]:
        """Yield the changes since the position or, without one, all current jobs; read page by page."""
        jobs = self._standing(upto) if since is None else self._missed(ChangeWindow(since=since, upto=upto))
        async for event in self._batch(jobs, upto=upto):
            yield event

    async def _batch(self, jobs: AsyncIterator[Job], *, upto: Position) -> AsyncIterator[ChangeEvent]:
        """Yield the jobs as events. The last one carries the position; without jobs a `PositionEvent` does."""
        last: Job | None = None
        async for job in jobs:
            if last is not None:
                yield StateEvent(job=last)
            last = job
        if last is None:
            yield PositionEvent(position=upto)
            return
        self._over = self.job_id is not None and last.state.terminal
        yield StateEvent(job=last, position=upto)

    async def _missed(self, window: ChangeWindow) -> AsyncIterator[Job]:
        rest: ChangeWindow | None = window
        while rest is not None:
            news = await self._read(partial(_within, window=rest, of=self._ids))
            for job in news.jobs if news else ():
                yield job
            rest = news.rest if news else None

    async def _standing(self, upto: Position) -> AsyncIterator[Job]:
        page = await self._read(partial(_standing, upto=upto, of=self._ids))
        while True:
            for job in page.jobs:
                yield job
            if page.rest is None:
                return
            page = await self._read(partial(_standing, upto=upto, of=self._ids, after=page.rest))

    async def _ended_unseen(self) -> AsyncIterator[Job]:
        """Yield the job that has ended without a reported change, unless it is gone."""
        assert self.job_id is not None
        job = await self._read(partial(_job, job_id=self.job_id))
        self._over = True
        if job is not None:
            yield job

    async def _read(self, read: Callable[[Tx], Awaitable[T]]) -> T:
        """Read in its own transaction, once the database answers. Raises Unavailable if the service stops first."""
        while True:
            try:
                async with self.database.begin(self.tenant_id) as tx:
                    return await read(tx)
            except Unavailable:
                await first_done(self.stopping.wait(), at_most=AWAY)
                if self.stopping.is_set():
                    raise

    async def _may_still_read(self) -> bool:
        if self._until_asked > 0:
            return True
        try:
            may = await self.may_go_on()
        except Unavailable:
            return True
        self._asked_at = monotonic()
        return may

    @property
    def _until_asked(self) -> float:
        return self._asked_at + ASK_AGAIN - monotonic()

    @property
    def _ids(self) -> Sequence[JobId] | None:
        return None if self.job_id is None else [self.job_id]


async def _each(jobs: Sequence[Job]) -> AsyncIterator[Job]:
    for job in jobs:
        yield job


async def _within(tx: Tx, *, window: ChangeWindow, of: Sequence[JobId] | None) -> ChangePage | None:
    return await tx.changes.within(window, of=of, limit=PAGE)


async def _standing(tx: Tx, *, upto: Position, of: Sequence[JobId] | None, after: JobId | None = None) -> StatePage:
    return await tx.changes.standing(upto=upto, of=of, after=after, limit=PAGE)


async def _job(tx: Tx, *, job_id: JobId) -> Job | None:
    return await tx.jobs.get(job_id)
