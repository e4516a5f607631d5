"""The server time of one claim by the depth of the queue, compared with the textbook statement.

Run: ./daira bench claim_depth

Both ways claim the same number of jobs of one tenant, by id, with the same rights on the same server; `naive` is UPDATE
… WHERE id = $1 AND state = 'queued' under the same policies. Figures are EXPLAIN ANALYZE's execution time, in
milliseconds, and ratios to the same way at the smallest depth.
"""

import argparse
import asyncio
import json
import random
import statistics

import asyncpg

from app.adapters.postgres.engine import administer
from tests.support.databases import Databases

CLAIM = "select * from daira.claim(array['whale'], array[$1::uuid], 'bench', interval '1 minute', array['ocr'])"
NAIVE = """
update daira.jobs set state = 'claimed', attempts = attempts + 1, claimed_by = 'bench',
    lease_until = now() + interval '1 minute' where id = $1 and state = 'queued' and run_after <= now()
"""
FILL = """
insert into daira.jobs (tenant_id, id, kind, run_after)
select 'whale', gen_random_uuid(), 'ocr', now() - interval '1 hour' from generate_series(1, $1::int)
"""
WAYS = {"daira.claim": CLAIM, "naive": NAIVE}


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--depths", type=int, nargs="+", default=[50, 5_000, 50_000], help="queued jobs")
    arguments.add_argument("--claims", type=int, default=200, help="claims to time at each depth, of at most 40 a fill")
    options = arguments.parse_args()
    databases = Databases()
    await databases.start()
    print(f"{'depth':>8}  {'way':<12} {'p50 ms':>8} {'p95 ms':>8} {'ratio':>7}")
    first: dict[str, float] = {}
    try:
        for depth in options.depths:
            for way, statement in WAYS.items():
                times = await measure(databases, statement, depth=depth, claims=options.claims)
                median = statistics.median(times)
                p95 = statistics.quantiles(times, n=20)[-1]
                ratio = median / first.setdefault(way, median)
                print(f"{depth:>8}  {way:<12} {median:>8.3f} {p95:>8.3f} {ratio:>7.2f}")
    finally:
        databases.close()


async def measure(databases: Databases, statement: str, *, depth: int, claims: int) -> list[float]:
    """Execution times of claims of random jobs. The queue is filled again before it has shrunk by a fifth."""
    times: list[float] = []
    async with databases.clone() as cloned, administer(cloned.admin_url) as admin, administer(cloned.app_url) as app:
        await admin.execute("insert into daira.tenants (tenant_id) values ('whale'), ('minnow')")
        while len(times) < claims:
            await admin.execute("delete from daira.jobs")
            await admin.execute(FILL, depth)
            await admin.execute("vacuum analyze daira.jobs")
            ids = [row["id"] for row in await admin.fetch("select id from daira.jobs")]
            for job in random.sample(ids, min(claims - len(times), max(1, depth // 5), 200)):
                times.append(await timed(app, statement, job))  # noqa: PERF401 - one after the other
    return times


async def timed(app: asyncpg.Connection, statement: str, job: object) -> float:
    async with app.transaction():
        await app.execute("select set_config('app.tenant_id', 'whale', true)")
        plan = await app.fetchval(f"explain (analyze, format json) {statement}", job)
    seconds: float = json.loads(plan)[0]["Execution Time"]
    return seconds


asyncio.run(main())
