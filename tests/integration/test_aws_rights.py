"""Web and worker get of Amazon what they ask for, each its own, and nothing that neither ever asks for."""

import ast
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import aiobotocore.client
import botocore.session
import pytest
from botocore import xform_name

from app.adapters.postgres.engine import administer
from app.bootstrap import Runtime, open_runtime
from app.domain.errors import TooLarge
from app.domain.ids import TenantId, uuid7
from app.services.uploads import JobRequest
from app.settings import Role, Settings
from app.telemetry import Metrics
from tests.support.databases import Cloned
from tests.support.deployments import ROOT, TEMPLATE, read
from tests.support.ministack import Ministack
from tests.support.s3 import REGION, Raw, raw_client, set_credentials
from tests.unit.waiting import until

ACME = TenantId("acme")
ALLOWED = {
    "put_object": "s3:PutObject",
    "create_multipart_upload": "s3:PutObject",
    "upload_part": "s3:PutObject",
    "complete_multipart_upload": "s3:PutObject",
    "abort_multipart_upload": "s3:AbortMultipartUpload",
    "get_object": "s3:GetObject",
    "head_object": "s3:GetObject",
    "delete_object": "s3:DeleteObject",
    "delete_objects": "s3:DeleteObject",
    "list_objects_v2": "s3:ListBucket",
    "list_multipart_uploads": "s3:ListBucketMultipartUploads",
    "get_queue_url": "sqs:GetQueueUrl",
    "create_queue": "sqs:CreateQueue",
    "send_message_batch": "sqs:SendMessage",
    "receive_message": "sqs:ReceiveMessage",
    "delete_message_batch": "sqs:DeleteMessage",
    "change_message_visibility_batch": "sqs:ChangeMessageVisibility",
}
"""By operation, the right that Amazon asks for: Service Authorization Reference, S3 and SQS."""

ONLY_WHEN_STOPPED = {"sqs:ChangeMessageVisibility"}
"""Bells that were just received are handed back: nothing that a test can wait for."""


@pytest.fixture(scope="module")
def server() -> Iterator[Ministack]:
    server = Ministack()
    server.start()
    yield server
    server.close()


@pytest.fixture
async def settings(server: Ministack, cloned: Cloned, monkeypatch: pytest.MonkeyPatch) -> Settings:
    set_credentials(monkeypatch)
    async with raw_client(server.url) as client:
        raw = Raw(client=client)
        await raw("create_bucket")
    return Settings(
        _env_file=None,
        database_url=cloned.app_url,
        queue_url=f"sqs://daira-{uuid7().hex[:8]}",
        blob_url=f"s3://{raw.name}/production",
        aws_endpoint_url=server.url,
        aws_region=REGION,
        ocr="null",
        sweep_seconds=1,
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The rights that were asked for so far."""
    rights: set[str] = set()
    call = aiobotocore.client.AioBaseClient._make_api_call

    async def noted(client: Any, operation: str, arguments: Any) -> Any:
        rights.add(ALLOWED[xform_name(operation)])
        return await call(client, operation, arguments)

    monkeypatch.setattr(aiobotocore.client.AioBaseClient, "_make_api_call", noted)
    return rights


@pytest.fixture
def waste_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.services.purging.ORPHAN_AFTER", timedelta())


def granted(role: str) -> set[str]:
    (policy,) = read(TEMPLATE)[0]["Resources"][role]["Properties"]["Policies"]
    return {action for statement in policy["PolicyDocument"]["Statement"] for action in statement["Action"]}


def operations(folder: str) -> set[str]:
    """All that the code of an adapter names, and that is an operation of its service."""
    names = {xform_name(name) for name in botocore.session.get_session().get_service_model(folder).operation_names}
    words: set[str] = set()
    for path in (ROOT / "app" / "adapters" / folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            words |= {str(node.value)} if isinstance(node, ast.Constant) else set()
            words |= {node.attr} if isinstance(node, ast.Attribute) else set()
    return names & words


def test_together_they_have_the_rights_that_the_code_asks_for() -> None:
    needed = {ALLOWED[name] for name in operations("s3") | operations("sqs")}
    # The template makes the queues.
    assert granted("WebRole") | granted("WorkerRole") == needed - {"sqs:CreateQueue"}


async def test_the_web_has_what_it_asks_for(settings: Settings, asked: set[str]) -> None:
    await queues(settings, asked)
    async with open_runtime(settings.model_copy(update={"role": Role.WEB}), Metrics()) as web:
        for ping in web.pings.values():
            await ping()
        document = await uploaded(web, b"%PDF-1.7 short")
        assert b"".join([chunk async for chunk in web.outputs.part(document, start=0, end=3)])
        await uploaded(web, b"%PDF-1.7 " + bytes(9 * 2**20))
        with pytest.raises(TooLarge):
            await web.uploads.receive(
                ACME, chunks(b"%PDF-1.7 " + bytes(20 * 2**20)), max_bytes=19 * 2**20, begun_at=datetime.now(UTC)
            )
        await web.documents.remove(ACME, document.id)
    assert asked == granted("WebRole")


@pytest.mark.usefixtures("waste_is_old")
async def test_a_worker_has_what_it_asks_for(
    settings: Settings, asked: set[str], server: Ministack, cloned: Cloned
) -> None:
    await queues(settings, asked)
    async with open_runtime(settings.model_copy(update={"role": Role.WEB}), Metrics()) as web:
        document = await uploaded(web, b"%PDF-1.7 to be read")
    async with administer(cloned.admin_url) as admin:
        await admin.execute("update daira.jobs set ring_after = now()")
    bucket = settings.blob_url.split("/")[2]
    async with raw_client(server.url) as client:
        await Raw(client=client, name=bucket)("put_object", Key=f"production/acme/{uuid7()}", Body=b"orphan")
        await Raw(client=client, name=bucket)("create_multipart_upload", Key=f"production/acme/{uuid7()}")
    asked.clear()
    async with open_runtime(settings.model_copy(update={"role": Role.WORKER}), Metrics()) as working:
        assert working.worker is not None
        assert await working.sweeping.sweep() == 1
        working.worker.start()
        await until(lambda: is_read(working, document.id))
        purged = await working.purging.purge()
        assert (purged.orphans, purged.unfinished) == (1, 1)
        for ping in working.pings.values():
            await ping()
        await working.worker.stop()
    assert asked | ONLY_WHEN_STOPPED == granted("WorkerRole")


async def queues(settings: Settings, asked: set[str]) -> None:
    """Made before, as the template makes them."""
    async with open_runtime(settings.model_copy(update={"role": Role.WEB}), Metrics()) as web:
        await web.tenants.create(ACME)
    asked.clear()


async def uploaded(web: Runtime, content: bytes) -> Any:
    received = await web.uploads.receive(ACME, chunks(content), max_bytes=2**30, begun_at=datetime.now(UTC))
    accepted = await web.uploads.accept(
        received,
        filename="a.pdf",
        language="eng",
        metadata={},
        requests=[JobRequest(kind="ocr", payload={})],
        max_queued=100,
    )
    return accepted.document


async def is_read(working: Runtime, document_id: Any) -> bool:
    listed = await working.documents.get(ACME, document_id)
    return listed.jobs[0].state == "done"


async def chunks(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 2**20):
        yield content[start : start + 2**20]
