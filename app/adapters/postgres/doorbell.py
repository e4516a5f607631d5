"""The queue in the database itself: a table of bells, and a notification to wake who waits for them."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import timedelta

import asyncpg

from app.adapters.postgres.engine import Engine, listen, reachable
from app.domain.doorbells import Ring
from app.domain.errors import Invalid, Unavailable
from app.domain.ids import tenant_id
from app.ports.doorbell import Delivery

# One bell for a job is enough, and the sooner one counts. Sorted, or concurrent batches deadlock.
RING = """
with rung as (
    insert into daira.doorbells (lane, tenant_id, job_id, due_at)
    select $1, u.t, u.j, now() + $4 from unnest($2::text[], $3::uuid[]) as u(t, j) group by u.t, u.j order by u.t, u.j
    on conflict (lane, tenant_id, job_id) do update set due_at = least(doorbells.due_at, excluded.due_at)
)
select pg_notify($5, '')
"""

# Taken is gone: each bell wakes one worker, and a worker that dies with it costs one sweep.
TAKE = """
delete from daira.doorbells d using (
    select x.tenant_id, x.job_id from daira.doorbells x
    where x.lane = $1 and x.due_at <= now() order by x.due_at limit $2 for update skip locked
) t
where d.lane = $1 and d.tenant_id = t.tenant_id and d.job_id = t.job_id
returning d.tenant_id, d.job_id
"""

NEXT_DUE = "select extract(epoch from min(due_at) - now())::float8 as wait from daira.doorbells where lane = $1"

POLL = timedelta(seconds=5)
"""Between looks at the table without a notification: the backstop for one that was lost."""


PING_EVERY, PING_TIMEOUT = 10, 3
"""Seconds: how soon the listener notices that nobody speaks to it any more."""


class PostgresDoorbell:
    """Listens on a connection of its own, `listen_url`: a pooler in transaction mode can't carry LISTEN."""

    def __init__(self, engine: Engine, *, lane: str, listen_url: str, dropped: Callable[[int], object]) -> None:
        """`dropped` is told how many rows were no doorbells: the table is open to whoever may write to it."""
        self._dropped = dropped
        self._engine = engine
        self._lane = lane
        self._channel = f"daira_{lane}"
        self._listen_url = listen_url
        self._heard = asyncio.Event()
        self._quiet = False
        self._listener: asyncio.Task[None] | None = None

    async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
        if rings:
            tenants = [ring.tenant_id for ring in rings]
            jobs = [ring.job_id for ring in rings]
            await self._engine.call(RING, self._lane, tenants, jobs, delay, self._channel)

    async def answer(self, *, limit: int, wait: timedelta) -> list[Delivery]:
        self._keep_listening()
        deadline = asyncio.get_running_loop().time() + wait.total_seconds()
        while not self._quiet:
            self._heard.clear()
            if taken := await self._take(limit):
                return taken
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return []
            await self._wait(min(left, await self._next_due()))
        return []

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Nothing to do: taking a bell removed it."""

    async def stop_answering(self) -> None:
        self._quiet = True
        self._heard.set()

    async def ping(self) -> None:
        await self._engine.call("select from daira.doorbells limit 0")

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)

    async def _take(self, limit: int) -> list[Delivery]:
        deliveries = []
        for row in await self._engine.call(TAKE, self._lane, limit):
            try:
                deliveries.append(Delivery(ring=Ring(tenant_id(row["tenant_id"]), row["job_id"])))
            except Invalid:
                self._dropped(1)
        return deliveries

    async def _next_due(self) -> float:
        (row,) = await self._engine.call(NEXT_DUE, self._lane)
        poll = POLL.total_seconds()
        return poll if row["wait"] is None else min(poll, max(0.01, row["wait"]))

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._heard.wait()

    def _keep_listening(self) -> None:
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen(), name=f"listen {self._lane}")

    async def _listen(self) -> None:
        """Wakes the waiting; without a connection the poll is left, and each loss is one look at the table."""
        pause = 0.1
        while True:
            with contextlib.suppress(Unavailable):
                connection = await listen(self._listen_url, self._channel, self._heard)
                pause = 0.1
                try:
                    # A bell rung before the connection was there made no sound.
                    self._heard.set()
                    await _until_lost(connection)
                finally:
                    connection.terminate()
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5)


async def _until_lost(connection: asyncpg.Connection) -> None:
    """Until the connection is closed. A half-open one says nothing by itself: raises Unavailable at a lost ping."""
    closed = asyncio.Event()
    connection.add_termination_listener(lambda *_: closed.set())
    while not closed.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PING_EVERY):
                await closed.wait()
        if not closed.is_set():
            with reachable():
                await connection.execute("select 1", timeout=PING_TIMEOUT)
