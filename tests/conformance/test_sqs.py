"""The SQS doorbell keeps the contract on a real server; what no server can be made to do, a scripted one does."""

import asyncio
import gc
import json
import warnings
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import aioboto3
import pytest
from structlog.testing import capture_logs

from app.adapters.sqs.batches import Entry, in_batches
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
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up-secret")
    for name in ["AWS_SESSION_TOKEN", "AWS_PROFILE"]:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def queue() -> str:
    return f"daira-ocr-{uuid4().hex[:12]}"


@pytest.fixture
def dropped() -> list[int]:
    return []


@asynccontextmanager
async def opened(
    queue: str, *, url: str, dropped: Callable[[int], object] = lambda _: None, fair: bool = True
) -> AsyncIterator[SqsDoorbell]:
    doorbell = SqsDoorbell(queue=queue, endpoint_url=url, region="us-east-1", dropped=dropped, fair=fair)
    await doorbell.open()
    try:
        yield doorbell
    finally:
        await doorbell.close()
        assert not doorbell._background


@pytest.fixture
async def doorbell(ministack: Ministack, queue: str, dropped: list[int]) -> AsyncIterator[SqsDoorbell]:
    async with opened(queue, url=ministack.url, dropped=dropped.append) as doorbell:
        yield doorbell


class Raw:
    """The queue, without our adapter."""

    def __init__(self, client: Any, url: str) -> None:
        self._client = client
        self._url = url

    async def __call__(self, operation: str, **arguments: object) -> dict[str, Any]:
        answer: dict[str, Any] = await getattr(self._client, operation)(QueueUrl=self._url, **arguments)
        return answer

    async def bodies(self) -> list[str]:
        """Of the messages that anybody could receive now."""
        answer = await self("receive_message", MaxNumberOfMessages=10, WaitTimeSeconds=0)
        return sorted(message["Body"] for message in answer.get("Messages", []))

    async def becomes_empty(self) -> None:
        counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        async with asyncio.timeout(DEADLINE):
            while any(map(int, (await self("get_queue_attributes", AttributeNames=counts))["Attributes"].values())):
                await asyncio.sleep(0.02)


@pytest.fixture
async def raw(ministack: Ministack, queue: str) -> AsyncIterator[Raw]:
    async with aioboto3.Session(region_name="us-east-1").client("sqs", endpoint_url=ministack.url) as client:
        yield Raw(client, (await client.create_queue(QueueName=queue))["QueueUrl"])


