"""One soak test: jobs arrive, workers run them, harm is done to all; and when it is over, the proof.

What chance decides is drawn from the seed. What a process is at when it dies is for the machine to say.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from app.adapters.postgres.engine import administer
from app.adapters.postgres.faults import postgres_reachable
from app.domain.errors import Unavailable
from app.domain.ids import JobId
from app.domain.jobs import JobState
from tests.chaos.checker import Violation, is_worker_lost, unexplained, violations
from tests.chaos.environment import SoakEnvironment, soak_environment
from tests.chaos.evidence import gather
from tests.chaos.fault_injector import FaultInjector
from tests.chaos.forms import Form
from tests.chaos.load import KNOWN, Fate
from tests.chaos.progress import Progress
from tests.chaos.records import Entry, Records
from tests.chaos.watch import Watch

LOOK_EVERY = 0.5
ROWS = "select id, state, attempts from daira.jobs"
LIVE = "select count(*) from daira.jobs where kind = $1 and state in ('queued', 'claimed')"
STUCK = """
select count(*) from daira.jobs
where kind = $1 and (state = 'claimed' and lease_until < now() or state = 'queued' and run_after < now() - $2::interval)
"""


@dataclass(frozen=True, kw_only=True)
class Report:
    figures: dict[str, int | str]
    violations: list[Violation]
    unexplained: list[str]
    """Expiries that no harm accounts for."""


async def soak(form: Form, *, seed: int, adapter: str) -> Report:
    async with soak_environment(form, seed=seed, adapter=adapter) as where:
        started = time.monotonic()
        async with _watched(where, jobs=form.jobs) as watch:
            await _rage(where, form, seed=seed)
            stuck, calm_after = await until_calm(where, form)
        records = await evidence_of(where, form)
        times: dict[str, int | str] = {
            "looks at all rows meanwhile": watch.looks,
            "stuck, two leases after the last harm": stuck,
            "seconds from the last harm to the last end": f"{calm_after:.1f}",
            "seconds in all": f"{time.monotonic() - started:.0f}",
        }
        amiss = [*where.chronicle.amiss, *_died_unasked(where, records)]
        if stuck:
            amiss.append(f"{stuck} jobs stuck, two leases after the last harm")
        found = [*watch.violations, *violations(records), *(Violation("amiss", detail) for detail in amiss)]
        return Report(
            figures=_done(where) | _found(records) | times,
            violations=sorted(found, key=str),
            unexplained=[_expiry(records, job_id, entry) for job_id, entry in unexplained(records)],
        )


async def _rage(where: SoakEnvironment, form: Form, *, seed: int) -> None:
    fault_injector = FaultInjector(
        server=where.server,
        supervisor=where.supervisor,
        queue=where.queue,
        chronicle=where.chronicle,
        clocks=where.clocks,
        lease=form.lease,
    )
    async with asyncio.TaskGroup() as raging:
        raging.create_task(where.arrivals.run())
        raging.create_task(fault_injector.run(form.harms, seed=seed, seconds=form.seconds))
    await where.supervisor.until_up()


async def until_calm(where: SoakEnvironment, form: Form) -> tuple[int, float]:
    """Until all jobs have ended, or the patience has; how many were stuck after two leases, and the seconds it took."""
    started = time.monotonic()
    leases = timedelta(seconds=2 * form.lease)
    stuck: int | None = None
    async with administer(where.server.cloned.admin_url) as admin:
        while True:
            passed = time.monotonic() - started
            live = await admin.fetchval(LIVE, KNOWN)
            if stuck is None and (not live or passed >= leases.total_seconds()):
                stuck = await admin.fetchval(STUCK, KNOWN, leases)
            if not live or passed >= form.longest_end:
                # What has not ended by then, the checker finds.
                return stuck or 0, passed
            await asyncio.sleep(0.1)


@asynccontextmanager
async def _watched(where: SoakEnvironment, *, jobs: int) -> AsyncIterator[Watch]:
    watch = Watch()
    watching = asyncio.create_task(_keep_watching(where, watch, Progress(jobs)))
    try:
        yield watch
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching


async def _keep_watching(where: SoakEnvironment, watch: Watch, progress: Progress) -> None:
    while True:
        with contextlib.suppress(Unavailable):
            async with administer(where.server.cloned.admin_url) as admin:
                while True:
                    with postgres_reachable():
                        rows = await admin.fetch(ROWS, timeout=30)
                    now = [(JobId(row["id"]), JobState(row["state"]), row["attempts"]) for row in rows]
                    watch.look(now)
                    ended = sum(state.terminal for _, state, _ in now)
                    progress.tell(arrived=len(now), ended=ended, counts=where.chronicle.counts)
                    await asyncio.sleep(LOOK_EVERY)
        await asyncio.sleep(LOOK_EVERY)


async def evidence_of(where: SoakEnvironment, form: Form) -> Records:
    async with administer(where.server.cloned.admin_url) as admin:
        return await gather(
            admin,
            planned=where.arrivals.committed,
            executions=where.executions,
            cancelled=where.arrivals.cancelled,
            harms=where.chronicle.harms,
            lease=form.lease,
        )


def _expiry(records: Records, job_id: JobId, entry: Entry) -> str:
    case = records.cases[job_id]
    runs = [execution for execution in case.executions if execution.attempt == entry.attempt]
    near = [
        harm for harm in records.harms if harm.began_at < entry.finished_at and entry.started_at < harm.ended_at + 10
    ]
    return f"{job_id} {dict(case.planned.payload)}: {entry}, {runs or 'never began'}; harms then: {near}"


def _died_unasked(where: SoakEnvironment, records: Records) -> list[str]:
    """Workers that ended by themselves, beyond those that a deadly job took along."""
    deadly = [case for case in records.cases.values() if case.planned.fate is Fate.DEADLY]
    runs = sum(len(case.executions) for case in deadly)
    died = where.supervisor.deaths
    amiss = [f"workers died by themselves: exit statuses {died}, {runs} deadly runs"] * (len(died) > runs)
    if where.supervisor.failed_starts and not where.chronicle.counts["queue restarts"]:
        amiss.append(f"{where.supervisor.failed_starts} workers could not start")
    return amiss


def _done(where: SoakEnvironment) -> dict[str, int | str]:
    return {**dict(sorted(where.chronicle.counts.items())), "equal jobs refused": where.arrivals.equals}


def _found(records: Records) -> dict[str, int | str]:
    cases = list(records.cases.values())
    states = Counter(str(case.row.state) for case in cases if case.row)
    outcomes = Counter(str(entry.outcome) for case in cases for entry in case.entries)
    return {
        "jobs": len(cases),
        "executions": sum(len(case.executions) for case in cases),
        **{f"jobs {state}": count for state, count in sorted(states.items())},
        **{f"attempts noted as {outcome}": count for outcome, count in sorted(outcomes.items())},
        "jobs failed as worker_lost": sum(map(is_worker_lost, cases)),
        "of these meant to be": sum(is_worker_lost(case) for case in cases if case.planned.fate is Fate.DEADLY),
        "expiries without a harm": len(unexplained(records)),
    }
