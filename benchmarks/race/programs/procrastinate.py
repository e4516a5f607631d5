"""procrastinate over psycopg 3, with its own schema; it claims and finishes one job at a time."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvloop
from procrastinate import App, PsycopgConnector
from typing_extensions import override

from benchmarks.race.program import About, Adder, Program, Setting, Started, answer


class Procrastinate(Program):
    about = About(
        name="procrastinate",
        packages=["procrastinate", "psycopg", "psycopg-pool", "psycopg-binary", "uvloop"],
        settings=[
            {"label": f"concurrency {concurrency}, pool of {pool}", "concurrency": concurrency, "pool": pool}
            for concurrency, pool in ((20, 10), (5, 6), (100, 20))
        ],
        settled="select count(*) from procrastinate_jobs where status = 'succeeded'",
        forget="truncate procrastinate_jobs, procrastinate_events, procrastinate_periodic_defers",
        bury="""
            insert into procrastinate_jobs (queue_name, task_name, args, scheduled_at)
            select 'default', 'nothing', jsonb_build_object('number', n), now() + interval '1 day'
            from generate_series(1, $1::int) n
        """,
        bulk="Task.batch_defer_async of 1,000",
        notes=[
            "installed by SchemaManager.apply_schema_async; App.run_worker_async with the concurrency and pool said,",
            "everything else as by default; psycopg's C implementation, uvloop;",
            "a job is settled when its row has succeeded",
        ],
    )

    @override
    async def install(self, dsn: str) -> None:
        async with _app(dsn, pool=1).open_async() as app:
            await app.schema_manager.apply_schema_async()

    @override
    async def work(self, dsn: str, setting: Setting, started: Started) -> None:
        async with _app(dsn, pool=setting["pool"], started=started).open_async() as app:
            await app.run_worker_async(concurrency=setting["concurrency"], install_signal_handlers=False)

    @override
    @asynccontextmanager
    async def open_adder(self, dsn: str, *, connections: int) -> AsyncIterator[Adder]:
        async with _app(dsn, pool=connections).open_async() as app:
            yield ProcrastinateAdder(app.tasks["nothing"])


@dataclass(frozen=True)
class ProcrastinateAdder(Adder):
    task: Any

    @override
    async def add(self, number: int, *, connection: int) -> None:
        await self.task.defer_async(number=number)

    @override
    async def add_many(self, numbers: Sequence[int]) -> None:
        await self.task.batch_defer_async(*({"number": number} for number in numbers))


def _app(dsn: str, *, pool: int, started: Started | None = None) -> App:
    app = App(connector=PsycopgConnector(conninfo=dsn, min_size=pool, max_size=pool))

    async def nothing(number: int) -> None:
        assert started is not None
        started(number)

    app.task(name="nothing")(nothing)
    return app


if __name__ == "__main__":
    answer(Procrastinate(), uvloop.run)
