"""Polls the database for job changes, once for all streams and long polls of a tenant.

A tenant without followers is not polled. A connection is held only while a query runs.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import structlog

from app.domain.changes import ChangeWindow, Position
from app.domain.errors import Unavailable
from app.domain.ids import JobId, TenantId
from app.domain.jobs import Job, Progress
from app.ports.database import Database
from app.ports.jobs import Changes
from app.services.events.follower import Subscription

log = structlog.get_logger()

SHORTEST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
"""Seconds between polls: the shortest after a change and for a new follower, growing while nothing happens."""

SLOWER_BY = 1.5

PROGRESS_EVERY = 1.0
"""Seconds; a worker's heartbeat reports it no more often."""

CHECK_EVERY = 5.0
"""Seconds between checks of the followed jobs themselves, which find what no change reports, such as a deletion."""

QUERIES_AT_ONCE = 2
"""Concurrent polls of all tenants together; the rest of the connection pool is left to requests."""

PAGE = 100


class ChangePollers:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._watchers: dict[TenantId, ChangePoller] = {}
        self._looks = asyncio.Semaphore(QUERIES_AT_ONCE)

    @asynccontextmanager
    async def follow(
        self, tenant_id: TenantId, job_id: JobId | None = None, *, progress: bool = False
    ) -> AsyncIterator[Subscription]:
        """Open a follower. Changes are reported to it from when it is `ready` until the context is left."""
        follower = Subscription(job_id, progress=progress)
        watcher = self._watchers.get(tenant_id)
        if watcher is None:
            watcher = ChangePoller(self._database, tenant_id, looks=self._looks, over=self._over)
            self._watchers[tenant_id] = watcher
            watcher.start()
        watcher.add(follower)
        try:
            yield follower
        finally:
            watcher.remove(follower)

    def hurry(self, tenant_id: TenantId) -> None:
        """Poll this tenant at once, because this process has just changed one of its jobs."""
        if watcher := self._watchers.get(tenant_id):
            watcher.hurry()

    async def close(self) -> None:
        for watcher in list(self._watchers.values()):
            await watcher.stop()

    def _over(self, watcher: "ChangePoller") -> None:
        del self._watchers[watcher.tenant_id]


class ChangePoller:
    def __init__(
        self,
        database: Database,
        tenant_id: TenantId,
        *,
        looks: asyncio.Semaphore,
        over: "Callable[[ChangePoller], None]",
    ) -> None:
        self.tenant_id = tenant_id
        self._database = database
        self._looks = looks
        self._over = over
        self._joining: set[Subscription] = set()
        self._followers: set[Subscription] = set()
        self._position: Position | None = None
        self._progress: Mapping[JobId, Progress] = {}
        self._progress_at = 0.0
        self._checked_at = time.monotonic()
        self._pause = SHORTEST_PAUSE
        self._hurry = asyncio.Event()
        self._away = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch(), name=f"watcher of {self.tenant_id}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def add(self, follower: Subscription) -> None:
        self._joining.add(follower)
        self.hurry()

    def remove(self, follower: Subscription) -> None:
        self._joining.discard(follower)
        self._followers.discard(follower)
        if not self._is_followed():
            self._hurry.set()

    def hurry(self) -> None:
        self._pause = SHORTEST_PAUSE
        self._hurry.set()

    def _is_followed(self) -> bool:
        return bool(self._joining or self._followers)

    async def _watch(self) -> None:
        # A follower that comes during the last poll keeps the loop going.
        try:
            while self._is_followed():
                looked_at = time.monotonic()
                await self._try_to_look()
                await self._wait()
                # However often it is hurried: many followers or changes at once cause one poll.
                await asyncio.sleep(max(0, looked_at + SHORTEST_PAUSE - time.monotonic()) if self._is_followed() else 0)
        finally:
            self._over(self)

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause):
                await self._hurry.wait()
        self._hurry.clear()

    async def _try_to_look(self) -> None:
        joining = set(self._joining)
        try:
            async with self._looks, self._database.begin(self.tenant_id) as tx:
                await self._look(tx.changes, joining)
        except Exception as error:  # noqa: BLE001 - streams stay open, and go on once the database answers
            self._failed(error, joining)
        else:
            self._away = False

    def _failed(self, error: Exception, joining: set[Subscription]) -> None:
        self._pause = LONGEST_PAUSE
        for follower in joining:
            self._joining.discard(follower)
            follower.refuse(error)
        if not self._away:
            self._away = True
            log.warning("watcher_waits", reason=str(error), exc_info=None if isinstance(error, Unavailable) else error)

    async def _look(self, changes: Changes, joining: set[Subscription]) -> None:
        news = await self._look_for_news(changes)
        position = self._position or self._begin_anew(await changes.now())
        await self._look_at_progress(changes)
        await self._look_at_jobs(changes)
        for follower in joining & self._joining:
            follower.join(position)
            self._joining.discard(follower)
            self._followers.add(follower)
        self._pause = SHORTEST_PAUSE if news or joining else min(self._pause * SLOWER_BY, LONGEST_PAUSE)

    async def _look_for_news(self, changes: Changes) -> bool:
        window = ChangeWindow(since=self._position) if self._position is not None else None
        of, found = _jobs_of(self._followers), False
        while window is not None:
            news = await changes.within(window, of=of, limit=PAGE)
            if news is None:
                # Another server has taken over and is behind this position.
                self._position = None
                break
            found = found or bool(news.jobs)
            self._tell(news.jobs)
            window, self._position = news.rest, self._position if news.rest else news.upto
        if self._position is not None:
            for follower in self._followers:
                follower.reach(self._position)
        return found

    def _begin_anew(self, position: Position) -> Position:
        self._position = position
        for follower in self._followers:
            follower.begin_anew(position)
        return position

    async def _look_at_progress(self, changes: Changes) -> None:
        wanting = [follower for follower in self._followers if follower.wants_progress]
        if not wanting or time.monotonic() - self._progress_at < PROGRESS_EVERY:
            return
        reached = await changes.running(of=_jobs_of(wanting))
        self._progress_at = time.monotonic()
        new = {job_id: progress for job_id, progress in reached.items() if progress != self._progress.get(job_id)}
        self._progress = reached
        for follower in wanting:
            follower.tell_progress(new)

    async def _look_at_jobs(self, changes: Changes) -> None:
        of_one = [follower for follower in self._followers if follower.job_id is not None]
        if not of_one or time.monotonic() - self._checked_at < CHECK_EVERY:
            return
        states = await changes.states({follower.job_id for follower in of_one if follower.job_id is not None})
        self._checked_at = time.monotonic()
        for follower in of_one:
            state = states.get(follower.job_id) if follower.job_id is not None else None
            if state is None or state.terminal:
                follower.look()

    def _tell(self, jobs: Sequence[Job]) -> None:
        for follower in self._followers:
            follower.tell(jobs)


def _jobs_of(followers: Iterable[Subscription]) -> set[JobId] | None:
    """Return the ids of the followed jobs; None for all of the tenant."""
    ids = {follower.job_id for follower in followers}
    return None if None in ids else {job_id for job_id in ids if job_id is not None}
