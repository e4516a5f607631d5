"""Reads what the checker needs, from the database as an administrator and from the executions' own log."""

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import asyncpg

from app.domain.ids import JobId
from app.domain.jobs import AttemptOutcome, JobState
from tests.chaos.load import Planned
from tests.chaos.records import Case, Entry, Execution, Harm, JobRow, Records

JOBS = """
select id, tenant_id, state, attempts, failures, expiries, releases, last_error ->> 'code' as error from daira.jobs
"""
ENTRIES = """
select job_id, attempt, outcome, extract(epoch from started_at)::float8 as started_at,
       extract(epoch from finished_at)::float8 as finished_at
from daira.job_attempts order by attempt
"""
RESULTS = "select job_id, data from daira.results"


async def gather(
    admin: asyncpg.Connection,
    *,
    planned: Iterable[Planned],
    executions: Path,
    cancelled: Mapping[JobId, int],
    harms: Sequence[Harm],
    lease: float,
) -> Records:
    rows = {row.job_id: row for row in map(_row, await admin.fetch(JOBS))}
    # The database's clock is this machine's: it has the same distance from the monotonic one for both.
    distance = time.time() - time.monotonic()
    entries: dict[JobId, list[Entry]] = defaultdict(list)
    for entry in await admin.fetch(ENTRIES):
        entries[entry["job_id"]].append(_entry(entry, distance=distance))
    results: dict[JobId, list[object]] = defaultdict(list)
    for result in await admin.fetch(RESULTS):
        results[result["job_id"]].append(json.loads(result["data"]))
    runs = read_executions(executions)
    cases = {
        job.job_id: Case(
            planned=job,
            row=rows.get(job.job_id),
            entries=entries[job.job_id],
            results=results[job.job_id],
            executions=runs.get(job.job_id, []),
            cancelled_at_attempt=cancelled.get(job.job_id),
        )
        for job in planned
    }
    known = {"a row": set(rows), "a history": set(entries), "a result": set(results), "an execution": set(runs)}
    strangers = [f"{what} of job {job_id}" for what, ids in known.items() for job_id in ids - cases.keys()]
    return Records(cases=cases, harms=harms, lease=lease, strangers=strangers)


def read_executions(folder: Path) -> dict[JobId, list[Execution]]:
    """By job, by start."""
    found: dict[JobId, list[Execution]] = defaultdict(list)
    for file in folder.glob("*.jsonl"):
        for execution in _of_one_process(file):
            found[execution.job_id].append(execution)
    for executions in found.values():
        executions.sort(key=lambda execution: execution.started_at)
    return found


def _of_one_process(file: Path) -> list[Execution]:
    found: list[Execution] = []
    running: dict[tuple[str, int], int] = {}
    for line in map(json.loads, file.read_text().splitlines()):
        lease = (line["job"], line["attempt"])
        if line["event"] == "start":
            running[lease] = len(found)
            found.append(
                Execution(
                    job_id=JobId(UUID(line["job"])),
                    tenant=line["tenant"],
                    attempt=line["attempt"],
                    pid=line["pid"],
                    started_at=line["at"],
                )
            )
        else:
            place = running.pop(lease)
            found[place] = replace(found[place], event=line["event"], ended_at=line["at"])
    return found


def _row(row: asyncpg.Record) -> JobRow:
    return JobRow(
        job_id=JobId(row["id"]),
        tenant=row["tenant_id"],
        state=JobState(row["state"]),
        attempts=row["attempts"],
        failures=row["failures"],
        expiries=row["expiries"],
        releases=row["releases"],
        error=row["error"],
    )


def _entry(row: asyncpg.Record, *, distance: float) -> Entry:
    return Entry(
        attempt=row["attempt"],
        outcome=AttemptOutcome(row["outcome"]),
        started_at=row["started_at"] - distance,
        finished_at=row["finished_at"] - distance,
    )
