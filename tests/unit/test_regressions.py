"""Faults that using the service showed: each stays away."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from typing_extensions import override

from app.adapters.memory.doorbell import MemoryDoorbell
from app.cli import addresses
from app.client.faults import ApiFault
from app.domain.errors import NotFound
from app.domain.ids import uuid7
from app.domain.jobs import JobState
from app.services.documents import DocumentService
from tests.support.rig import Rig
from tests.unit.bench import Bench
from tests.unit.served import Served
from tests.unit.test_jobs_service import service
from tests.unit.test_uploads import Desk
from tests.unit.waiting import until


class Broken(MemoryDoorbell):
    """Refuses in a way that no adapter knows of."""

    @override
    async def ring(self, *_: Any, **__: Any) -> None:
        raise PermissionError("permission denied for table doorbells")


async def test_whatever_ails_the_queue_an_upload_is_accepted_and_the_failure_counted(rig: Rig) -> None:
    desk = Desk(rig, doorbell=Broken())
    tenant = await rig.tenant()
    accepted = await desk.upload(tenant)
    assert accepted.jobs[0].state is JobState.QUEUED
    assert desk.bells("failed") == 1


async def test_a_document_that_failed_is_tried_again_when_it_is_sent_again(rig: Rig) -> None:
    desk = Desk(rig)
    tenant = await rig.tenant()
    first = await desk.upload(tenant)
    async with rig.database.begin(tenant) as tx:
        await tx.jobs.cancel(first.jobs[0].id)
    await desk.rung()
    again = await desk.upload(tenant)
    assert again.deduplicated
    assert [job.state for job in again.jobs] == [JobState.QUEUED, JobState.CANCELLED]
    assert [ring.job_id for ring in await desk.rung()] == [again.jobs[0].id]


async def test_removing_a_document_again_removes_bytes_that_were_left(rig: Rig) -> None:
    desk = Desk(rig)
    tenant = await rig.tenant()
    accepted = await desk.upload(tenant)
    async with rig.database.begin(tenant) as tx:
        await tx.documents.remove(accepted.document.id)
    with pytest.raises(NotFound):
        await DocumentService(database=rig.database, blobs=desk.blobs).remove(tenant, accepted.document.id)
    assert await desk.counts(tenant) == (0, 0, 0)


async def test_who_waits_is_answered_when_the_service_stops(rig: Rig) -> None:
    jobs = service(Bench(rig=rig), rig.database)
    job = await rig.enqueue(await rig.tenant())
    answers = []

    async def ask() -> None:
        answers.append(await jobs.wait(job.tenant_id, job.id, at_most=timedelta(seconds=60)))

    asking = asyncio.create_task(ask())
    jobs.stopping.set()
    await until(lambda: bool(answers))
    assert answers[0][0].state is JobState.QUEUED
    await asking


async def test_who_is_not_known_is_told_before_the_body_is_read(web: Served) -> None:
    path = f"/v1/documents/{uuid7()}/jobs"
    for body in (b"[" * 100_000, b" " * 5_000_000):
        unknown = await web.client.post(path, content=body, headers={"Authorization": "Bearer daira_acme_wrong"})
        assert unknown.status_code == 401
        known = await web.client.post(path, content=body)
        assert known.status_code in {413, 422}


def test_the_key_of_the_local_service_is_sent_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAIRA_URL", "DAIRA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "dev.json").write_text('{"url": "http://127.0.0.1:8000", "api_key": "daira_dev_x"}')
    assert addresses.find(url=None, api_key=None, data_dir=tmp_path).api_key == "daira_dev_x"
    assert addresses.find(url="http://127.0.0.1:8000/", api_key=None, data_dir=tmp_path).api_key == "daira_dev_x"
    with pytest.raises(NotFound, match="DAIRA_API_KEY"):
        addresses.find(url="http://elsewhere", api_key=None, data_dir=tmp_path)


def test_whoever_has_named_a_data_dir_for_up_is_told_to_name_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DAIRA_URL", "DAIRA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NotFound, match="--data-dir"):
        addresses.find(url=None, api_key=None, data_dir=tmp_path)


def test_a_proxys_own_limit_of_a_requests_size_is_told_as_that() -> None:
    request = httpx.Request("POST", "http://proxy.test/v1/documents")
    answer = httpx.Response(413, request=request, html="<h1>413 Request Entity Too Large</h1>")
    assert "a proxy in front" in str(ApiFault.of(answer))
    assert "the right address?" in str(ApiFault.of(httpx.Response(200, request=request, html="<h1>Welcome</h1>")))
