"""Deliveries on Postgres, by workers that come and go, to a receiver that does all that receivers do."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook as Verifier

from app.adapters.webhook.sender import HttpWebhookSender
from app.adapters.webhook.targets import TargetResolver
from app.asgi import create_app
from app.bootstrap import Runtime, open_runtime
from app.domain.ids import TenantId
from app.domain.jobs import JobError
from app.domain.keys import Scope
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Fail, Outcome
from app.domain.webhooks import Event
from app.handlers.webhook import WebhookHandler
from app.handlers.webhook_slots import EndpointSlots
from app.ports.leases import ProgressReporter
from app.settings import Settings
from app.telemetry import Metrics
from tests.support.databases import Cloned
from tests.support.receiver import Receiver, receiving

ACME, BOLT = TenantId("acme"), TenantId("bolt")
SOON = (timedelta(milliseconds=10),)
"""Between tries: the least wait that there is, a second, then holds."""


@dataclass(frozen=True, kw_only=True)
class Scripted:
    """Does what a document's file name says."""

    runtime: list[Runtime]
    kind: str = "ocr"

    async def run(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:  # noqa: ARG002
        assert job.document_id is not None
        database = self.runtime[0].documents.database
        async with database.begin(job.lease.tenant_id) as tx:
            document = await tx.documents.get(job.document_id)
        assert document is not None
        if document.filename.startswith("fail"):
            return Fail(JobError(code="corrupt", message="it can't be read"))
        if document.filename.startswith("wait"):
            await asyncio.Event().wait()
        return Done()


@dataclass(frozen=True, kw_only=True)
class House:
    runtime: Runtime
    client: httpx.AsyncClient

    async def upload(self, filename: str) -> dict[str, Any]:
        content = f"%PDF-1.7 {filename}".encode()
        answer = await self.client.post("/v1/documents", files={"file": (filename, content)})
        assert answer.status_code == 202, answer.text
        job: dict[str, Any] = answer.json()["jobs"][0]
        return job

    async def webhook(self, receiver: Receiver, **fields: Any) -> dict[str, Any]:
        answer = await self.client.post("/v1/webhooks", json={"url": receiver.url} | fields)
        assert answer.status_code == 201, answer.text
        body: dict[str, Any] = answer.json()
        return body

    async def deliveries(self, webhook: dict[str, Any]) -> list[dict[str, Any]]:
        answer = await self.client.get(f"/v1/webhooks/{webhook['id']}/deliveries")
        found: list[dict[str, Any]] = answer.json()["data"]
        return found

    async def ended(self, job_id: str) -> dict[str, Any]:
        job: dict[str, Any] = (await self.client.get(f"/v1/jobs/{job_id}", params={"wait": 30})).json()
        assert job["state"] not in {"queued", "claimed"}, job
        return job


@asynccontextmanager
async def a_house(cloned: Cloned, *, key: str | None = None) -> AsyncIterator[tuple[House, str]]:
    """The whole service in this process, with its worker; leaving stops it as SIGTERM does."""
    settings = Settings(
        _env_file=None,
        database_url=cloned.app_url,
        blob_url="memory://",
        role="all",
        ocr="null",
        webhook_allow_private=True,
        sweep_seconds=1,
        grace_seconds=0,
    )
    opened: list[Runtime] = []
    targets = TargetResolver(allow_private=True, allow_http=True)
    sender = HttpWebhookSender(targets, total=1.5)
    scripted = Scripted(runtime=opened)
    webhooks = Deferred(opened, sender)
    app = create_app(settings)
    async with open_runtime(settings, Metrics(), handlers=[scripted, webhooks]) as runtime:
        opened.append(runtime)
        app.state.runtime = runtime
        if key is None:
            await runtime.tenants.create(ACME)
            key = await runtime.tenants.issue_key(ACME, name="a key", scopes=frozenset({Scope.ADMIN}))
        assert runtime.worker is not None
        runtime.worker.start()
        header = {"Authorization": f"Bearer {key}"}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://daira.test", headers=header) as client:
            yield House(runtime=runtime, client=client), key
        await runtime.worker.stop()
    await sender.close()


class Deferred:
    """Daira's own handler, in a hurry; it needs the database that the runtime is about to open."""

    kind = "webhook"

    def __init__(self, opened: list[Runtime], sender: HttpWebhookSender) -> None:
        self._opened = opened
        self._sender = sender
        self._shares = EndpointSlots(slots=16)

    async def run(self, job: ClaimedJob, reporter: ProgressReporter) -> Outcome:
        database = self._opened[0].documents.database
        handler = WebhookHandler(database=database, sender=self._sender, shares=self._shares, waits=SOON)
        return await handler.run(job, reporter)


async def test_a_delivery_outlives_a_receiver_in_trouble_and_restarts_of_the_service(cloned: Cloned) -> None:
    """500, 500, timeout, 301, 429 with Retry-After, then 200; the service is another one after each of the first."""
    async with receiving() as receiver, receiving() as elsewhere:
        receiver.script("500", "500", "hang", f"301:{elsewhere.url}", "429:1", "200")
        async with a_house(cloned) as (house, key):
            webhook = await house.webhook(receiver)
            job = await house.upload("done.pdf")
            await receiver.until(1)
        rotated = webhook
        for count in (2, 3):
            async with a_house(cloned, key=key) as (house, _):
                if count == 2:
                    rotated = (await house.client.post(f"/v1/webhooks/{webhook['id']}/rotate")).json()
                await receiver.until(count)
        async with a_house(cloned, key=key) as (house, _):
            await receiver.until(6)
            (delivery,) = await house.deliveries(webhook)
            await house.ended(delivery["id"])
            (delivery,) = await house.deliveries(webhook)
        log = receiver.log
        assert len(log) == 6
        assert elsewhere.connections == 0
        assert {received.headers["webhook-id"] for received in log} == {delivery["id"]}
        assert len({received.body for received in log}) == 1
        stamps = [int(received.headers["webhook-timestamp"]) for received in log]
        assert stamps == sorted(stamps)
        assert stamps[-1] > stamps[0]
        for number, received in enumerate(log):
            secrets = [webhook["secret"]] + [rotated["secret"]] * (number > 1)
            for secret in secrets:
                event = Verifier(secret).verify(received.body, received.headers)
                assert (event["type"], event["data"]["id"]) == ("job.done", job["id"])
        assert (delivery["state"], delivery["status"]) == ("done", 200)
        # The third was cut short by the end of the service, or went on in the next: either way it is in the log.
        outcomes = [(entry["outcome"], entry["error"] and entry["error"]["code"]) for entry in delivery["history"]]
        assert outcomes[0] == ("retry", "status_500")
        assert outcomes[-3:] == [("retry", "status_301"), ("retry", "status_429"), ("done", None)]


async def test_after_gone_nothing_is_sent_and_a_replay_is_once_it_is_enabled(cloned: Cloned) -> None:
    async with receiving() as receiver, a_house(cloned) as (house, _):
        receiver.script("410")
        webhook = await house.webhook(receiver, events=["job.failed"])
        await house.upload("done.pdf")
        job = await house.upload("fail.pdf")
        await receiver.until(1)
        (delivery,) = await house.deliveries(webhook)
        assert (await house.ended(delivery["id"]))["state"] == "failed"
        assert (await house.client.get(f"/v1/webhooks/{webhook['id']}")).json()["disabled_at"]
        await house.ended((await house.upload("fail again.pdf"))["id"])
        assert len(await house.deliveries(webhook)) == 1

        assert (await house.client.post(f"/v1/webhooks/{webhook['id']}/enable")).status_code == 200
        assert (await house.client.post(f"/v1/jobs/{delivery['id']}/retry")).status_code == 200
        await receiver.until(2)
        assert (await house.ended(delivery["id"]))["state"] == "done"
        first, second = receiver.log
        assert first.headers["webhook-id"] == second.headers["webhook-id"] == delivery["id"]
        assert first.body == second.body
        event = Verifier(webhook["secret"]).verify(second.body, second.headers)
        assert (event["type"], event["data"]["id"], event["data"]["error"]["code"]) == (
            "job.failed",
            job["id"],
            "corrupt",
        )


@pytest.mark.threat(64)
async def test_a_cancelled_job_is_told_of_once_and_another_tenants_receiver_hears_nothing(cloned: Cloned) -> None:
    async with receiving() as receiver, receiving() as other, a_house(cloned) as (house, _):
        await house.webhook(receiver)
        await house.runtime.tenants.create(BOLT)
        await house.runtime.webhooks.add(BOLT, url=other.url, events=[*Event], description="")
        job = await house.upload("wait.pdf")
        for _ in range(2):
            answer = await house.client.post(f"/v1/jobs/{job['id']}/cancel")
            assert answer.status_code == 200
        assert (await house.ended(job["id"]))["state"] == "cancelled"
        await receiver.until(1)
        # What is told of afterwards comes afterwards: there is no second one on its way.
        await house.upload("done.pdf")
        await receiver.until(2)
        types = [json.loads(received.body)["type"] for received in receiver.log]
        assert types == ["job.cancelled", "job.done"]
        assert other.connections == 0
