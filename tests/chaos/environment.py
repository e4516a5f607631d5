"""The environment of a soak test: a server, a queue, supervised workers, and the jobs that arrive."""

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from app.adapters.postgres.database import PostgresDatabase
from app.adapters.postgres.engine import PostgresEngine, administer
from app.embedded.server import EmbeddedPostgres
from tests.chaos import load
from tests.chaos.arrivals import Arrivals
from tests.chaos.chronicle import Chronicle
from tests.chaos.clocks import Clocks
from tests.chaos.forms import Form
from tests.chaos.queues import QUEUES, Queue, main_queue
from tests.chaos.servers import OwnServer
from tests.chaos.supervisor import Supervisor, supervisor
from tests.support.folders import open_folder
from tests.support.service import environment, using, wait_until

SOAK_QUEUES = {**QUEUES, "postgres": main_queue}
REGISTER = "insert into daira.tenants (tenant_id) select 'tenant-' || n from generate_series(0, $1 - 1) n"


@dataclass(frozen=True, kw_only=True)
class SoakEnvironment:
    server: OwnServer
    queue: Queue
    supervisor: Supervisor
    arrivals: Arrivals
    clocks: Clocks | None
    chronicle: Chronicle
    executions: Path


@asynccontextmanager
async def soak_environment(form: Form, *, seed: int, adapter: str) -> AsyncIterator[SoakEnvironment]:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(open_folder())
        executions = folder / "executions"
        executions.mkdir()
        server = await stack.enter_async_context(_server(folder / "pg"))
        async with administer(server.cloned.admin_url) as admin:
            await admin.execute(REGISTER, form.tenants)
        queue = await stack.enter_async_context(SOAK_QUEUES[adapter](server.cloned))
        engine = PostgresEngine(server.cloned.app_url, pool_size=6, name="arrivals")
        stack.push_async_callback(engine.close)
        dice = random.Random(f"clocks {seed}")  # noqa: S311 - repeatable is what it must be
        clocks = Clocks(folder, dice) if form.wrong_clocks else None
        chronicle = Chronicle()
        env = _environment(form, server=server, queue=queue)
        arrivals = Arrivals(plan=_plan(form, seed=seed), database=PostgresDatabase(engine), doorbell=queue.doorbell)
        workers = await stack.enter_async_context(
            supervisor(
                [env, {**env, **clocks.wrong()}] if clocks else [env],
                size=form.workers,
                executions=executions,
                chronicle=chronicle,
                dice=dice,
            )
        )
        yield SoakEnvironment(
            server=server,
            queue=queue,
            supervisor=workers,
            arrivals=arrivals,
            clocks=clocks,
            chronicle=chronicle,
            executions=executions,
        )


@asynccontextmanager
async def _server(folder: Path) -> AsyncIterator[OwnServer]:
    postgres = EmbeddedPostgres(folder, grace=timedelta(seconds=0))
    server = OwnServer(postgres)
    try:
        await server.start()
        await server.prepare()
        yield server
    finally:
        postgres.close()
        wait_until(lambda: not using(folder), seconds=30)


def _environment(form: Form, *, server: OwnServer, queue: Queue) -> dict[str, str]:
    return environment(
        DAIRA_DATABASE_URL=server.cloned.app_url,
        DAIRA_QUEUE_URL=queue.url,
        DAIRA_BLOB_URL="memory://",
        DAIRA_ROLE="worker",
        DAIRA_OCR="null",
        DAIRA_LANES=f"ocr={form.slots}",
        DAIRA_POOL_SIZE="4",
        DAIRA_LEASE_SECONDS=str(form.lease),
        DAIRA_SWEEP_SECONDS=str(form.sweep),
        DAIRA_GRACE_SECONDS=str(form.grace),
        **queue.settings,
    )


def _plan(form: Form, *, seed: int) -> list[load.Planned]:
    return load.plan(
        seed=seed,
        jobs=form.jobs,
        tenants=form.tenants,
        seconds=form.seconds,
        mix=form.mix,
        blocking=form.blocking,
        deadly=form.deadly,
        lease=form.lease,
    )
