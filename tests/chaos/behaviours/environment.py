"""One test's own database and queue, worker processes on them, jobs with a script, and the log of what was executed."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from app.adapters.postgres.doorbell import PostgresDoorbell
from app.adapters.postgres.engine import PostgresEngine, administer
from app.domain.ids import TenantId
from app.domain.jobs import Job, JobState
from app.domain.tenants import Allowance
from app.ports.doorbell import Doorbell
from app.services.tenants import TenantService
from tests.chaos.behaviours.processes import STARTING, Worker, eventually, spawn, work
from tests.support.databases import Cloned, Databases
from tests.support.folders import open_folder
from tests.support.forked import ready_to_fork
from tests.support.postgres_rig import postgres_rig
from tests.support.rig import Rig, ring_of
from tests.support.service import environment

LEASE, BEAT, SWEEP, GRACE = 10, 10 / 3, 2, 20
"""Seconds: the rig of the table of behaviours."""

ACME = TenantId("acme")
NO_SETTINGS: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A line of the log of executions. Times are monotonic, and those of one machine compare."""

    job: str
    tenant: str
    attempt: int
    pid: int
    event: str
    at: float


@dataclass(frozen=True, kw_only=True)
class Environment:
    cloned: Cloned
    folder: Path
    rig: Rig
    doorbell: Doorbell
    settings: dict[str, str]
    workers: list[Worker] = field(default_factory=list)

    async def work(self, count: int = 1, *, preload: str = "", **settings: str) -> list[Worker]:
        """Start workers and wait until they are ready; `preload` is a library between them and the system."""
        workers = [self.start(preload=preload, **settings) for _ in range(count)]
        for worker in workers:
            await eventually(partial(_is_there, worker), within=STARTING)
        return workers

    def start(self, *, preload: str = "", **settings: str) -> Worker:
        file = self.folder / f"worker-{len(self.workers)}.log"
        env = environment(**self.settings | settings)
        running = spawn(env | {"LD_PRELOAD": preload}, file) if preload else work(env, file)
        self.workers.append(Worker(running=running, file=file))
        return self.workers[-1]

    def worker(self, mark: Mark) -> Worker:
        """Whose execution that is."""
        return next(each for each in self.workers if each.pid == mark.pid)

    async def submit(self, *, ring: bool = True, **fields: Any) -> Job:
        """A job of acme's with its bell, as a request leaves it: `payload` is the handler's script."""
        job = await self.rig.enqueue(ACME, **fields)
        if ring:
            await self.doorbell.ring([ring_of(job)])
        return job

    def marks(self, job: Job | None = None, event: str = "start") -> list[Mark]:
        """In the order of time."""
        lines = [line for file in self.folder.glob("*.jsonl") for line in file.read_text().splitlines()]
        marks = [Mark(**json.loads(line)) for line in lines]
        wanted = [mark for mark in marks if mark.event == event and (job is None or mark.job == str(job.id))]
        return sorted(wanted, key=lambda mark: mark.at)

    async def mark(self, job: Job, event: str = "start", *, attempt: int = 1, within: float = STARTING) -> Mark:
        """Once it is there."""
        marks: list[Mark] = await eventually(
            lambda: [mark for mark in self.marks(job, event) if mark.attempt == attempt], within=within
        )
        return marks[0]

    async def ended(self, job: Job, *, within: float) -> Job:
        async def look() -> Job | None:
            now = await self.rig.again(job)
            return now if now.state.terminal else None

        ended: Job = await eventually(look, within=within)
        return ended

    async def done(self, job: Job, *, within: float) -> Job:
        ended = await self.ended(job, within=within)
        assert ended.state is JobState.DONE, ended
        return ended

    async def history(self, job: Job) -> list[str]:
        return [str(attempt.outcome) for attempt in await self.rig.attempts(job)]

    async def fetch(self, query: str, *arguments: object) -> Any:
        """One value, by an administrator: the truth behind every wall."""
        async with administer(self.cloned.admin_url) as admin:
            return await admin.fetchval(query, *arguments)

    async def key(self) -> str:
        allowance = Allowance(max_running=None, max_queued=1_000, max_upload_bytes=1 << 30, requests_per_minute=100_000)
        tenants = TenantService(database=self.rig.database, sweeps=self.rig.sweeps, allowance=allowance)
        return await tenants.issue_key(ACME, name="a key")


@asynccontextmanager
async def open_environment(
    where: Databases | Cloned, settings: Mapping[str, str] = NO_SETTINGS, *, doorbell: Doorbell | None = None
) -> AsyncIterator[Environment]:
    """On a database of its own, unless one is given; all its processes end with it."""
    await asyncio.to_thread(ready_to_fork)
    async with AsyncExitStack() as stack:
        cloned = where if isinstance(where, Cloned) else await stack.enter_async_context(where.clone())
        folder = stack.enter_context(open_folder())
        engine = PostgresEngine(cloned.app_url, pool_size=4, name="behaviours")
        stack.push_async_callback(engine.close)
        if doorbell is None:
            doorbell = PostgresDoorbell(engine, lane="ocr", listen_url=cloned.app_url, dropped=lambda _: None)
        environment = Environment(
            cloned=cloned,
            folder=folder,
            rig=postgres_rig(cloned, engine),
            doorbell=doorbell,
            settings=_rig(cloned, folder) | dict(settings),
        )
        stack.push_async_callback(_clear, environment.workers)
        await environment.rig.tenant(ACME)
        yield environment


def _rig(cloned: Cloned, folder: Path) -> dict[str, str]:
    return {
        "EXECUTIONS": str(folder),
        "DAIRA_ROLE": "worker",
        "DAIRA_DATABASE_URL": cloned.app_url,
        "DAIRA_BLOB_URL": "memory://",
        "DAIRA_OCR": "null",
        "DAIRA_PORT": "0",
        "DAIRA_LANES": "ocr=4",
        "DAIRA_LEASE_SECONDS": str(LEASE),
        "DAIRA_SWEEP_SECONDS": str(SWEEP),
        "DAIRA_GRACE_SECONDS": str(GRACE),
        "DAIRA_LOG_LEVEL": "info",
    }


def _is_there(worker: Worker) -> bool:
    return not worker.starts()


async def _clear(workers: Sequence[Worker]) -> None:
    """Whatever state the test has left them in."""
    for worker in workers:
        worker.send(signal.SIGKILL)
    for worker in workers:
        await worker.ended(within=30)
