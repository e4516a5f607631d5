"""The queue in the database itself: a table of bells, and a notification that wakes waiting callers."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import timedelta

import asyncpg

from app.adapters.postgres.engine import PostgresEngine, listen, ping_listener
from app.domain.doorbells import Ring
from app.domain.errors import Invalid, Unavailable
from app.domain.ids import tenant_id
from app.ports.doorbell import DoorbellDelivery

RING = "select daira.ring($1, $2, $3, $4), pg_notify($5, '')"
ANSWER = "select * from daira.answer($1, $2)"

POLL = timedelta(seconds=5)
"""The time between looks at the table without a notification, in case one was lost."""


SOON = 0.01
"""Seconds of the shortest wait."""

PING_EVERY, PING_TIMEOUT = 10, 3
"""Seconds between pings of the listener's connection, and until one without an answer shows that it is lost."""


class PostgresDoorbell:
    """Queues doorbells in the table `daira.doorbells`.

    Listens on a connection of its own, `listen_url`, because a pooler in transaction mode can't carry LISTEN.
    """

    def __init__(self, engine: PostgresEngine, *, lane: str, listen_url: str, dropped: Callable[[int], object]) -> None:
        """`dropped` is called with the number of rows that were no doorbells.

        Every role with the right to write to the table may add such rows.
        """
        self._dropped = dropped
        self._engine = engine
        self._lane = lane
        self._channel = f"daira_{lane}"
        self._listen_url = listen_url
        self._notified = asyncio.Event()
        self._stopped = False
        self._listener: asyncio.Task[None] | None = None

    async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
        if rings:
            tenants = [ring.tenant_id for ring in rings]
            jobs = [ring.job_id for ring in rings]
            await self._engine.call(RING, self._lane, tenants, jobs, delay, self._channel)

    async def answer(self, *, limit: int, wait: timedelta) -> list[DoorbellDelivery]:
        self._keep_listening()
        deadline = asyncio.get_running_loop().time() + wait.total_seconds()
        while not self._stopped:
            self._notified.clear()
            taken, next_due = await self._take(limit)
            if taken:
                return taken
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return []
            await self._wait(min(left, next_due))
        return []

    async def acknowledge(self, deliveries: Sequence[DoorbellDelivery]) -> None:
        """Do nothing: taking a bell removed it."""

    async def stop_answering(self) -> None:
        self._stopped = True
        self._notified.set()

    async def ping(self) -> None:
        await self._engine.ping()
        # It removes nothing, and a server that takes no writes refuses it as it would refuse a ring.
        await self._engine.call("delete from daira.doorbells where false")

    async def reconnect(self) -> None:
        await self._stop_listening()
        await self._engine.close()

    async def close(self) -> None:
        await self._stop_listening()

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)

    async def _take(self, limit: int) -> tuple[list[DoorbellDelivery], float]:
        """Take bells. Returns them, or the seconds until the next look."""
        rows = await self._engine.call(ANSWER, self._lane, limit)
        if rows[0]["job_id"] is None:
            poll, wait = POLL.total_seconds(), rows[0]["wait"]
            return [], poll if wait is None else min(poll, max(SOON, wait))
        deliveries = []
        for row in rows:
            try:
                deliveries.append(DoorbellDelivery(ring=Ring(tenant_id(row["tenant_id"]), row["job_id"])))
            except Invalid:
                self._dropped(1)
        return deliveries, SOON

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._notified.wait()

    def _keep_listening(self) -> None:
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen(), name=f"listen {self._lane}")

    async def _listen(self) -> None:
        """Wake waiting callers at each notification.

        Without a connection only the poll is left; each loss costs one look.
        """
        pause = 0.1
        while True:
            with contextlib.suppress(Unavailable):
                connection = await listen(self._listen_url, self._channel, self._notified)
                pause = 0.1
                try:
                    # A bell rung before the connection was made sent no notification to it.
                    self._notified.set()
                    await _until_lost(connection)
                finally:
                    connection.terminate()
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5)


async def _until_lost(connection: asyncpg.Connection) -> None:
    """Wait until the connection is closed. A half-open one gives no sign itself: raises Unavailable at a lost ping."""
    closed = asyncio.Event()
    connection.add_termination_listener(lambda *_: closed.set())
    while not closed.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PING_EVERY):
                await closed.wait()
        if not closed.is_set():
            await ping_listener(connection, seconds=PING_TIMEOUT)
