"""The `webhook` job on the memory store, against a receiver on loopback that verifies with the public library."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from app.adapters.webhook.sender import HttpWebhookSender
from app.adapters.webhook.targets import TargetResolver
from app.domain.ids import TenantId
from app.domain.jobs import AttemptOutcome, Job, JobState
from app.domain.leases import ClaimedJob
from app.domain.outcomes import Done, Fail, Outcome, Retry, Snooze, Suspect, settlement
from app.domain.webhooks import KIND as WEBHOOK
from app.domain.webhooks import LONGEST_WAIT, WAITS, Event, Webhook, new_secret
from app.handlers.webhook import LARGEST_METADATA, WebhookHandler
from app.handlers.webhook_slots import LONGEST_WAIT as LONGEST_SNOOZE
from app.handlers.webhook_slots import EndpointBusy, EndpointSlots
from tests.support.receiver import Receiver, receiving
from tests.support.rig import SECOND, OtherTime, Rig, done, fail, new_delivery, new_webhook
from tests.unit.bench import a_hold

DAY = timedelta(days=1)


@dataclass(kw_only=True)
class Desk:
    """A tenant with one webhook, and the handler that serves it."""

    rig: Rig
    receiver: Receiver
    handler: WebhookHandler
    tenant: TenantId
    webhook: Webhook

    async def ended(self, **fields: Any) -> Job:
        """A job that is done."""
        job = await self.rig.enqueue(self.tenant, **fields)
        assert await self.rig.settle(done(await self.rig.lease(job)))
        return job

    async def deliveries(self) -> list[Job]:
        """Oldest first."""
        async with self.rig.database.begin(self.tenant) as tx:
            return (await tx.jobs.newest(kind=WEBHOOK))[::-1]

    async def delivery(self, **fields: Any) -> Job:
        await self.ended(**fields)
        return (await self.deliveries())[-1]

    async def run(self, job: Job) -> Outcome:
        """One attempt: claimed, tried, settled."""
        claimed = await self.rig.claimed(job)
        outcome = await self.handler.run(claimed, a_hold(claimed))
        await self._settle(claimed, outcome)
        return outcome

    async def _settle(self, claimed: ClaimedJob, outcome: Outcome) -> None:
        assert not isinstance(outcome, Suspect)
        async with self.rig.database.begin(self.tenant) as tx:
            assert await tx.jobs.settle(settlement(claimed, outcome, jitter=0))
            if isinstance(outcome, Done) and outcome.apply is not None:
                await outcome.apply(tx)

    async def again(self) -> Webhook:
        async with self.rig.database.begin(self.tenant) as tx:
            webhook = await tx.webhooks.get(self.webhook.id)
        assert webhook is not None
        return webhook

    def verified(self, secret: str | None = None, *, of: int = -1) -> Any:
        received = self.receiver.log[of]
        return Verifier(secret or self.webhook.secret).verify(received.body, received.headers)


@pytest.fixture
async def desk(rig: Rig) -> AsyncIterator[Desk]:
    tenant = await rig.tenant()
    sender = HttpWebhookSender(TargetResolver(allow_private=True, allow_http=True), total=2)
    async with receiving() as receiver:
        webhook = await rig.webhook(tenant, url=receiver.url)
        handler = WebhookHandler(database=rig.database, sender=sender, shares=EndpointSlots(slots=16))
        yield Desk(rig=rig, receiver=receiver, handler=handler, tenant=tenant, webhook=webhook)
    await sender.close()


async def test_a_delivery_verifies_with_the_public_library_and_says_what_has_ended(desk: Desk) -> None:
    document = await desk.rig.document(desk.tenant, metadata={"case": "ü-7"})
    job = await desk.ended(document_id=document.id)
    (sent,) = await desk.deliveries()
    assert isinstance(await desk.run(sent), Done)
    event = desk.verified()
    ended = await desk.rig.again(job)
    assert event["type"] == "job.done"
    assert datetime.fromisoformat(event["timestamp"]) == ended.finished_at
    assert event["data"]["id"] == str(job.id)
    assert event["data"]["document_id"] == str(document.id)
    assert (event["data"]["kind"], event["data"]["state"], event["data"]["error"]) == ("ocr", "done", None)
    assert event["data"]["metadata"] == {"case": "ü-7"}
    assert not event["data"].keys() & {"result", "payload", "text"}
    assert desk.receiver.last.headers["webhook-id"] == str(sent.id)
    assert desk.receiver.last.headers["content-type"] == "application/json"
    after = await desk.rig.again(sent)
    assert (after.state, after.result) == (JobState.DONE, {"status": 204})


async def test_a_failure_is_told_with_its_error(desk: Desk) -> None:
    job = await desk.rig.enqueue(desk.tenant)
    assert await desk.rig.settle(fail(await desk.rig.lease(job)))
    (sent,) = await desk.deliveries()
    await desk.run(sent)
    event = desk.verified()
    assert (event["type"], event["data"]["error"]["code"]) == ("job.failed", "oops")


async def test_metadata_that_would_make_the_delivery_large_is_left_out(desk: Desk) -> None:
    document = await desk.rig.document(desk.tenant, metadata={"text": "x" * LARGEST_METADATA})
    await desk.run(await desk.delivery(document_id=document.id))
    assert desk.verified()["data"]["metadata"] is None
    assert len(desk.receiver.last.body) < 20_000


async def test_every_try_has_the_same_id_and_bytes_and_a_time_of_its_own(desk: Desk) -> None:
    """Also after a retry of the job, and with a replay: what is told is how it was when it ended."""
    now = datetime.now(UTC)
    desk.handler = replace(desk.handler, database=OtherTime(database=desk.rig.database, now=lambda: now))
    job = await desk.rig.enqueue(desk.tenant)
    assert await desk.rig.settle(fail(await desk.rig.lease(job)))
    (sent,) = await desk.deliveries()
    desk.receiver.script("500", "503")
    for _ in range(3):
        await desk.run(sent)
        now += SECOND
        await desk.rig.advance(DAY)
        async with desk.rig.database.begin(desk.tenant) as tx:
            await tx.jobs.retry(job.id, states=[JobState.FAILED])
    async with desk.rig.database.begin(desk.tenant) as tx:
        assert await tx.jobs.retry(sent.id, states=[JobState.DONE])
    await desk.run(sent)
    log = desk.receiver.log
    assert len(log) == 4
    assert {received.headers["webhook-id"] for received in log} == {str(sent.id)}
    assert len({received.body for received in log}) == 1
    assert len({received.headers["webhook-timestamp"] for received in log}) == 4
    assert len({received.headers["webhook-signature"] for received in log}) == 4
    for number in range(4):
        assert desk.verified(of=number)["type"] == "job.failed"


@pytest.mark.threat(63)
@pytest.mark.parametrize("part", ["body", "webhook-id", "webhook-timestamp", "webhook-signature"])
async def test_whatever_part_of_a_delivery_is_altered_the_library_refuses_it(desk: Desk, part: str) -> None:
    await desk.run(await desk.delivery())
    received = desk.receiver.last
    forged = {"webhook-id": "another", "webhook-signature": "v1," + "A" * 43 + "="}
    forged["webhook-timestamp"] = str(int(received.headers["webhook-timestamp"]) + 1)
    body = received.body.replace(b"done", b"failed") if part == "body" else received.body
    headers = received.headers | ({} if part == "body" else {part: forged[part]})
    with pytest.raises(WebhookVerificationError):
        Verifier(desk.webhook.secret).verify(body, headers)


@pytest.mark.threat(63)
async def test_a_delivery_that_is_replayed_later_by_somebody_else_is_refused(desk: Desk) -> None:
    long_ago = datetime.now(UTC) - timedelta(minutes=10)
    desk.handler = replace(desk.handler, database=OtherTime(database=desk.rig.database, now=lambda: long_ago))
    await desk.run(await desk.delivery())
    with pytest.raises(WebhookVerificationError, match="too old"):
        desk.verified()


@pytest.mark.threat(63)
async def test_during_the_overlap_both_secrets_verify_and_afterwards_the_new_one_alone(desk: Desk) -> None:
    secret = new_secret()
    async with desk.rig.database.begin(desk.tenant) as tx:
        rotated = await tx.webhooks.rotate(desk.webhook.id, secret=secret, overlap=DAY)
    assert rotated is not None
    await desk.run(await desk.delivery())
    assert desk.verified(secret) == desk.verified(desk.webhook.secret)
    overlap_ends = rotated.previous_until
    assert overlap_ends is not None
    desk.handler = replace(desk.handler, database=OtherTime(database=desk.rig.database, now=lambda: overlap_ends))
    await desk.run(await desk.delivery())
    signed = desk.receiver.last.headers["webhook-signature"]
    assert len(signed.split()) == 1
    received = desk.receiver.last
    timestamp = datetime.fromtimestamp(int(received.headers["webhook-timestamp"]), tz=UTC)
    assert signed == Verifier(secret).sign(received.headers["webhook-id"], timestamp, received.body.decode())


@pytest.mark.parametrize("behaviour", ["500", "404", "301:http://127.0.0.1:1/", "100", "cut", "nonsense"])
async def test_all_but_success_is_tried_again_by_the_schedule(desk: Desk, behaviour: str) -> None:
    sent = await desk.delivery()
    for wait in WAITS:
        desk.receiver.script(behaviour)
        outcome = await desk.run(sent)
        assert isinstance(outcome, Retry)
        assert outcome.after is not None
        assert wait <= outcome.after <= wait * 1.1
        await desk.rig.advance(outcome.after)
    desk.receiver.script(behaviour)
    await desk.run(sent)
    last = await desk.rig.again(sent)
    assert (last.state, last.attempts, last.failures) == (JobState.FAILED, 10, 10)
    assert len(desk.receiver.log) == 10


async def test_after_tries_without_end_a_webhook_that_nothing_reaches_is_disabled(desk: Desk) -> None:
    desk.receiver.default = "500"
    healthy, dead = await desk.delivery(), await desk.delivery()
    for job in (healthy, dead):
        for _ in WAITS:
            await desk.run(job)
            await desk.rig.advance(DAY * 1.1)
        if job is healthy:
            desk.receiver.script("204")
            await desk.run(await desk.delivery())
        await desk.run(job)
        assert (await desk.rig.again(job)).state is JobState.FAILED
        # What succeeded meanwhile speaks for the receiver.
        assert (await desk.again()).disabled_at is None
    latest = await desk.delivery()
    for _ in range(10):
        await desk.run(latest)
        await desk.rig.advance(DAY * 1.1)
    assert (await desk.again()).disabled_at is not None
    assert (await desk.deliveries())[-1].id == latest.id
    await desk.ended()
    assert (await desk.deliveries())[-1].id == latest.id


async def test_gone_disables_the_webhook_and_what_waits_ends_without_a_request(desk: Desk) -> None:
    first, second = await desk.delivery(), await desk.delivery()
    desk.receiver.script("410")
    assert isinstance(await desk.run(first), Fail)
    disabled = await desk.again()
    assert disabled.disabled_at is not None
    assert disabled.disabled_reason == "the receiver answered 410 Gone"
    outcome = await desk.run(second)
    assert isinstance(outcome, Fail)
    assert outcome.reason.code == "webhook_disabled"
    assert len(desk.receiver.log) == 1
    await desk.ended()
    assert len(await desk.deliveries()) == 2


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [
        ("429:60", timedelta(seconds=60), timedelta(seconds=60)),
        ("503:60", timedelta(seconds=60), timedelta(seconds=60)),
        # Sooner than the schedule would use up all tries in no time.
        ("429:0", WAITS[0], WAITS[0] * 1.1),
        ("429:99999999", LONGEST_WAIT, LONGEST_WAIT * 1.1),
        ("500:60", WAITS[0], WAITS[0] * 1.1),
    ],
)
async def test_a_receiver_may_ask_for_more_time(desk: Desk, asked: str, least: timedelta, most: timedelta) -> None:
    sent = await desk.delivery()
    desk.receiver.script(asked)
    outcome = await desk.run(sent)
    assert isinstance(outcome, Retry)
    assert outcome.after is not None
    assert least <= outcome.after <= most
    assert outcome.reason.code == f"status_{asked[:3]}"


async def test_of_a_deleted_webhook_or_job_nothing_is_sent(desk: Desk) -> None:
    document = await desk.rig.document(desk.tenant)
    of_document, other = await desk.delivery(document_id=document.id), await desk.delivery()
    assert await desk.rig.remove(document)
    outcome = await desk.run(of_document)
    assert isinstance(outcome, Fail)
    assert outcome.reason.code == "job_gone"
    async with desk.rig.database.begin(desk.tenant) as tx:
        await tx.webhooks.remove(desk.webhook.id)
    outcome = await desk.run(other)
    assert isinstance(outcome, Fail)
    assert outcome.reason.code == "webhook_gone"
    assert desk.receiver.connections == 0


@pytest.mark.threat(64)
async def test_a_delivery_that_names_another_tenants_webhook_or_job_sends_nothing(desk: Desk) -> None:
    """Forged by whatever could write a job of this tenant's: both are looked up under its own clamp."""
    bolt = await desk.rig.tenant("bolt")
    theirs = await desk.rig.webhook(bolt, url=desk.receiver.url)
    their_job = await desk.rig.enqueue(bolt)
    forged = [
        new_delivery(theirs.id, event="job.done", data={}),
        new_delivery(desk.webhook.id, event="job.done", data={}, job_id=their_job.id),
    ]
    for new in forged:
        async with desk.rig.database.begin(desk.tenant) as tx:
            job = await tx.jobs.add(new)
        assert job is not None
        assert isinstance(await desk.run(job), Fail)
    assert desk.receiver.connections == 0


