"""What no real server can be made to do: batches that fail in part, refusals, answers that make no sense."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.adapters.sqs.batches import SqsEntry, in_batches
from app.adapters.sqs.doorbell import SqsDoorbell
from app.domain.doorbells import ring_message
from app.domain.errors import Unavailable
from tests.conformance.doorbell_suite import LONG, new_rings
from tests.support.sqs import Scripted, failing, opened, set_credentials


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    set_credentials(monkeypatch)


@pytest.fixture
async def scripted() -> AsyncIterator[Scripted]:
    scripted = Scripted()
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    scripted.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield scripted
    server.close()
    await server.wait_closed()


async def test_entries_that_failed_or_are_not_spoken_of_are_refused_and_no_others() -> None:
    async def call(entries: list[SqsEntry]) -> Any:
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


def knows_no_groups(request: dict[str, Any]) -> object:
    """As SQS did before fair queues, and some local servers do: each entry of a standard queue with one is refused."""
    named = [entry["Id"] for entry in request["Entries"] if "MessageGroupId" in entry]
    return {
        "Successful": [{"Id": entry["Id"]} for entry in request["Entries"] if entry["Id"] not in named],
        "Failed": [{"Id": name, "Code": "InvalidParameterValue", "SenderFault": True} for name in named],
    }


async def test_each_tenant_is_a_message_group_and_the_body_says_nothing_more(scripted: Scripted) -> None:
    rings = new_rings(2) + new_rings(1, tenant="bolt")
    async with opened("daira-ocr", url=scripted.url) as doorbell:
        await doorbell.ring(rings)
        await doorbell.ring(rings[2:], delay=timedelta(seconds=3))
    sent = [entry for request in scripted.asked["SendMessageBatch"] for entry in request["Entries"]]
    assert [entry["MessageGroupId"] for entry in sent] == ["acme", "acme", "bolt", "bolt"]
    assert [entry["MessageBody"] for entry in sent] == [ring_message(ring) for ring in [*rings, rings[2]]]


async def test_a_server_without_fair_queues_is_sent_no_group_from_then_on_and_that_is_said_once(
    scripted: Scripted,
) -> None:
    scripted.answers["SendMessageBatch"] = [knows_no_groups]
    rings = new_rings(12)
    with capture_logs() as logs:
        async with opened("daira-ocr", url=scripted.url) as doorbell:
            await asyncio.gather(doorbell.ring(rings), doorbell.ring(new_rings()))
            before = len(scripted.asked["SendMessageBatch"])
            await doorbell.ring(rings[:3])
    (last,) = scripted.asked["SendMessageBatch"][before:]
    assert all("MessageGroupId" not in entry for entry in last["Entries"])
    taken = [
        entry["MessageBody"]
        for request in scripted.asked["SendMessageBatch"][:before]
        for entry in request["Entries"]
        if "MessageGroupId" not in entry
    ]
    assert set(map(ring_message, rings)) <= set(taken)
    assert [entry["event"] for entry in logs] == ["fair_queue_refused"]


async def test_a_server_that_refuses_the_whole_request_for_a_group_is_one_of_those(scripted: Scripted) -> None:
    async with opened("daira-ocr", url=scripted.url) as doorbell:
        scripted.refuses["SendMessageBatch"] = lambda request: any(
            "MessageGroupId" in entry for entry in request["Entries"]
        )
        await doorbell.ring(new_rings(11))
        await doorbell.ring(new_rings(1))
    last = scripted.asked["SendMessageBatch"][-1]
    assert set(last["Entries"][0]) == {"Id", "MessageBody", "DelaySeconds"}


async def test_a_bell_that_is_refused_with_and_without_its_group_does_not_end_fairness(scripted: Scripted) -> None:
    scripted.errors["SendMessageBatch"] = "InvalidParameterValue"
    async with opened("daira-ocr", url=scripted.url) as doorbell:
        with pytest.raises(Unavailable, match=r"refused 1 of 1 doorbells \(InvalidParameterValue\)"):
            await doorbell.ring(new_rings())
        del scripted.errors["SendMessageBatch"]
        await doorbell.ring(new_rings())
    assert "MessageGroupId" in scripted.asked["SendMessageBatch"][-1]["Entries"][0]


async def test_a_failure_of_another_kind_is_tried_again_with_its_group(scripted: Scripted) -> None:
    scripted.answers["SendMessageBatch"] = [failing("0"), failing()]
    async with opened("daira-ocr", url=scripted.url) as doorbell:
        await doorbell.ring(new_rings(2))
    assert "MessageGroupId" in scripted.asked["SendMessageBatch"][1]["Entries"][0]


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
        ("SignatureDoesNotMatch", "or this machine's clock is minutes off"),
        ("RequestExpired", "the clock of this machine is wrong"),
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
