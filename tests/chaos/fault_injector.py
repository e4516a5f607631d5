"""What does harm: a schedule drawn from the seed, and each way of harming workers, the database and the queue."""

import asyncio
import random
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from app.adapters.postgres.engine import administer
from app.domain.doorbells import Ring
from app.domain.ids import JobId, tenant_id
from tests.chaos.arrivals import insist
from tests.chaos.chronicle import Chronicle
from tests.chaos.clocks import Clocks
from tests.chaos.cluster import ring_all
from tests.chaos.queues import Queue
from tests.chaos.servers import OwnServer
from tests.chaos.supervisor import Supervisor

LIVE = "select tenant_id, id from daira.jobs where state in ('queued', 'claimed')"
SOME_OF_ALL = "select tenant_id, id from daira.jobs tablesample system (10) limit 200"


@dataclass(frozen=True, kw_only=True)
class FaultInjector:
    server: OwnServer
    supervisor: Supervisor
    queue: Queue
    chronicle: Chronicle
    clocks: Clocks | None
    lease: float
    database: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One harm to the database at a time."""
    away: asyncio.Lock = field(default_factory=asyncio.Lock)
    """The queue's server, while it is stopped: then it can't be wiped."""

    async def run(self, times: Mapping[str, int], *, seed: int, seconds: float) -> None:
        """Each of these harms so many times, spread over that time; returns when the last one is over."""
        started = time.monotonic()
        async with asyncio.TaskGroup() as harming:
            for at, name, number in schedule(times, seed=seed, seconds=seconds):
                await asyncio.sleep(max(0, started + at - time.monotonic()))
                harm: Callable[[random.Random], Coroutine[None, None, None]] = getattr(self, name)
                harming.create_task(harm(random.Random(f"{name} {number} {seed}")))  # noqa: S311 - repeatable

    async def kill(self, dice: random.Random) -> None:
        await self.supervisor.kill(await self.supervisor.pick(dice))

    async def stall(self, dice: random.Random) -> None:
        await self.supervisor.stall(await self.supervisor.pick(dice), seconds=self.lease * dice.uniform(1.3, 1.8) + 1)

    async def suspend(self, dice: random.Random) -> None:
        # Its jobs are claimed again when the lease and a sweep are over: it shall come back while they run.
        process = await self.supervisor.pick(dice, at_least=3)
        await self.supervisor.suspend(process, seconds=self.lease * dice.uniform(1.1, 1.6))

    async def drain(self, dice: random.Random) -> None:
        if status := await self.supervisor.drain(await self.supervisor.pick(dice)):
            self.chronicle.amiss.append(f"a worker that was told to stop exited with {status}")

    async def restart(self, _dice: random.Random) -> None:
        async with self.database:
            with self.chronicle.harm("database restarts"):
                await self.server.restart(signal.SIGINT)

    async def crash(self, _dice: random.Random) -> None:
        async with self.database:
            with self.chronicle.harm("database crashes"):
                await self.server.restart(signal.SIGKILL)

    async def freeze(self, dice: random.Random) -> None:
        async with self.database:
            with self.chronicle.harm("database frozen beyond a lease"):
                async with self.server.frozen():
                    await asyncio.sleep(self.lease * dice.uniform(1.1, 1.5))

    async def refuse(self, dice: random.Random) -> None:
        async with self.database:
            with self.chronicle.harm("database cut off beyond a lease"):
                async with self.server.refusing():
                    await asyncio.sleep(self.lease * dice.uniform(1.1, 1.5))

    async def wipe(self, _dice: random.Random) -> None:
        async with self.away:
            await insist(self.queue.wipe)
        self.chronicle.counts["queue wipes"] += 1

    async def double(self, dice: random.Random) -> None:
        rings = await self._rings(LIVE)
        await insist(lambda: ring_all(self.queue.doorbell, rings, times=dice.choice([1, 2, 3])))
        self.chronicle.counts["bells doubled"] += len(rings)

    async def delay(self, dice: random.Random) -> None:
        """Bells are taken away, whatever comes within a second, and rung some time later."""
        taken: list[Ring] = []
        until = time.monotonic() + 1
        while time.monotonic() < until:
            deliveries = await insist(lambda: self.queue.doorbell.answer(limit=100, wait=timedelta(seconds=0.2)))
            await insist(lambda: self.queue.doorbell.acknowledge(deliveries))  # noqa: B023 - awaited right here
            taken += [delivery.ring for delivery in deliveries]
        await asyncio.sleep(self.lease * dice.uniform(0.5, 2))
        await insist(lambda: ring_all(self.queue.doorbell, taken))
        self.chronicle.counts["bells delayed"] += len(taken)

    async def forge(self, dice: random.Random) -> None:
        """Jobs under another tenant's name, of tenants there are and aren't, jobs there are not, and ended ones."""
        genuine = await self._rings(SOME_OF_ALL)
        tenants = [*{ring.tenant_id for ring in genuine}, tenant_id("nobody")]
        forged = [Ring(dice.choice(tenants), ring.job_id) for ring in genuine]
        forged += [Ring(dice.choice(tenants), JobId(UUID(int=dice.getrandbits(128), version=4))) for _ in range(50)]
        await insist(lambda: ring_all(self.queue.doorbell, [*forged, *genuine]))
        self.chronicle.counts["bells forged"] += len(forged)

    async def halt(self, dice: random.Random) -> None:
        async with self.away:
            await self.queue.stop()
            await asyncio.sleep(self.lease * dice.uniform(0.5, 1.5))
            await self.queue.start()
        self.chronicle.counts["queue restarts"] += 1

    async def step(self, _dice: random.Random) -> None:
        assert self.clocks is not None
        self.clocks.step()
        self.chronicle.counts["clocks stepped"] += 1

    async def _rings(self, query: str) -> list[Ring]:
        async def read() -> list[Ring]:
            async with administer(self.server.cloned.admin_url) as admin:
                return [Ring(tenant_id(row["tenant_id"]), JobId(row["id"])) for row in await admin.fetch(query)]

        return await insist(read)


def schedule(times: Mapping[str, int], *, seed: int, seconds: float) -> list[tuple[float, str, int]]:
    """When, what, and the how manieth of its kind. Each kind is spread evenly, and moved a little by chance."""
    dice = random.Random(f"harm {seed}")  # noqa: S311 - repeatable is what it must be
    drawn = []
    for name, count in times.items():
        gap = seconds / max(count, 1)
        drawn += [(gap * (number + dice.random()), name, number) for number in range(count)]
    return sorted(drawn)