async def test_each_attempt_is_in_the_history_with_its_status(desk: Desk) -> None:
    sent = await desk.delivery()
    desk.receiver.script("500", "429:1", "200")
    for _ in range(3):
        await desk.run(sent)
        await desk.rig.advance(DAY)
    history = await desk.rig.attempts(sent)
    assert [entry.outcome for entry in history] == [AttemptOutcome.RETRY, AttemptOutcome.RETRY, AttemptOutcome.DONE]
    assert [entry.error and entry.error.code for entry in history] == ["status_500", "status_429", None]
    assert (await desk.rig.again(sent)).result == {"status": 200}


@pytest.mark.threat(65)
async def test_a_slow_receiver_has_a_share_of_the_slots_and_others_are_served_meanwhile(desk: Desk) -> None:
    """Whoever finds its share taken comes again later, at no cost."""
    desk.receiver.default = "wait"
    slow = [await desk.delivery() for _ in range(6)]
    tasks = [asyncio.create_task(desk.run(job)) for job in slow]
    async with asyncio.timeout(10):
        while desk.receiver.active < 4 or sum(task.done() for task in tasks) < 2:
            await asyncio.sleep(0.005)
    async with receiving() as quick:
        other = new_webhook(desk.tenant, url=quick.url, events=frozenset({Event.JOB_FAILED}))
        async with desk.rig.database.begin(desk.tenant) as tx:
            await tx.webhooks.add(other)
            job = await tx.jobs.add(new_delivery(other.id, event="webhook.test", data={}))
        assert job is not None
        assert isinstance(await desk.run(job), Done)
    desk.receiver.gate.set()
    outcomes = await asyncio.gather(*tasks)
    assert sum(isinstance(outcome, Done) for outcome in outcomes) == 4
    snoozed = [outcome for outcome in outcomes if isinstance(outcome, Snooze)]
    assert len(snoozed) == 2
    assert desk.receiver.most == 4
    assert [(await desk.rig.again(job)).failures for job in slow] == [0] * 6


