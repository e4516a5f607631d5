"""A worker's resident memory by the number of no-op jobs that it has done, in one process.

Run: ./daira bench worker_memory

Each job is claimed and settled by the real worker and writes a result. Figures are MiB of resident memory, and the
ratio to the first.
"""

import argparse
import asyncio
from pathlib import Path

from app.adapters.postgres.engine import administer
from tests.chaos.cluster import cluster
from tests.support.databases import Databases

FILL = """
with added as (
    insert into daira.jobs (tenant_id, id, kind, payload)
    select 'tenant-' || n % 50, gen_random_uuid(), 'ocr', '{"do": "result"}' from generate_series(1, $1::int) n
    returning tenant_id, id
)
insert into daira.doorbells (lane, tenant_id, job_id, turn) select 'ocr', tenant_id, id, 0 from added
"""


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--after", type=int, nargs="+", default=[1_000, 2_000, 5_000, 10_000], help="jobs done")
    arguments.add_argument("--slots", type=int, default=32, help="jobs at a time")
    options = arguments.parse_args()
    databases = Databases()
    await databases.start()
    try:
        async with (
            databases.clone() as cloned,
            cluster(cloned, queue_url="", workers=1, lanes=f"ocr={options.slots}") as run,
        ):
            await run.enqueue(0, tenants=50)
            print(f"{'jobs':>8} {'MiB':>8} {'ratio':>7}")
            done, first = 0, 0.0
            for after in sorted(options.after):
                async with administer(cloned.admin_url) as admin:
                    await admin.execute(FILL, after - done)
                    await admin.execute("select pg_notify('daira_ocr', '')")
                await run.until_done(after, seconds=600)
                done = after
                # The memory of the last jobs is freed at the next look at an empty queue.
                await asyncio.sleep(2)
                resident = _resident(run.workers[0].pid)
                first = first or resident
                print(f"{after:>8} {resident:>8.1f} {resident / first:>7.3f}")
    finally:
        databases.close()


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1024


if __name__ == "__main__":
    asyncio.run(main())
