"""The SQS doorbell keeps the contract, on a real server."""

import asyncio
import gc
import json
import warnings
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from uuid import uuid4

import aioboto3
import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from app.adapters.sqs.doorbell import SqsDoorbell
from app.domain.doorbells import ring_message
from app.domain.errors import Unavailable
from app.domain.ids import uuid7
from tests.conformance.doorbell_suite import (
    DEADLINE,
    LONG,
    NO_WAIT,
    SHORT,
    DoorbellSuite,
    answered,
    collected,
    new_rings,
    waiting,
)
from tests.support.ministack import Ministack
from tests.support.sqs import Raw, opened, set_credentials

JOB = str(uuid7())
HOSTILE = [
    "not JSON",
    '"a string"',
    "null",
    "[]",
    "{}",
    "[" * 1000,
    '{"tenant_id":' * 70,
    f'{{"job_id": "{JOB}"}}',
    '{"tenant_id": "acme"}',
    f'{{"tenant_id": "", "job_id": "{JOB}"}}',
    f'{{"tenant_id": null, "job_id": "{JOB}"}}',
    f'{{"tenant_id": 7, "job_id": "{JOB}"}}',
    f'{{"tenant_id": ["acme"], "job_id": "{JOB}"}}',
    f'{{"tenant_id": NaN, "job_id": "{JOB}"}}',
    f'{{"tenant_id": "acme\\u0000", "job_id": "{JOB}"}}',
    f'{{"tenant_id": "\\ud800", "job_id": "{JOB}"}}',
    f'{{"tenant_id": "ACME", "job_id": "{JOB}"}}',
    f'{{"tenant_id": "../bolt", "job_id": "{JOB}"}}',
    '{"tenant_id": "acme", "job_id": "12"}',
    '{"tenant_id": "acme", "job_id": NaN}',
    f'{{"tenant_id": "acme", "job_id": "{JOB}", "note": "{"x" * 1024}"}}',
    f'{{"tenant_id": "acme", "job_id": "{JOB}", "note": "{"é" * 600}"}}',
    "x" * 256 * 1024,
]


@pytest.fixture(scope="session")
def ministack() -> Iterator[Ministack]:
    ministack = Ministack()
    ministack.start()
    yield ministack
    ministack.close()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    set_credentials(monkeypatch)


@pytest.fixture
def queue() -> str:
    return f"daira-ocr-{uuid4().hex[:12]}"


@pytest.fixture
def dropped() -> list[int]:
    return []


@pytest.fixture
async def doorbell(ministack: Ministack, queue: str, dropped: list[int]) -> AsyncIterator[SqsDoorbell]:
    async with opened(queue, url=ministack.url, dropped=dropped.append) as doorbell:
        yield doorbell


@pytest.fixture
async def raw(ministack: Ministack, queue: str) -> AsyncIterator[Raw]:
    async with aioboto3.Session(region_name="us-east-1").client("sqs", endpoint_url=ministack.url) as client:
        yield Raw(client, (await client.create_queue(QueueName=queue))["QueueUrl"])