def test_those_who_are_sent_away_are_told_to_come_one_after_another() -> None:
    now = 0.0
    shares = EndpointSlots(slots=4, clock=lambda: now)
    waits = []
    with shares.place(tenant="acme", endpoint=1):
        for _ in range(3):
            with pytest.raises(EndpointBusy) as busy, shares.place(tenant="acme", endpoint=1):
                pass
            waits.append(busy.value.after.total_seconds())
    assert waits == sorted(set(waits))
    with shares.place(tenant="acme", endpoint=1):
        now = 10_000.0
    assert shares._lines == {}
    with shares.place(tenant="acme", endpoint=1):
        for _ in range(10_000):
            with suppress(EndpointBusy), shares.place(tenant="acme", endpoint=1):
                pass
        with pytest.raises(EndpointBusy) as far, shares.place(tenant="acme", endpoint=1):
            pass
    assert far.value.after == LONGEST_SNOOZE


def test_a_tenant_has_no_more_than_half_of_the_slots_however_many_webhooks_it_has() -> None:
    shares = EndpointSlots(slots=4)
    with shares.place(tenant="acme", endpoint=1), shares.place(tenant="acme", endpoint=2):
        with pytest.raises(EndpointBusy), shares.place(tenant="acme", endpoint=3):
            pass
        with shares.place(tenant="bolt", endpoint=3):
            pass


@pytest.mark.threat(69)
async def test_no_secret_body_or_query_is_in_an_error(desk: Desk) -> None:
    async with desk.rig.database.begin(desk.tenant) as tx:
        await tx.webhooks.remove(desk.webhook.id)
    await desk.receiver.stop()
    await desk.rig.webhook(desk.tenant, url=desk.receiver.url + "?token=sesame")
    sent = await desk.delivery()
    await desk.run(sent)
    error = (await desk.rig.again(sent)).error
    assert error is not None
    told = json.dumps([error.code, error.message])
    assert not [part for part in ("sesame", "whsec_", "127.0.0.1", str(desk.receiver.port)) if part in told]