class TestSqsDoorbell(DoorbellSuite):
    @pytest.fixture(autouse=True)
    def _short_polls(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Closing waits for the last poll: five seconds for every second test would be minutes."""
        monkeypatch.setattr("app.adapters.sqs.doorbell.POLL", 1)

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


class Scripted:
    """An HTTP server that speaks SQS's JSON protocol: answers by operation, and what it was asked."""

    def __init__(self) -> None:
        self.asked: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.errors: dict[str, str] = {}
        """The code with which an operation is refused."""
        self.answers: dict[str, list[Callable[[dict[str, Any]], object]]] = {}
        """The last one stays."""
        self.url = ""

    def answer(self, operation: str, request: dict[str, Any]) -> tuple[int, object]:
        self.asked[operation].append(request)
        if code := self.errors.get(operation):
            return 400, {"__type": f"com.amazonaws.sqs#{code}", "message": f"made-up-secret, acme: {request}"}
        if answers := self.answers.get(operation):
            return 200, (answers.pop(0) if len(answers) > 1 else answers[0])(request)
        if "Entries" in request:
            return 200, {"Successful": [{"Id": entry["Id"]} for entry in request["Entries"]], "Failed": []}
        return 200, {"QueueUrl": f"{self.url}/000000000000/daira-ocr"}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        (operation,) = (line.rpartition(".")[2] for line in lines if line.lower().startswith("x-amz-target"))
        request = json.loads(await reader.readexactly(int(headers["content-length"])))
        status, body = self.answer(operation, request)
        raw = json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {len(raw)}\r\n"
        writer.write(head.encode() + b"connection: close\r\n\r\n" + raw)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    scripted = Scripted()
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    scripted.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield scripted
    server.close()
    await server.wait_closed()


def failing(*names: str, silent_about: str = "") -> Callable[[dict[str, Any]], object]:
    """A batch's answer in which these entries failed, and one is not spoken of."""

    def answer(request: dict[str, Any]) -> object:
        ids = [entry["Id"] for entry in request["Entries"] if entry["Id"] != silent_about]
        return {
            "Successful": [{"Id": name} for name in ids if name not in names],
            "Failed": [{"Id": name, "Code": "InternalError", "SenderFault": False} for name in ids if name in names],
        }

    return answer


async def test_entries_that_failed_or_are_not_spoken_of_are_refused_and_no_others() -> None:
    async def call(entries: list[Entry]) -> Any:
        return failing("1", "4", "7", silent_about="8")({"Entries": entries})

    refused = await in_batches(call, [{"n": n} for n in range(15)])
    assert [(each.entry["n"], each.code) for each in refused] == [
        (1, "InternalError"),
        (4, "InternalError"),
        (7, "InternalError"),
        (8, "unanswered"),
        (11, "InternalError"),
        (14, "InternalError"),
    ]


@pytest.mark.parametrize(
    ("answer", "again"),
    [(failing("2", "5", "9"), [2, 5, 9]), (failing(silent_about="3"), [3]), (lambda _: {}, range(10))],
)
async def test_the_rest_of_a_batch_that_failed_in_part_is_rung_again(
    scripted: Scripted, answer: Callable[[dict[str, Any]], object], again: list[int]
) -> None:
    rings = new_rings(10)
    scripted.answers["SendMessageBatch"] = [answer, failing()]
    async with opened("daira-ocr", url=scripted.url) as doorbell:
        await doorbell.ring(rings)
    first, second = ([entry["MessageBody"] for entry in each["Entries"]] for each in scripted.asked["SendMessageBatch"])
    assert first == [ring_message(ring) for ring in rings]
    assert second == [ring_message(rings[number]) for number in again]


async def test_what_fails_twice_is_said_in_numbers_and_not_in_names(scripted: Scripted) -> None:
    scripted.answers["SendMessageBatch"] = [failing("0", "1", silent_about="2")]
    async with opened("daira-ocr", url=scripted.url) as doorbell:
        with pytest.raises(Unavailable, match="daira-ocr refused 3 of 20 doorbells") as caught:
            # Three of each ten, then three of those six.
            await doorbell.ring(new_rings(20))
    assert "acme" not in str(caught.value)


async def test_many_are_rung_in_tens_with_whole_seconds_of_delay(scripted: Scripted) -> None:
    async with opened("daira-ocr", url=scripted.url) as doorbell:
        await doorbell.ring(new_rings(125), delay=timedelta(seconds=0.2))
        sizes = [len(request["Entries"]) for request in scripted.asked["SendMessageBatch"]]
        assert sorted(sizes) == [5] + [10] * 12
        await doorbell.ring(new_rings(), delay=timedelta(days=2))
        await doorbell.ring(new_rings(), delay=timedelta(seconds=-1))
    requests = scripted.asked["SendMessageBatch"]
    assert {entry["DelaySeconds"] for request in requests[:-2] for entry in request["Entries"]} == {1}
    assert [request["Entries"][0]["DelaySeconds"] for request in requests[-2:]] == [900, 0]


async def test_an_unfair_queue_is_sent_no_message_group(scripted: Scripted) -> None:
    async with opened("daira-ocr", url=scripted.url, fair=False) as doorbell:
        await doorbell.ring(new_rings())
    assert set(scripted.asked["SendMessageBatch"][0]["Entries"][0]) == {"Id", "MessageBody", "DelaySeconds"}


async def test_polls_are_within_the_limits_of_sqs(scripted: Scripted) -> None:
    message = {"Body": ring_message(new_rings()[0]), "ReceiptHandle": "r"}
    scripted.answers["ReceiveMessage"] = [lambda request: {"Messages": [message] * request["MaxNumberOfMessages"]}]
    async with opened("daira-ocr", url=scripted.url) as doorbell:
        assert len(await doorbell.answer(limit=33, wait=LONG)) == 33
        assert len(await doorbell.answer(limit=1000, wait=timedelta(seconds=1))) == 90
    polls = scripted.asked["ReceiveMessage"]
    assert [poll["WaitTimeSeconds"] for poll in polls] == [5] + [0] * 3 + [1] + [0] * 8
    assert sorted(poll["MaxNumberOfMessages"] for poll in polls[:4]) == [3, 10, 10, 10]
    assert {poll["VisibilityTimeout"] for poll in polls} == {30}


async def test_bells_in_hand_are_answered_when_asking_for_more_fails(scripted: Scripted) -> None:
    message = {"Body": ring_message(new_rings()[0]), "ReceiptHandle": "r"}

    def once(request: dict[str, Any]) -> object:
        scripted.errors["ReceiveMessage"] = "AccessDenied"
        return {"Messages": [message] * request["MaxNumberOfMessages"]}

    scripted.answers["ReceiveMessage"] = [once]
    async with opened("daira-ocr", url=scripted.url) as doorbell:
        assert len(await doorbell.answer(limit=40, wait=LONG)) == 10
        with pytest.raises(Unavailable):
            await doorbell.answer(limit=40, wait=LONG)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("AccessDenied", "allow sqs:SendMessage on it"),
        ("AWS.SimpleQueueService.NonExistentQueue", "it does not exist; create it, or allow sqs:CreateQueue"),
        ("InvalidClientTokenId", "the AWS credentials are wrong or have expired"),
        ("ThrottlingException", "fewer requests"),
        ("KmsDisabled", "SendMessage was refused (KmsDisabled)"),
    ],
)
async def test_a_refusal_says_what_to_do_and_nothing_that_was_sent(scripted: Scripted, code: str, says: str) -> None:
    scripted.errors["SendMessageBatch"] = code
    async with opened("daira-ocr", url=scripted.url) as doorbell:
        with pytest.raises(Unavailable) as caught:
            await doorbell.ring(new_rings())
    assert str(caught.value).startswith("the queue daira-ocr: ")
    assert says in str(caught.value)
    assert "made-up-secret" not in str(caught.value)
    assert "acme" not in str(caught.value)


