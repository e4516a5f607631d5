"""The cost of a sweep with very many tenants: server CPU and round trips, by the scout and in full.

Run: ./daira bench sweep_cost

Fills a database with tenants of which some have a due job, then makes the two passes as the worker makes them, and for
comparison the textbook one: a clamped query for each tenant. CPU is that of the server process that answered, from
/proc; round trips are calls, each one statement and one commit.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from app.adapters.memory.doorbell import MemoryDoorbell
from app.adapters.postgres.engine import administer
from app.adapters.postgres.sweeps import PostgresSweeps
from app.domain.doorbells import Lane
from app.domain.ids import TenantId
from app.ports.leases import Sweeps
from app.services.ringing import Ringer
from app.services.sweeping import Sweeper
from app.telemetry import Metrics
from tests.support.counted import Counted
from tests.support.databases import Databases

TICKS = os.sysconf("SC_CLK_TCK")

TENANTS = "insert into daira.tenants (tenant_id) select 't' || lpad(n::text, 7, '0') from generate_series(1, $1::int) n"
FINISHED = """
insert into daira.jobs (tenant_id, id, kind, state, finished_at)
select tenant_id, gen_random_uuid(), 'ocr', 'done', now() from daira.tenants
"""
DUE = """
insert into daira.jobs (tenant_id, id, kind, run_after, ring_after)
select tenant_id, gen_random_uuid(), 'ocr', now() - interval '1 hour', now() - interval '1 hour'
from daira.tenants order by md5(tenant_id) limit $1::int
"""
TEXTBOOK = "select id from daira.jobs where state = 'queued' and run_after <= now() limit 100"


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tenants", type=int, default=100_000)
    arguments.add_argument("--due", type=int, default=1_000, help="tenants with one due job")
    arguments.add_argument(
        "--quick", action="store_true", help="leave out the query for each tenant, which takes minutes"
    )
    options = arguments.parse_args()
    databases = Databases()
    await databases.start()
    try:
        async with databases.clone() as cloned:
            async with administer(cloned.admin_url) as admin:
                await admin.execute(TENANTS, options.tenants)
                await admin.execute(FINISHED)
                await admin.execute("vacuum analyze")
            engine = Counted(cloned.app_url, pool_size=1, name="bench")
            sweeping = Sweeper(
                sweeps=PostgresSweeps(engine),
                ringing=Ringer({Lane.OCR: MemoryDoorbell()}, Metrics()),
                metrics=Metrics(),
            )
            print(f"{options.tenants:,} tenants, {options.due:,} with a due job")
            print(f"{'pass':<22} {'found':>7} {'CPU s':>8} {'wall s':>8} {'round trips':>12}")
            await _measure("scout, nothing due", engine, sweeping.sweep)
            await _fill(cloned.admin_url, options.due)
            await _measure("scout", engine, sweeping.sweep)
            await _fill(cloned.admin_url, options.due)
            await _measure("full pass", engine, lambda: _full(sweeping.sweeps))
            if not options.quick:
                await _fill(cloned.admin_url, options.due)
                await _measure("a query per tenant", engine, lambda: _textbook(engine, options.tenants))
            await engine.close()
    finally:
        databases.close()


async def _full(sweeps: Sweeps) -> int:
    """The full pass without the scout's pass before it, which would leave it nothing to find."""
    found = 0
    names: list[TenantId] = await sweeps.tenants(after=None, limit=500)
    while names:
        found += len(await sweeps.sweep(names, limit=10))
        names = await sweeps.tenants(after=names[-1], limit=500)
    return found


async def _textbook(engine: Counted, tenants: int) -> int:
    found = 0
    for number in range(1, tenants + 1):
        async with engine.begin() as connection:
            await connection.exec_driver_sql(f"select set_config('app.tenant_id', 't{number:07}', true)")
            found += len((await connection.exec_driver_sql(TEXTBOOK)).all())
        engine.calls += 4
    return found


async def _fill(admin_url: str, due: int) -> None:
    async with administer(admin_url) as admin:
        await admin.execute("delete from daira.jobs where state = 'queued'")
        await admin.execute(DUE, due)
        await admin.execute("vacuum analyze daira.jobs")


async def _measure(name: str, engine: Counted, act: Callable[[], Awaitable[int]]) -> None:
    ((pid,),) = await engine.call("select pg_backend_pid()")
    engine.calls = 0
    before, started = _cpu(pid), time.perf_counter()
    found = await act()
    wall = time.perf_counter() - started
    print(f"{name:<22} {found:>7,} {_cpu(pid) - before:>8.2f} {wall:>8.2f} {engine.calls:>12,}", flush=True)


def _cpu(pid: int) -> float:
    """Seconds of user and system time that the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


asyncio.run(main())
