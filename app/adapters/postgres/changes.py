"""Changes of a tenant's jobs, found by the transactions that the jobs' rows name: `daira.changes`.

A position is a Postgres snapshot, written as `xmin.width.running` in hexadecimal. The width is xmax minus xmin, and the
running transactions are numbers relative to xmin: `2f.3.0-2` is 47:50:47,49. A client keeps positions and may send them
back malformed.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from asyncpg import Record

from app.adapters.postgres.clamped import ClampedConnection
from app.adapters.postgres.jobs import job_of, select_jobs
from app.adapters.postgres.stored import stored_value
from app.adapters.postgres.tables import jobs
from app.domain.changes import ChangePage, ChangeWindow, Position, StatePage
from app.domain.ids import JobId
from app.domain.jobs import Job, JobState, Progress

SnapshotParts = tuple[int, int, tuple[int, ...]]
"""A pg_snapshot as the driver has it: xmin, xmax, and the transactions between them that it does not see."""

MOST_RUNNING = 500
"""Transactions in a position. It travels in a header, so its length is limited."""

POSITION_PATTERN = re.compile(r"([0-9a-f]{1,15})\.([0-9a-f]{1,8})\.((?:[0-9a-f]{1,8}(?:-[0-9a-f]{1,8})*)?)")
FIRST_NORMAL = 3
LONGEST_POSITION = 16 + 9 + 9 * MOST_RUNNING


def position_of(snapshot: SnapshotParts) -> Position:
    xmin, xmax, running = snapshot
    if len(running) > MOST_RUNNING:
        # A snapshot that sees less repeats some changes and loses none.
        xmax, running = running[MOST_RUNNING], running[:MOST_RUNNING]
    return Position(f"{xmin:x}.{xmax - xmin:x}.{'-'.join(f'{number - xmin:x}' for number in running)}")


def snapshot_of(position: Position) -> SnapshotParts | None:
    """The snapshot of a position; None if the position is not written as one."""
    found = POSITION_PATTERN.fullmatch(position) if len(position) <= LONGEST_POSITION else None
    if found is None:
        return None
    xmin, width = int(found[1], 16), int(found[2], 16)
    running = sorted({int(number, 16) for number in found[3].split("-") if number})
    if xmin < FIRST_NORMAL or (running and running[-1] >= width):
        return None
    return xmin, xmin + width, tuple(xmin + number for number in running)


NOW = "select pg_current_snapshot() as now"
CHANGES = "select upto, id, changed from daira.changes($1, $2, $3, $4, $5, $6, $7)"

# A transaction beyond the current snapshot is from a restored dump, and counts as seen.
SEEN = """(x.changed is null or x.changed >= pg_snapshot_xmax(pg_current_snapshot())
    or pg_visible_in_snapshot(x.changed, $2))"""

# Live jobs are gathered first. In the order of ids, the planner would walk all jobs of the tenant to find some.
LIVE = f"""
with live as materialized (
    select j.id, j.changed from daira.jobs j
    where j.tenant_id = $1 and j.state in ('queued', 'claimed') and j.kind is not null
)
select x.id, x.changed from live x where {SEEN} and ($3::uuid is null or x.id > $3) order by x.id limit $4
"""  # noqa: S608 - put together from our own parts
NAMED = f"""
select x.id, x.changed from daira.jobs x
where x.tenant_id = $1 and x.id = any($5) and {SEEN} and ($3::uuid is null or x.id > $3) order by x.id limit $4
"""  # noqa: S608 - put together from our own parts
RUNNING = """
select x.id, x.progress
from daira.jobs x
where x.tenant_id = $1 and x.state = 'claimed' and x.kind is not null and x.progress is not null
  and ($2::uuid[] is null or x.id = any($2))
"""
STATES = "select x.id, x.state from daira.jobs x where x.tenant_id = $1 and x.id = any($2)"


class PostgresChanges:
    def __init__(self, clamped: ClampedConnection) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def now(self) -> Position:
        (row,) = await self._clamped.call(NOW)
        return position_of(row["now"])

    async def within(
        self, window: ChangeWindow, *, of: Collection[JobId] | None = None, limit: int
    ) -> ChangePage | None:
        since, upto = snapshot_of(window.since), window.upto and snapshot_of(window.upto)
        if since is None:
            return None
        ids = None if of is None else list(of)
        rows = await self._clamped.call(
            CHANGES, self._tenant_id, since, upto, *(window.after or (None, None)), ids, limit
        )
        if not rows:
            return None
        # The first row is no job: it holds the end of the window.
        reached: SnapshotParts = rows[0]["upto"]
        changed = rows[1:]
        rest = None
        if len(changed) == limit:
            last = changed[-1]
            rest = ChangeWindow(
                since=window.since, upto=position_of(reached), after=(last["changed"], JobId(last["id"]))
            )
        return ChangePage(upto=position_of(reached), jobs=await self._as_they_were(changed), rest=rest)

    async def standing(
        self, *, upto: Position, of: Collection[JobId] | None = None, after: JobId | None = None, limit: int
    ) -> StatePage:
        arguments = (self._tenant_id, snapshot_of(upto), after, limit)
        if of is None:
            rows = await self._clamped.call(LIVE, *arguments)
        else:
            rows = await self._clamped.call(NAMED, *arguments, list(of))
        rest = JobId(rows[-1]["id"]) if len(rows) == limit else None
        return StatePage(jobs=await self._as_they_were(rows), rest=rest)

    async def running(self, *, of: Collection[JobId] | None = None) -> Mapping[JobId, Progress]:
        rows = await self._clamped.call(RUNNING, self._tenant_id, None if of is None else list(of))
        read = {JobId(row["id"]): stored_value(Progress, row["progress"]) for row in rows}
        return {job_id: progress for job_id, progress in read.items() if progress is not None}

    async def states(self, job_ids: Collection[JobId]) -> Mapping[JobId, JobState]:
        rows = await self._clamped.call(STATES, self._tenant_id, list(job_ids))
        return {JobId(row["id"]): JobState(row["state"]) for row in rows}

    async def _as_they_were(self, changed: Sequence[Record]) -> list[Job]:
        """Read the jobs, in the same order.

        Jobs that have changed again are left out, because a later window has them.
        """
        if not changed:
            return []
        ids = [row["id"] for row in changed]
        statement = select_jobs().where(jobs.c.tenant_id == self._tenant_id, jobs.c.id.in_(ids))
        now = {row.id: row for row in await self._clamped.execute(statement)}
        same = (row for row in changed if row["id"] in now and now[row["id"]].changed == row["changed"])
        return [job_of(now[row["id"]], result=now[row["id"]].data) for row in same]
