"""What has changed in the memory store: a position is the number of the tenant's last commit."""

from collections.abc import Collection, Mapping

from app.adapters.memory import transitions
from app.adapters.memory.store import JobRow, Session, Tables
from app.domain.changes import News, Position, Standing, Window
from app.domain.ids import JobId
from app.domain.jobs import JobState, Progress


class MemoryChanges:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def now(self) -> Position:
        return _position(self._session.reading())

    async def within(self, window: Window, *, of: Collection[JobId] | None = None, limit: int) -> News | None:
        tables = self._session.reading()
        since, upto = _number(window.since), _number(window.upto or _position(tables))
        if since is None or upto is None or since > tables.commits:
            return None
        beyond = window.after or (since + 1, None)
        found = sorted(
            (row for row in tables.jobs.values() if since < row.changed <= upto and (of is None or row.job.id in of)),
            key=_place,
        )
        rows = [row for row in found if beyond[1] is None or _place(row) > beyond]
        page, more = rows[:limit], len(rows) > limit
        rest = Window(since=window.since, upto=Position(str(upto)), after=_place(page[-1])) if more else None
        return News(upto=Position(str(upto)), jobs=[transitions.copied(row.job) for row in page], rest=rest)

    async def standing(
        self, *, upto: Position, of: Collection[JobId] | None = None, after: JobId | None = None, limit: int
    ) -> Standing:
        seen = _number(upto)
        assert seen is not None
        jobs = (row.job for row in self._session.reading().jobs.values() if row.changed <= seen)
        wanted = (job for job in jobs if (not job.state.terminal if of is None else job.id in of))
        found = sorted((job for job in wanted if after is None or job.id > after), key=lambda job: job.id)
        page = found[:limit]
        return Standing(
            jobs=[transitions.copied(job) for job in page], rest=page[-1].id if len(found) > limit else None
        )

    async def running(self, *, of: Collection[JobId] | None = None) -> Mapping[JobId, Progress]:
        jobs = (row.job for row in self._session.reading().jobs.values())
        return {
            job.id: job.progress
            for job in jobs
            if job.state is JobState.CLAIMED and job.progress and (of is None or job.id in of)
        }

    async def states(self, job_ids: Collection[JobId]) -> Mapping[JobId, JobState]:
        jobs = self._session.reading().jobs
        return {identity: jobs[identity].job.state for identity in job_ids if identity in jobs}


def _position(tables: Tables) -> Position:
    return Position(str(tables.commits))


def _number(position: Position) -> int | None:
    return int(position) if position.isascii() and position.isdigit() and len(position) < 20 else None  # noqa: PLR2004


def _place(row: JobRow) -> tuple[int, JobId]:
    return row.changed, row.job.id
