"""Where deliveries go, and where nothing can make them go; a receiver on loopback, and one that must hear nothing."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from app.adapters.webhook.sender import LARGEST_ANSWER, HttpWebhookSender
from app.adapters.webhook.targets import NO_PUBLIC_ADDRESS, ResolveHost, TargetResolver
from app.domain.errors import Invalid, Unavailable
from app.ports.sender import WebhookResponse, WebhookUnanswered
from tests.support.receiver import FLOOD, Receiver, receiving

PUBLIC = "93.184.215.14"

TRICKS = (
    "127.0.0.1",
    "127.1",
    "0",
    "0x7f000001",
    "0x7f.1",
    "2130706433",
    "017700000001",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:10.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::80ff:fffe]",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "[fec0::1]",
    "[ff02::1]",
    "169.254.169.254",
    "168.63.129.16",
    "100.100.100.200",
    "100.64.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "0.0.0.0",  # noqa: S104 - what is refused here
    "localhost",
    "LOCALHOST.",
    "127.0.0.1.",
    "\u2460\u2461\u2466.0.0.1",
)


def resolving(**hosts: list[str]) -> ResolveHost:
    """A name server of our own, for names under `.test`; each look-up takes the first of several answers away."""

    async def lookup(host: str, _port: int) -> list[str]:
        answers = hosts.get(host.removesuffix(".test").replace(".", "_"))
        if answers is None:
            raise OSError("no such host")
        return [answers.pop(0)] if len(answers) > 1 else answers

    return lookup


@pytest.fixture
async def trap() -> AsyncIterator[Receiver]:
    async with receiving() as trap:
        yield trap
        assert trap.connections == 0


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


def a_sender(
    *, allow_private: bool = False, allow_http: bool = True, lookup: ResolveHost | None = None, total: float = 10
) -> HttpWebhookSender:
    return HttpWebhookSender(
        TargetResolver(allow_private=allow_private, allow_http=allow_http, lookup=lookup), total=total
    )


async def sent(sender: HttpWebhookSender, url: str) -> WebhookResponse | WebhookUnanswered:
    try:
        return await sender.send(url, body=b"{}", headers={"webhook-id": "1"})
    finally:
        await sender.close()


@pytest.mark.threat(62)
@pytest.mark.parametrize("host", TRICKS)
async def test_no_spelling_of_an_address_inside_is_accepted_or_sent_to(trap: Receiver, host: str) -> None:
    url = f"http://{host}:{trap.port}/hooks"
    for targets in (TargetResolver(allow_private=False, allow_http=True), _on_any_port()):
        sender = HttpWebhookSender(targets)
        with pytest.raises(Invalid) as refused:
            await sender.check(url)
        assert refused.value.pointer == "/url"
        assert isinstance(await sent(sender, url), WebhookUnanswered)


def _on_any_port() -> TargetResolver:
    """So that it is the address alone which is refused."""
    targets = TargetResolver(allow_private=False, allow_http=True)
    parsed = targets._parsed
    targets._parsed = lambda text: parsed(text.replace(":" + text.rsplit(":", 1)[1].split("/")[0], ""))  # type: ignore[method-assign]
    return targets


@pytest.mark.threat(62)
@pytest.mark.usefixtures("trap")
async def test_a_name_that_leads_inside_is_refused_in_the_words_of_one_that_leads_nowhere() -> None:
    async def nowhere(_host: str, _port: int) -> list[str]:
        raise OSError("no such host")

    inside = resolving(localhost_evil=["127.0.0.1"])
    for lookup in (nowhere, inside):
        sender = a_sender(lookup=lookup)
        with pytest.raises(Invalid) as refused:
            await sender.check("http://localhost.evil.test/")
        assert str(refused.value) == NO_PUBLIC_ADDRESS
        answer = await sent(sender, "http://localhost.evil.test/")
        assert answer == WebhookUnanswered(code="no_address", message=NO_PUBLIC_ADDRESS)


@pytest.mark.threat(62)
async def test_one_address_inside_among_public_ones_is_enough_to_be_refused() -> None:
    async def both(_host: str, _port: int) -> list[str]:
        return [PUBLIC, "10.0.0.1"]

    assert isinstance(await sent(a_sender(lookup=both), "http://both.test/"), WebhookUnanswered)


@pytest.mark.threat(62)
@pytest.mark.usefixtures("trap")
async def test_a_name_that_is_bound_anew_after_the_check_leads_nowhere() -> None:
    sender = a_sender(lookup=resolving(rebound=[PUBLIC, "127.0.0.1"]))
    await sender.check("http://rebound.test/")
    assert isinstance(await sent(sender, "http://rebound.test/"), WebhookUnanswered)


@pytest.mark.threat(62)
async def test_the_connection_goes_to_the_address_that_was_checked_and_no_other_look_up_is_made(
    receiver: Receiver,
) -> None:
    """The second answer would be another address: it is never asked for."""
    answers = ["127.0.0.1", "192.0.2.1"]
    sender = a_sender(allow_private=True, lookup=resolving(receiver=answers))
    assert await sent(sender, f"http://receiver.test:{receiver.port}/a%20b?c=d") == WebhookResponse(status=204)
    assert answers == ["192.0.2.1"]
    assert receiver.last.headers["host"] == f"receiver.test:{receiver.port}"
    assert receiver.last.target == "/a%20b?c=d"


@pytest.mark.threat(62)
async def test_a_redirect_is_an_answer_and_not_followed(receiver: Receiver, trap: Receiver) -> None:
    for status in ("301", "302", "307", "308"):
        receiver.script(f"{status}:{trap.url}")
        assert await sent(a_sender(allow_private=True), receiver.url) == WebhookResponse(status=int(status))


@pytest.mark.threat(62)
@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://example.org/",
        "ftp://example.org/",
        "//example.org/",
        "example.org",
        "http://",
        "http:///path",
        "https://user:password@example.org/",
        "https://user@example.org/",
        "https://example.org:6379/",
        "https://example.org:22/",
        "https://example.org:99999/",
        "https://example.org/#fragment",
        "https://exa mple.org/",
        "https://example.org\r\nX-Header: 1/",
        "https://" + "a" * 2_000,
        "https://" + "a" * 64 + ".org/",
        "",
    ],
)
async def test_what_is_no_address_for_deliveries_is_refused(url: str) -> None:
    sender = a_sender(lookup=resolving(example_org=[PUBLIC]))
    with pytest.raises(Invalid):
        await sender.check(url)
    assert isinstance(await sent(sender, url), WebhookUnanswered)


async def test_a_public_address_is_accepted() -> None:
    for host in (PUBLIC, "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::" + PUBLIC):
        await a_sender(allow_http=False, lookup=resolving(public=[host])).check("https://public.test/hooks?token=1")


async def test_plain_http_is_refused_where_it_is_not_allowed() -> None:
    sender = a_sender(allow_http=False, lookup=resolving(public=[PUBLIC]))
    with pytest.raises(Invalid, match="https"):
        await sender.check("http://public.test/")


@pytest.mark.threat(62)
@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:a9fe:a9fe]", "[fd00:ec2::254]", "[::]"])
async def test_metadata_services_are_refused_even_where_private_addresses_are_allowed(host: str) -> None:
    with pytest.raises(Invalid):
        await a_sender(allow_private=True).check(f"http://{host}/latest/meta-data/")


@pytest.mark.threat(62)
async def test_a_proxy_of_the_environment_hears_nothing(
    receiver: Receiver, trap: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{trap.port}")
    assert await sent(a_sender(allow_private=True), receiver.url) == WebhookResponse(status=204)


@pytest.mark.threat(65)
async def test_a_receiver_that_hangs_is_left_after_the_time_for_a_delivery(receiver: Receiver) -> None:
    receiver.script("hang")
    started = time.monotonic()
    answer = await sent(a_sender(allow_private=True, total=0.3), receiver.url)
    assert isinstance(answer, WebhookUnanswered)
    assert answer.code == "timeout"
    assert time.monotonic() - started < 5


@pytest.mark.threat(65)
async def test_of_a_flood_no_more_is_taken_than_the_bound(receiver: Receiver) -> None:
    receiver.script("flood")
    assert await sent(a_sender(allow_private=True), receiver.url) == WebhookResponse(status=200)
    # What lies in the buffers of both kernels has been sent and is not read.
    assert receiver.sent < FLOOD / 4 + LARGEST_ANSWER


@pytest.mark.threat(65)
async def test_an_answer_whose_body_does_not_come_counts_by_its_status(receiver: Receiver) -> None:
    receiver.script("drip")
    assert await sent(a_sender(allow_private=True), receiver.url) == WebhookResponse(status=200)


@pytest.mark.parametrize("behaviour", ["cut", "nonsense"])
async def test_what_does_not_speak_http_has_not_answered(receiver: Receiver, behaviour: str) -> None:
    receiver.script(behaviour)
    answer = await sent(a_sender(allow_private=True), receiver.url)
    assert isinstance(answer, WebhookUnanswered)
    assert answer.code == "broken"
    assert "127.0.0.1" not in answer.message


async def test_nobody_there_is_said_without_an_address(receiver: Receiver) -> None:
    await receiver.stop()
    answer = await sent(a_sender(allow_private=True), receiver.url)
    assert answer == WebhookUnanswered(code="no_connection", message="no connection to the receiver could be made")


async def test_the_second_address_is_tried_where_the_first_takes_no_connection(receiver: Receiver) -> None:
    async def two(_host: str, _port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    sender = a_sender(allow_private=True, lookup=two)
    assert await sent(sender, f"http://two.test:{receiver.port}/") == WebhookResponse(status=204)


async def test_a_name_server_that_hangs_is_left_after_the_time_for_a_delivery() -> None:
    async def hangs(_host: str, _port: int) -> list[str]:
        await asyncio.Event().wait()
        raise AssertionError

    answer = await sent(a_sender(lookup=hangs, total=0.1), "http://slow.test/")
    assert isinstance(answer, WebhookUnanswered)
    assert answer.code == "timeout"


SOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("behaviour", "wait"),
    [
        ("429:30", timedelta(seconds=30)),
        ("503:0", timedelta()),
        (f"429:{format_datetime(SOON, usegmt=True)}", timedelta(hours=1)),
        ("503:Wed, 21 Oct 2015 07:28:00 GMT", timedelta()),
        ("429:soon", None),
        ("429:-1", None),
        ("429:99999999999999999999", None),
        ("429", None),
        ("500:30", None),
    ],
)
async def test_what_a_receiver_asks_for_is_read_in_seconds_and_as_a_date(
    receiver: Receiver, behaviour: str, wait: timedelta | None
) -> None:
    receiver.script(behaviour)
    receiver.date = format_datetime(SOON - timedelta(hours=1), usegmt=True)
    answer = await sent(a_sender(allow_private=True), receiver.url)
    assert answer == WebhookResponse(status=int(behaviour[:3]), retry_after=wait)


async def test_a_date_of_a_receiver_that_does_not_say_what_time_it_is_asks_for_nothing(receiver: Receiver) -> None:
    """Our own clock may be wrong."""
    receiver.script(f"429:{format_datetime(SOON, usegmt=True)}")
    assert await sent(a_sender(allow_private=True), receiver.url) == WebhookResponse(status=429, retry_after=None)


async def test_where_no_receiver_can_be_reached_it_is_not_the_receivers_fault() -> None:
    async with receiving() as here, receiving() as there:
        urls = [each.url.replace("127.0.0.1", host) for each, host in ((here, "127.0.0.1"), (there, "localhost"))]
        sender = HttpWebhookSender(TargetResolver(allow_private=True, allow_http=True))
        for url in urls:
            assert isinstance(await sender.send(url, body=b"{}", headers={}), WebhookResponse)
    sender._reached_at = -1e9
    # Both are gone: what ties them is the way out.
    with pytest.raises(Unavailable, match="any receiver"):
        await sender.send(urls[0], body=b"{}", headers={})
    with pytest.raises(Unavailable, match="DNS"):
        await sender.probe()
    await sender.close()


async def test_one_receiver_that_is_gone_is_at_fault_while_another_can_be_reached() -> None:
    async with receiving() as there:
        sender = HttpWebhookSender(TargetResolver(allow_private=True, allow_http=True))
        async with receiving() as here:
            for each in (here, there):
                assert isinstance(await sender.send(each.url, body=b"{}", headers={}), WebhookResponse)
        sender._reached_at = -1e9
        answer = await sender.send(here.url, body=b"{}", headers={})
        assert isinstance(answer, WebhookUnanswered)
        assert answer.code == "no_connection"
        await sender.probe()
        await sender.close()


async def test_without_another_receiver_that_answered_lately_nothing_is_known_of_the_way_out() -> None:
    sender = HttpWebhookSender(TargetResolver(allow_private=True, allow_http=True))
    async with receiving() as here:
        assert isinstance(await sender.send(here.url, body=b"{}", headers={}), WebhookResponse)
    assert isinstance(await sender.send(here.url, body=b"{}", headers={}), WebhookUnanswered)
    await sender.close()
