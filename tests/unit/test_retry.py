"""An ended job is queued again as the same job: by the service and over the API."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from app.domain.errors import Conflict, NotFound, TooMany
from app.domain.ids import DocumentId, JobId, TenantId, uuid7
from app.domain.jobs import Job, JobFilter, JobState
from app.domain.webhooks import KIND as WEBHOOK
from app.services import bulk_jobs
from app.services.bulk_jobs import BulkJobs
from app.services.jobs import JobService
from tests.support.rig import Rig, done, fail, new_delivery, new_job, ring_of
from tests.unit.bench import Bench
from tests.unit.served import Served, served
from tests.unit.test_jobs_service import MANY, service


@pytest.fixture
def jobs(bench: Bench) -> JobService:
    return service(bench, bench.rig.database)


async def ended(rig: Rig, end: Any = fail, **fields: Any) -> Job:
    tenant = fields.pop("tenant", None) or await rig.tenant()
    job = await rig.enqueue(tenant, **fields)
    assert await rig.settle(end(await rig.lease(job)))
    return await rig.again(job)


async def test_a_failed_job_is_queued_again_under_its_id_and_rung_for(bench: Bench, jobs: JobService) -> None:
    job = await ended(bench.rig)
    again = await jobs.retry(job.tenant_id, job.id, max_queued=MANY)
    assert (again.id, again.state, again.attempts, again.failures) == (job.id, JobState.QUEUED, 1, 0)
    assert await bench.rung() == [ring_of(job)]
    assert (await bench.run(again)).state is JobState.DONE


FAILED = JobFilter(states=frozenset({JobState.FAILED}))


async def test_an_operator_retries_all_that_match_of_all_tenants_but_those_with_an_equal_live_job(
    bench: Bench, jobs: JobService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_jobs, "AT_A_TIME", 2)
    rig = bench.rig
    acme, globex = await rig.tenant("acme"), await rig.tenant("globex")
    failed = [await ended(rig, tenant=tenant) for tenant in (acme, acme, acme, globex)]
    twin = await ended(rig, tenant=acme, dedup_key="same", document_id=(await rig.document(acme)).id)
    live = await rig.enqueue(acme, dedup_key="same", document_id=twin.document_id)
    bulk = BulkJobs(database=rig.database, sweeps=rig.sweeps, jobs=jobs)
    assert {each.tenant_id: each.matched async for each in bulk.count(None, FAILED)} == {acme: 4, globex: 1}
    assert {(await rig.again(job)).state for job in failed} == {JobState.FAILED}, "counting changes nothing"
    done_so_far = [each async for each in bulk.retry(None, FAILED)]
    assert [(each.tenant_id, each.changed, each.left_out) for each in done_so_far if each.tenant_id == globex] == [
        (globex, 1, 0)
    ]
    latest = {each.tenant_id: each for each in done_so_far}
    assert (latest[acme].changed, latest[acme].left_out) == (3, 1)
    assert sorted(await bench.rung()) == sorted(ring_of(job) for job in failed)
    for job in failed:
        again = await rig.again(job)
        assert (again.state, again.failures, again.attempts) == (JobState.QUEUED, 0, 1)
    assert (await rig.again(twin)).state is JobState.FAILED
    assert (await rig.again(live)).state is JobState.QUEUED
    assert sum([each.changed async for each in bulk.retry(None, FAILED)]) == 0, "it can be repeated"


async def test_an_operator_cancels_all_that_match_of_one_tenant(bench: Bench, jobs: JobService) -> None:
    rig = bench.rig
    acme, globex = await rig.tenant("acme"), await rig.tenant("globex")
    queued, running, other = await rig.enqueue(acme), await rig.enqueue(acme), await rig.enqueue(globex)
    await rig.lease(running)
    bulk = BulkJobs(database=rig.database, sweeps=rig.sweeps, jobs=jobs)
    live = JobFilter(states=frozenset({JobState.QUEUED, JobState.CLAIMED}))
    assert [each.changed async for each in bulk.cancel(acme, live)] == [2]
    assert (await rig.again(queued)).state is JobState.CANCELLED
    assert (await rig.again(running)).cancel_requested
    assert (await rig.again(other)).state is JobState.QUEUED
    with pytest.raises(NotFound, match="no tenant initech"):
        assert not [each async for each in bulk.cancel(TenantId("initech"), live)]


async def test_a_cancelled_job_is_retried_and_one_in_any_other_state_is_a_conflict(rig: Rig, jobs: JobService) -> None:
    tenant = await rig.tenant()
    cancelled = await rig.enqueue(tenant)
    await rig.cancel(cancelled)
    assert (await jobs.retry(tenant, cancelled.id, max_queued=MANY)).state is JobState.QUEUED
    succeeded = await ended(rig, done, tenant=tenant)
    running = await rig.enqueue(tenant)
    await rig.lease(running)
    for job, state in ((succeeded, "done"), (running, "claimed"), (cancelled, "queued")):
        with pytest.raises(Conflict, match=state):
            await jobs.retry(tenant, job.id, max_queued=MANY)


async def test_a_delivery_is_sent_again_also_when_it_was_done(rig: Rig, jobs: JobService) -> None:
    tenant = await rig.tenant()
    webhook = await rig.webhook(tenant)
    async with rig.database.begin(tenant) as tx:
        job = await tx.jobs.add(new_delivery(webhook.id, event="webhook.test", data={}))
    assert job is not None
    assert job.kind == WEBHOOK
    assert await rig.settle(done(await rig.lease(job)))
    assert (await jobs.retry(tenant, job.id, max_queued=MANY)).state is JobState.QUEUED


@pytest.mark.threat(39)
async def test_an_unknown_and_a_foreign_job_are_not_found_alike(rig: Rig, jobs: JobService) -> None:
    job = await ended(rig)
    other = await rig.tenant("other")
    told = set()
    for identity in (job.id, JobId(uuid7())):
        with pytest.raises(NotFound) as refused:
            await jobs.retry(other, identity, max_queued=MANY)
        told.add(str(refused.value))
    assert len(told) == 1
    assert await rig.again(job) == job


async def test_while_an_equal_job_is_live_it_is_a_conflict_that_names_it(rig: Rig, jobs: JobService) -> None:
    tenant = await rig.tenant()
    document = await rig.document(tenant)
    same = {"tenant": tenant, "document_id": document.id, "dedup_key": "same"}
    job = await ended(rig, **same)
    equal = await rig.enqueue(tenant, document_id=document.id, dedup_key="same")
    with pytest.raises(Conflict, match=str(equal.id)):
        await jobs.retry(tenant, job.id, max_queued=MANY)
    assert await rig.again(job) == job


async def test_of_retries_at_the_same_time_one_queues_the_job(rig: Rig, jobs: JobService) -> None:
    job = await ended(rig)
    tries = (jobs.retry(job.tenant_id, job.id, max_queued=MANY) for _ in range(5))
    answers = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(answer, Job) for answer in answers) == 1
    assert sum(isinstance(answer, Conflict) for answer in answers) == 4


@pytest.mark.threat(67)
async def test_beyond_the_limit_of_queued_jobs_it_stays_as_it_was(rig: Rig, jobs: JobService) -> None:
    job = await ended(rig)
    await rig.enqueue(job.tenant_id)
    with pytest.raises(TooMany):
        await jobs.retry(job.tenant_id, job.id, max_queued=1)
    assert await rig.again(job) == job
    assert (await jobs.retry(job.tenant_id, job.id, max_queued=2)).state is JobState.QUEUED


async def failed_job(web: Served) -> str:
    document = await web.uploaded()
    lease = (await web.claim(document)).lease
    (settled,) = await web._execution.leases.settle([fail(lease)])
    assert settled is not None
    return str(lease.job_id)


async def test_over_the_api_a_retry_answers_the_job_and_the_document_is_in_work_again(web: Served) -> None:
    job_id = await failed_job(web)
    before = (await web.client.get(f"/v1/jobs/{job_id}")).json()
    assert (before["state"], before["error"]["code"]) == ("failed", "oops")
    answer = await web.client.post(f"/v1/jobs/{job_id}/retry")
    assert answer.status_code == 200
    job = answer.json()
    assert (job["id"], job["state"], job["error"], job["attempts"]) == (job_id, "queued", None, 1)
    document = (await web.client.get(f"/v1/documents/{job['document_id']}")).json()
    assert document["status"] == "processing"
    twice = await web.client.post(f"/v1/jobs/{job_id}/retry")
    assert (twice.status_code, twice.json()["code"]) == (409, "conflict")
    await web.read({"jobs": [job]})
    assert (await web.client.get(f"/v1/documents/{job['document_id']}")).json()["status"] == "ready"
    assert len((await web.client.get(f"/v1/jobs/{job_id}")).json()["history"]) == 2


async def test_a_job_that_needs_a_model_is_not_retried_where_there_is_none() -> None:
    async with served() as web:
        document = await web.uploaded()
        async with web.runtime.documents.database.begin(TenantId("acme")) as tx:
            job = await tx.jobs.add(new_job(kind="summarize", document_id=DocumentId(UUID(document["id"]))))
            assert job is not None
            await tx.jobs.cancel(job.id)
        answer = await web.client.post(f"/v1/jobs/{job.id}/retry")
        assert (answer.status_code, answer.json()["code"]) == (409, "llm_not_configured")
