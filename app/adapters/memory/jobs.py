"""Jobs in the memory store inside a transaction, with their changes and webhooks.

A position in the changes is the number of the tenant's last commit.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from app.adapters.memory import transitions
from app.adapters.memory.store import JobRow, MemorySession, TenantTables
from app.domain.changes import ChangePage, ChangeWindow, Position, StatePage
from app.domain.doorbells import NEED_TEXT, Ring
from app.domain.errors import Conflict, NotFound
from app.domain.ids import DocumentId, JobId, WebhookId
from app.domain.jobs import EQUAL_IS_LIVE, Attempt, Job, JobFilter, JobState, NewJob, Progress
from app.domain.leases import SettledAttempt, Settlement
from app.domain.outcomes import DeliveryRings
from app.domain.text import scrub, scrub_json
from app.domain.webhooks import KIND, Webhook
from app.domain.webhooks import KIND as WEBHOOK


class MemoryJobs:
    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def add(self, job: NewJob) -> Job | None:
        tables = await self._session.writing()
        tables.require_tenant()
        if job.document_id is not None and job.document_id not in tables.documents:
            raise NotFound(f"there is no document {job.document_id}")
        row = transitions.queued(job, tenant=self._session.tenant_id, now=self._session.now())
        if _is_duplicate(tables, row.job):
            return None
        if job.id in tables.jobs:
            raise Conflict(f"job {job.id} exists already")
        tables.jobs[job.id] = row
        return transitions.copied(row.job)

    async def get(self, job_id: JobId) -> Job | None:
        row = self._session.reading().jobs.get(job_id)
        return None if row is None else transitions.copied(row.job)

    async def newest(
        self,
        *,
        document_ids: Sequence[DocumentId] | None = None,
        state: JobState | None = None,
        kind: str | None = None,
        limit: int | None = None,
        before: JobId | None = None,
    ) -> list[Job]:
        jobs = (row.job for row in self._session.reading().jobs.values())
        found = [
            transitions.copied(job)
            for job in jobs
            if (document_ids is None or job.document_id in document_ids)
            and state in {None, job.state}
            and kind in {None, job.kind}
            and (before is None or job.id < before)
        ]
        return sorted(found, key=lambda job: job.id, reverse=True)[:limit]

    async def of_documents(
        self, document_ids: Sequence[DocumentId], *, each: int, kind: str | None = None
    ) -> list[Job]:
        chosen: list[Job] = []
        for document_id in document_ids:
            found = await self.newest(document_ids=[document_id], kind=kind)
            chosen += sorted(found, key=lambda job: job.state.terminal)[:each]
        return sorted(chosen, key=lambda job: job.id, reverse=True)

    async def live_equal(self, *, kind: str, dedup_key: str) -> Job | None:
        found = await self.newest(kind=kind)
        return next((job for job in found if job.dedup_key == dedup_key and not job.state.terminal), None)

    async def matching(self, wanted: JobFilter, *, after: JobId | None = None, limit: int) -> list[JobId]:
        now = self._session.now()
        jobs = (row.job for row in self._session.reading().jobs.values())
        found = [job.id for job in jobs if (after is None or job.id > after) and _matches(job, wanted, now=now)]
        return sorted(found)[:limit]

    async def live(self, *, at_most: int) -> int:
        rows = self._session.reading().jobs.values()
        return min(at_most, sum(not row.job.state.terminal and row.job.kind != WEBHOOK for row in rows))

    async def attempts(self, job_id: JobId) -> list[Attempt]:
        return list(self._session.reading().attempts.get(job_id, ()))

    async def cancel(self, job_id: JobId) -> tuple[Job, DeliveryRings] | None:
        tables, now = await self._session.writing(), self._session.now()
        row = tables.jobs.get(job_id)
        if row is None:
            return None
        bells: DeliveryRings = []
        if row.job.state is JobState.QUEUED:
            row = transitions.cancelled(row, now=now)
            bells = transitions.announce(tables, row.job, now=now)
        elif row.job.state is JobState.CLAIMED:
            row = replace(row, job=replace(row.job, cancel_requested=True))
        tables.jobs[job_id] = row
        return transitions.copied(row.job), bells

    async def retry(self, job_id: JobId, *, states: Collection[JobState]) -> Job | None:
        tables = await self._session.writing()
        row = tables.jobs.get(job_id)
        if row is None or row.job.state not in states:
            return None
        if _is_duplicate(tables, row.job):
            raise Conflict(EQUAL_IS_LIVE)
        tables.answers.pop(job_id, None)
        tables.jobs[job_id] = row = transitions.retried(row, now=self._session.now())
        return transitions.copied(row.job)

    async def prune(self, *, older_than: timedelta, limit: int, dry_run: bool = False) -> int:
        tables, before = await self._session.writing(), self._session.now() - older_than
        old = [
            row.job.id
            for row in tables.jobs.values()
            if row.job.document_id is None and row.job.finished_at is not None and row.job.finished_at < before
        ][:limit]
        for job_id in old if not dry_run else []:
            del tables.jobs[job_id]
            tables.attempts.pop(job_id, None)
        return len(old)

    async def wake(self, document_id: DocumentId) -> list[tuple[str, Ring]]:
        jobs, now = (await self._session.writing()).jobs, self._session.now()
        waiting = [
            row
            for row in jobs.values()
            if row.job.document_id == document_id
            and row.job.state is JobState.QUEUED
            and not row.job.attempts
            and row.job.run_after > now
            and row.job.kind in NEED_TEXT
        ]
        for row in waiting:
            jobs[row.job.id] = transitions.woken(row, now=now)
        return [(row.job.kind, Ring(self._session.tenant_id, row.job.id)) for row in waiting]

    async def settle(self, settlement: Settlement) -> SettledAttempt | None:
        tables = await self._session.writing()
        if settlement.lease.tenant_id != self._session.tenant_id:
            return None
        return transitions.settle(tables, settlement, now=self._session.now())

    async def save_result(self, job_id: JobId, result: object) -> None:
        jobs = (await self._session.writing()).jobs
        row = jobs.get(job_id)
        if row is None:
            raise NotFound(f"there is no job {job_id}")
        if row.has_result:
            raise Conflict(f"job {job_id} has a result already")
        jobs[job_id] = replace(row, has_result=True, job=replace(row.job, result=scrub_json(result)))


def _matches(job: Job, wanted: JobFilter, *, now: datetime) -> bool:
    age = now - (job.finished_at or job.created_at)
    return (
        job.state in wanted.states
        and (not wanted.kinds or job.kind in wanted.kinds)
        and (not wanted.codes or (job.error is not None and job.error.code in wanted.codes))
        and (wanted.since is None or age <= wanted.since)
        and (wanted.until is None or age >= wanted.until)
    )


def _is_duplicate(tables: TenantTables, job: Job) -> bool:
    return job.dedup_key is not None and any(
        not row.job.state.terminal and (row.job.kind, row.job.dedup_key) == (job.kind, job.dedup_key)
        for row in tables.jobs.values()
    )


class MemoryChanges:
    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def now(self) -> Position:
        return _position(self._session.reading())

    async def within(
        self, window: ChangeWindow, *, of: Collection[JobId] | None = None, limit: int
    ) -> ChangePage | None:
        tables = self._session.reading()
        since, upto = _number(window.since), _number(window.upto or _position(tables))
        if since is None or upto is None or since > tables.commits:
            return None
        beyond = window.after or (since + 1, None)
        found = sorted(
            (row for row in tables.jobs.values() if since < row.changed <= upto and (of is None or row.job.id in of)),
            key=_job_place,
        )
        rows = [row for row in found if beyond[1] is None or _job_place(row) > beyond]
        page, more = rows[:limit], len(rows) > limit
        rest = ChangeWindow(since=window.since, upto=Position(str(upto)), after=_job_place(page[-1])) if more else None
        return ChangePage(upto=Position(str(upto)), jobs=[transitions.copied(row.job) for row in page], rest=rest)

    async def standing(
        self, *, upto: Position, of: Collection[JobId] | None = None, after: JobId | None = None, limit: int
    ) -> StatePage:
        seen = _number(upto)
        assert seen is not None
        jobs = (row.job for row in self._session.reading().jobs.values() if row.changed <= seen)
        wanted = (job for job in jobs if (not job.state.terminal if of is None else job.id in of))
        found = sorted((job for job in wanted if after is None or job.id > after), key=lambda job: job.id)
        page = found[:limit]
        return StatePage(
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


def _position(tables: TenantTables) -> Position:
    return Position(str(tables.commits))


def _number(position: Position) -> int | None:
    return int(position) if position.isascii() and position.isdigit() and len(position) < 20 else None  # noqa: PLR2004


def _job_place(row: JobRow) -> tuple[int, JobId]:
    return row.changed, row.job.id


class MemoryWebhooks:
    def __init__(self, session: MemorySession) -> None:
        self._session = session

    async def add(self, webhook: Webhook) -> None:
        self._session.check_owner(webhook.tenant_id)
        tables = await self._session.writing()
        tables.require_tenant()
        if webhook.id in tables.webhooks:
            raise Conflict(f"webhook {webhook.id} exists already")
        tables.webhooks[webhook.id] = replace(webhook, url=scrub(webhook.url), description=scrub(webhook.description))

    async def get(self, webhook_id: WebhookId) -> Webhook | None:
        return self._session.reading().webhooks.get(webhook_id)

    async def newest(self, *, limit: int, before: WebhookId | None = None) -> list[Webhook]:
        found = [
            webhook for webhook in self._session.reading().webhooks.values() if before is None or webhook.id < before
        ]
        return sorted(found, key=lambda webhook: webhook.id, reverse=True)[:limit]

    async def remove(self, webhook_id: WebhookId) -> bool:
        return (await self._session.writing()).webhooks.pop(webhook_id, None) is not None

    async def rotate(self, webhook_id: WebhookId, *, secret: str, overlap: timedelta) -> Webhook | None:
        before = await self.get(webhook_id)
        return await self._change(
            webhook_id,
            secret=secret,
            previous_secret=before.secret if before and overlap else None,
            previous_until=self._session.now() + overlap if overlap else None,
        )

    async def enable(self, webhook_id: WebhookId) -> Webhook | None:
        before = await self.get(webhook_id)
        if before is None or before.disabled_at is None:
            return before
        return await self._change(webhook_id, disabled_at=None, disabled_reason=None, healthy_at=self._session.now())

    async def disable(
        self, webhook_id: WebhookId, *, reason: str, unless_healthy_since: datetime | None = None
    ) -> bool:
        before = await self.get(webhook_id)
        if before is None or before.disabled_at is not None:
            return False
        if unless_healthy_since is not None and before.healthy_at >= unless_healthy_since:
            return False
        await self._change(webhook_id, disabled_at=self._session.now(), disabled_reason=scrub(reason))
        return True

    async def note_health(self, webhook_id: WebhookId) -> None:
        await self._change(webhook_id, healthy_at=self._session.now())

    async def deliveries(self, webhook_id: WebhookId, *, limit: int, before: JobId | None = None) -> Sequence[Job]:
        found = [
            transitions.copied(row.job)
            for row in self._session.reading().jobs.values()
            if row.job.kind == KIND
            and row.job.payload.get("webhook_id") == str(webhook_id)
            and (before is None or row.job.id < before)
        ]
        return sorted(found, key=lambda job: job.id, reverse=True)[:limit]

    async def _change(self, webhook_id: WebhookId, **values: object) -> Webhook | None:
        webhooks = (await self._session.writing()).webhooks
        if webhook_id not in webhooks:
            return None
        webhooks[webhook_id] = replace(webhooks[webhook_id], **values)  # type: ignore[arg-type]
        return webhooks[webhook_id]