async def test_a_queue_that_may_not_be_made_is_named_at_opening(scripted: Scripted) -> None:
    scripted.errors = {"GetQueueUrl": "QueueDoesNotExist", "CreateQueue": "AccessDenied"}
    with pytest.raises(Unavailable, match=r"the queue daira-ocr: .* create it, or allow sqs:CreateQueue"):
        async with opened("daira-ocr", url=scripted.url):
            pass


async def test_a_server_of_another_kind_is_told_apart_from_sqs(scripted: Scripted) -> None:
    scripted.answers["GetQueueUrl"] = [lambda _: {"hello": "world"}]
    with pytest.raises(Unavailable, match="not SQS"):
        async with opened("daira-ocr", url=scripted.url):
            pass


async def test_nobody_listening_is_said_without_the_password_of_the_url() -> None:
    nobody = "http://me:hunter2@127.0.0.1:9"
    with pytest.raises(Unavailable, match=r"SQS at 127\.0\.0\.1:9 can't be reached") as caught:
        async with opened("daira-ocr", url=nobody):
            pass
    assert "hunter2" not in str(caught.value)


async def test_missing_credentials_and_a_missing_region_are_said(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with pytest.raises(Unavailable, match="AWS_ACCESS_KEY_ID"):
        async with opened("daira-ocr", url=scripted.url):
            pass
    regionless = SqsDoorbell(queue="daira-ocr", endpoint_url=scripted.url, region=None, dropped=lambda _: None)
    with pytest.raises(Unavailable, match="region"):
        await regionless.open()
