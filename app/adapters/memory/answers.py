"""Answers in the memory store."""

from dataclasses import replace

from app.adapters.memory.store import Session
from app.adapters.memory.usage import MemoryUsage
from app.domain.answers import Kept
from app.domain.ids import JobId
from app.domain.jobs import JobState
from app.domain.leases import Lease
from app.domain.text import scrub


class MemoryAnswers:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def keep(self, lease: Lease, kept: Kept) -> bool:
        tables = await self._session.writing()
        row = tables.jobs.get(lease.job_id)
        if row is None or row.job.state is not JobState.CLAIMED or row.job.attempts != lease.attempt:
            return False
        known = tables.answers.get(lease.job_id, {})
        if kept.question not in known:
            await MemoryUsage(self._session).add(kept.used)
        tables.answers[lease.job_id] = {kept.question: _scrubbed(kept)} | known
        return True

    async def kept(self, job_id: JobId) -> list[Kept]:
        return list(self._session.reading().answers.get(job_id, {}).values())

    async def forget(self, job_id: JobId) -> None:
        (await self._session.writing()).answers.pop(job_id, None)


def _scrubbed(kept: Kept) -> Kept:
    return replace(
        kept,
        text=None if kept.text is None else scrub(kept.text),
        fault=None if kept.fault is None else scrub(kept.fault),
    )