class TestSqsDoorbell(DoorbellSuite):
    @pytest.fixture(autouse=True)
    def _short_polls(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Closing waits for the last poll: five seconds for every second test would be minutes."""
        monkeypatch.setattr("app.adapters.sqs.doorbell.POLL", 1)

    @override
    def needs_fairness(self) -> None:
        pytest.skip("SQS itself decides the order; what it needs for that, the message group, has tests of its own")

    @pytest.mark.threat(32, 33)
    async def test_what_is_no_doorbell_is_deleted_and_counted_and_its_batch_mates_delivered(
        self, doorbell: SqsDoorbell, raw: Raw, dropped: list[int]
    ) -> None:
        rings = new_rings(2)
        extra = json.dumps({**json.loads(ring_message(rings[1])), "kind": "ocr", "priority": float("nan")})
        bodies = [ring_message(rings[0]), *HOSTILE, extra]
        # Six at a time: each kind shares its batch with others, and the first and the last with a doorbell.
        for body in bodies:
            await raw("send_message", MessageBody=body)
        with capture_logs() as logs:
            assert sorted(await collected(doorbell, 2, limit=6)) == sorted(rings)
            await raw.becomes_empty()
        assert sum(dropped) == sum(entry["count"] for entry in logs) == len(HOSTILE)
        assert {key for entry in logs for key in entry} == {"event", "log_level", "queue", "count"}

    async def test_a_flood_of_what_is_no_doorbell_ends_with_the_wait(
        self, doorbell: SqsDoorbell, raw: Raw, dropped: list[int]
    ) -> None:
        await asyncio.gather(*(raw("send_message", MessageBody="?") for _ in range(30)))
        assert await answered(doorbell, wait=NO_WAIT) == []
        assert await answered(doorbell, wait=timedelta(seconds=2)) == []
        assert sum(dropped) == 30
        await raw.becomes_empty()

    async def test_purging_the_queue_loses_bells_and_nothing_else(self, doorbell: SqsDoorbell, raw: Raw) -> None:
        await doorbell.ring(new_rings(3))
        await raw("purge_queue")
        assert await answered(doorbell, wait=SHORT) == []
        rings = new_rings(3)
        await doorbell.ring(rings)
        assert sorted(await collected(doorbell, 3)) == sorted(rings)

    async def test_an_unacknowledged_bell_comes_again_and_both_receipts_may_be_acknowledged(
        self, doorbell: SqsDoorbell, raw: Raw
    ) -> None:
        rings = new_rings()
        await doorbell.ring(rings)
        async with asyncio.timeout(DEADLINE):
            (first,) = await doorbell.answer(limit=1, wait=LONG)
            assert await doorbell.answer(limit=1, wait=SHORT) == []
            await raw("change_message_visibility", ReceiptHandle=first.receipt, VisibilityTimeout=1)
            (again,) = await doorbell.answer(limit=1, wait=LONG)
        assert again.ring == first.ring == rings[0]
        await doorbell.acknowledge([first])
        await doorbell.acknowledge([again, first])
        await raw.becomes_empty()

    async def test_an_acknowledged_bell_is_gone_from_the_queue(self, doorbell: SqsDoorbell, raw: Raw) -> None:
        await doorbell.ring(new_rings(12))
        assert len(await collected(doorbell, 12, limit=12)) == 12
        await raw.becomes_empty()

    async def test_a_delay_longer_than_the_queue_knows_is_no_error(self, doorbell: SqsDoorbell) -> None:
        await doorbell.ring(new_rings(), delay=timedelta(days=2))
        assert await answered(doorbell, wait=SHORT) == []

    async def test_a_worker_with_many_slots_is_answered_for_all_of_them_at_once(self, doorbell: SqsDoorbell) -> None:
        rings = new_rings(45)
        await doorbell.ring(rings)
        first = await answered(doorbell, limit=37)
        assert len(first) == 37
        assert sorted(first + await collected(doorbell, 8, limit=37)) == sorted(rings)

    async def test_a_wait_of_many_polls_ends_when_it_should(self, doorbell: SqsDoorbell) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        assert await answered(doorbell, wait=timedelta(seconds=2.5)) == []
        assert 2.4 <= loop.time() - start < 3.5

    async def test_a_bell_rung_late_in_a_wait_is_heard(self, doorbell: SqsDoorbell) -> None:
        waiter, rings = asyncio.create_task(answered(doorbell)), new_rings()
        # Beyond the first poll.
        assert not (await asyncio.wait({waiter}, timeout=1.5))[0]
        await doorbell.ring(rings)
        async with asyncio.timeout(2):
            assert await waiter == rings

    async def test_stopping_ends_a_wait_at_once_and_gives_back_what_came_meanwhile(
        self, doorbell: SqsDoorbell, ministack: Ministack, queue: str
    ) -> None:
        async with opened(queue, url=ministack.url) as other:
            waiter, rings = asyncio.create_task(doorbell.answer(limit=10, wait=LONG)), new_rings(3)
            assert not (await asyncio.wait({waiter}, timeout=SHORT.total_seconds()))[0]
            await doorbell.stop_answering()
            async with asyncio.timeout(1):
                assert await waiter == []
            # The poll that nobody waits for any more is still on, and hears them.
            await doorbell.ring(rings)
            async with asyncio.timeout(DEADLINE):
                await asyncio.wait(doorbell._background)
            assert sorted(await collected(other, 3)) == sorted(rings)

    async def test_closing_waits_for_the_last_poll_and_gives_its_bells_back(
        self, ministack: Ministack, queue: str, raw: Raw
    ) -> None:
        loop = asyncio.get_running_loop()
        async with opened(queue, url=ministack.url) as quitter:
            waiter, rings = asyncio.create_task(quitter.answer(limit=10, wait=LONG)), new_rings(3)
            assert not (await asyncio.wait({waiter}, timeout=SHORT.total_seconds()))[0]
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
            assert waiter.cancelled()
            await quitter.ring(rings)
            start = loop.time()
        assert loop.time() - start < 2
        assert await raw.bodies() == sorted(map(ring_message, rings))

    @pytest.mark.parametrize("step", range(12))
    async def test_a_wait_cancelled_while_it_rings_takes_no_bell_with_it(
        self, doorbell: SqsDoorbell, step: int
    ) -> None:
        waiter, rings = asyncio.create_task(doorbell.answer(limit=10, wait=LONG)), new_rings(3)
        await asyncio.wait({waiter}, timeout=SHORT.total_seconds())
        ringing = asyncio.create_task(doorbell.ring(rings))
        await asyncio.wait({waiter}, timeout=step / 500)
        waiter.cancel()
        (answer,) = await asyncio.gather(waiter, return_exceptions=True)
        await ringing
        taken = [delivery.ring for delivery in answer] if isinstance(answer, list) else []
        assert sorted(taken + await collected(doorbell, 3 - len(taken))) == sorted(rings)

    async def test_a_restarted_server_that_forgot_the_queue_is_served_again_within_seconds(
        self, doorbell: SqsDoorbell, ministack: Ministack
    ) -> None:
        waiter = await waiting(doorbell)
        ministack.stop()
        try:
            async with asyncio.timeout(DEADLINE * 2):
                for refused in [waiter, doorbell.ring(new_rings()), answered(doorbell), doorbell.ping()]:
                    with pytest.raises(Unavailable, match="can't be reached"):
                        await refused
        finally:
            ministack.start()
        rings = new_rings(3)
        async with asyncio.timeout(5):
            await doorbell.ring(rings)
            assert sorted(await collected(doorbell, 3)) == sorted(rings)
            await doorbell.ping()

    async def test_a_doorbell_that_was_opened_while_the_server_was_away_finds_its_queue_later(
        self, ministack: Ministack, queue: str
    ) -> None:
        ministack.stop()
        doorbell = SqsDoorbell(queue=queue, endpoint_url=ministack.url, region="us-east-1", dropped=lambda _: None)
        try:
            with pytest.raises(Unavailable, match="can't be reached"):
                await doorbell.open()
        finally:
            ministack.start()
        rings = new_rings(2)
        async with asyncio.timeout(DEADLINE):
            await doorbell.ring(rings)
            assert sorted(await collected(doorbell, 2)) == sorted(rings)
        await doorbell.close()

    async def test_a_doorbell_of_each_tenant_has_its_own_message_group(self, doorbell: SqsDoorbell, raw: Raw) -> None:
        await doorbell.ring(new_rings() + new_rings(tenant="bolt"))
        answer = await raw("receive_message", MaxNumberOfMessages=10, MessageSystemAttributeNames=["MessageGroupId"])
        assert sorted(each["Attributes"]["MessageGroupId"] for each in answer["Messages"]) == ["acme", "bolt"]

    async def test_two_that_open_the_same_new_queue_share_it(self, ministack: Ministack) -> None:
        name = f"daira-{uuid4().hex[:12]}"
        async with opened(name, url=ministack.url) as one, opened(name, url=ministack.url) as other:
            rings = new_rings()
            await one.ring(rings)
            assert await collected(other, 1) == rings

    async def test_closing_leaves_nothing_open(self, ministack: Ministack, queue: str) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            async with opened(queue, url=ministack.url) as doorbell:
                await doorbell.ring(new_rings(30))
                for given_up in [doorbell.answer(limit=30, wait=LONG), doorbell.ring(new_rings(200))]:
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(0.001):
                            await given_up
            await doorbell.close()
            del doorbell
            gc.collect()
        assert [str(each.message) for each in caught] == []
