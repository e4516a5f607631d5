"""The database's cost of a scrape of /metrics with very many jobs in the table, and the cost of several replicas.

Run: ./daira bench scrape

Fills a database with jobs of which some are queued or claimed. CPU is that of the server process that answered, from
/proc: of one look, and of each scrape where a process is scraped every 15 s. Then replicas are scraped for a while,
each with a cache of its own as its process has it, and their statements are counted.
"""

import argparse
import asyncio
import os
import time
from pathlib import Path

from app.adapters.postgres.engine import administer
from app.adapters.postgres.sweeps import PostgresSweeps
from app.services.backlog_cache import BACKLOG_FRESH, OLDEST, SHARE, BacklogCache
from app.telemetry import Metrics
from app.web.metrics import exposition
from tests.support.counted import Counted
from tests.support.databases import Databases

TICKS = os.sysconf("SC_CLK_TCK")
EVERY = 15.0
"""Seconds between scrapes."""

TENANTS = "insert into daira.tenants (tenant_id) select 't' || n from generate_series(0, 999) n"
ENDED = """
insert into daira.jobs (tenant_id, id, kind, state, finished_at)
select 't' || n % 1000, gen_random_uuid(), 'ocr', 'done', now() from generate_series(1, $1::int) n
"""
LIVE = """
insert into daira.jobs (tenant_id, id, kind, state, run_after, lease_until)
select 't' || n * 7 % 1000, gen_random_uuid(), (array['ocr', 'summarize', 'extract', 'webhook'])[1 + n % 4],
       case when n % 200 = 0 then 'claimed' else 'queued' end,
       now() + case when n % 3 = 0 then interval '1 hour' else interval '-1 minute' end, now() + interval '1 hour'
from generate_series(1, $1::int) n
"""


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--jobs", type=int, default=1_000_000)
    arguments.add_argument("--live", type=int, nargs="+", default=[1_000, 10_000, 50_000])
    arguments.add_argument("--replicas", type=int, default=10)
    arguments.add_argument("--seconds", type=float, default=60)
    options = arguments.parse_args()
    databases = Databases()
    await databases.start()
    try:
        async with databases.clone() as cloned:
            await _fill(cloned.admin_url, TENANTS)
            await _fill(cloned.admin_url, ENDED, options.jobs)
            print(f"{options.jobs:,} ended jobs; milliseconds of the server's CPU, and seconds that a look is kept")
            print(f"{'live jobs':>10} {'a look':>8} {'kept':>6} {'a scrape':>9}")
            engine, live = Counted(cloned.app_url, pool_size=1, name="bench"), 0
            for wanted in options.live:
                await _fill(cloned.admin_url, LIVE, wanted - live)
                live = wanted
                await _look(engine, live=live)
            rate = await _replicas(engine, replicas=options.replicas, seconds=options.seconds)
            print(f"{options.replicas} replicas, each scraped every {EVERY:.0f} s: {rate:.2f} statements a second")
            await engine.close()
    finally:
        databases.close()


async def _fill(admin_url: str, statement: str, *arguments: int) -> None:
    async with administer(admin_url) as admin:
        await admin.execute(statement, *arguments)
        await admin.execute("vacuum analyze")


async def _look(engine: Counted, *, live: int, looks: int = 50) -> None:
    sweeps = PostgresSweeps(engine)
    ((pid,),) = await engine.call("select pg_backend_pid()")
    await sweeps.backlog()
    before, started = _cpu(pid), time.perf_counter()
    for _ in range(looks):
        await sweeps.backlog()
    look, wall = (_cpu(pid) - before) / looks, (time.perf_counter() - started) / looks
    kept = max(BACKLOG_FRESH, min(wall * SHARE, OLDEST))
    # A scrape is answered by the first look that starts after the last one has expired.
    print(f"{live:>10,} {look * 1000:>8.2f} {kept:>6.1f} {look * 1000 * EVERY / max(kept, EVERY):>9.2f}", flush=True)


async def _replicas(engine: Counted, *, replicas: int, seconds: float) -> float:
    async def scraped(number: int) -> None:
        looks = BacklogCache.at(PostgresSweeps(engine))
        await asyncio.sleep(EVERY * number / replicas)
        while time.monotonic() < until:
            await exposition(Metrics(), looks)
            await asyncio.sleep(EVERY)
        await looks.close()

    engine.calls, until = 0, time.monotonic() + seconds
    await asyncio.gather(*(scraped(number) for number in range(replicas)))
    return engine.calls / seconds


def _cpu(pid: int) -> float:
    """Seconds of user and system time that the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


asyncio.run(main())
