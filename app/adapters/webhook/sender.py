"""Deliveries over HTTP: to a checked address, bounded in time and bytes, without following redirects.

No message holds an address and no log line holds a URL, because its query may be a secret of the receiver.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from urllib.parse import urlsplit

import httpx

from app.adapters.webhook.targets import TargetRefused, TargetResolver, WebhookTarget, check, pinned_url
from app.domain.errors import Unavailable
from app.ports.sender import WebhookResponse, WebhookUnanswered

TOTAL = 15.0
CONNECT = 5.0
"""Seconds: TOTAL for the whole delivery, CONNECT for a connection to one address of the receiver."""

BODY = 2.0
"""Seconds for reading the body. Only the status counts; the body is read so that the receiver can finish
undisturbed."""

LARGEST_ANSWER = 64 * 1024
"""Bytes of the body that are read."""

KNOWN_FOR = 24 * 3600.0
"""Seconds for which a receiver that has answered is evidence of the way to the outside."""

STILL_REACHED = 1.0
"""Seconds for which a connection shows that the way out is open, so that a bad receiver causes few of them."""

MOST_KNOWN, ASKED = 100, 4
"""Receivers that are remembered, and that a probe tries to reach."""

NOT_REACHED = frozenset({"no_address", "no_connection", "timeout"})
"""Codes of deliveries that may have failed because nothing outside can be reached."""

TIMED_OUT = WebhookUnanswered(code="timeout", message=f"the receiver has not answered within {TOTAL:g} s")


class HttpWebhookSender:
    def __init__(self, targets: TargetResolver, *, total: float = TOTAL) -> None:
        self._targets = targets
        self._total = total
        self._known: dict[str, tuple[str, float]] = {}
        """By host, the latest last: a URL that answered, and when."""
        self._reached_at = -math.inf

    @cached_property
    def _http(self) -> httpx.AsyncClient:
        """The HTTP client, made for the first delivery.

        Reading all certificates takes time, and most processes send nothing.
        """
        return httpx.AsyncClient(
            # No proxy of the environment: it would resolve the name itself and could lead to an internal address.
            trust_env=False,
            # Certificates that the environment names, such as those of a private authority.
            verify=httpx.create_ssl_context(trust_env=True),
            follow_redirects=False,
            timeout=httpx.Timeout(self._total, connect=min(CONNECT, self._total), pool=None),
            # No connection is kept, because each belongs to one checked look-up.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )

    async def close(self) -> None:
        self._targets.close()
        if "_http" in vars(self):
            await self._http.aclose()

    async def check(self, url: str) -> None:
        await check(self._targets, url, seconds=CONNECT)

    async def send(self, url: str, *, body: bytes, headers: Mapping[str, str]) -> WebhookResponse | WebhookUnanswered:
        answer = await self._tried(url, body=body, headers=headers)
        if isinstance(answer, WebhookUnanswered) and answer.code in NOT_REACHED and await self._is_cut_off(but=url):
            raise Unavailable("the service can't reach any receiver just now")
        return answer

    async def _tried(self, url: str, *, body: bytes, headers: Mapping[str, str]) -> WebhookResponse | WebhookUnanswered:
        try:
            async with asyncio.timeout(self._total):
                target = await self._targets.find(url)
                return await self._sent(target, body=body, headers=headers)
        except TimeoutError:
            return TIMED_OUT
        except TargetRefused as fault:
            return WebhookUnanswered(code="no_address", message=str(fault))

    async def probe(self) -> None:
        """Connect to receivers that answered lately. Raises Unavailable, for the operator, if none can be reached."""
        if await self._is_cut_off():
            raise Unavailable("receivers of webhooks that answered lately can't be reached: check DNS and the way out")

    async def _is_cut_off(self, *, but: str | None = None) -> bool:
        """Return True if receivers other than this one's answered lately and none of them can be reached now."""
        others = self._known_urls(but=but and _host(but))
        if not others or time.monotonic() - self._reached_at < STILL_REACHED:
            return False
        if any(await asyncio.gather(*(self._reaches(url) for url in others))):
            self._reached_at = time.monotonic()
            return False
        return True

    def _note_answer(self, url: str) -> None:
        host, self._reached_at = _host(url), time.monotonic()
        self._known.pop(host, None)
        self._known[host] = (url, self._reached_at)
        while len(self._known) > MOST_KNOWN:
            self._known.pop(next(iter(self._known)))

    def _known_urls(self, *, but: str | None = None) -> list[str]:
        """Return URLs of receivers that answered lately, the latest first."""
        since = time.monotonic() - KNOWN_FOR
        known = [url for host, (url, at) in reversed(self._known.items()) if at > since and host != but]
        return known[:ASKED]

    async def _reaches(self, url: str) -> bool:
        try:
            async with asyncio.timeout(CONNECT):
                target = await self._targets.find(url)
                port = target.url.port or {"https": 443, "http": 80}[target.url.scheme]
                _, writer = await asyncio.open_connection(target.addresses[0].partition("%")[0], port)
        except (OSError, TimeoutError, TargetRefused):
            return False
        writer.close()
        return True

    async def _sent(
        self, target: WebhookTarget, *, body: bytes, headers: Mapping[str, str]
    ) -> WebhookResponse | WebhookUnanswered:
        """Send to the first address that accepts a connection. Before that, no receiver has seen any of it."""
        for address in target.addresses:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                answer = await self._posted(target, address, body=body, headers=headers)
                self._note_answer(str(target.url))
                return answer
        return WebhookUnanswered(code="no_connection", message="no connection to the receiver could be made")

    async def _posted(
        self, target: WebhookTarget, address: str, *, body: bytes, headers: Mapping[str, str]
    ) -> WebhookResponse | WebhookUnanswered:
        request = self._http.build_request(
            "POST",
            pinned_url(target, address),
            content=body,
            headers={
                **headers,
                "Host": target.url.netloc.decode("ascii"),
                "Content-Type": "application/json",
                # Uncompressed, so that the bound on bytes also bounds the memory.
                "Accept-Encoding": "identity",
                "User-Agent": "daira",
            },
            extensions={"sni_hostname": target.url.raw_host.decode("ascii").strip("[]")},
        )
        try:
            response = await self._http.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise
        except httpx.TimeoutException:
            return TIMED_OUT
        except httpx.HTTPError:
            return WebhookUnanswered(code="broken", message="the receiver broke off, or does not speak HTTP")
        try:
            await _drained(response)
        finally:
            await response.aclose()
        return WebhookResponse(status=response.status_code, retry_after=_retry_after(response))


def _retry_after(response: httpx.Response) -> timedelta | None:
    """The wait that a 429 or 503 asks for, in seconds or as a date; None without one or if it makes no sense.

    A date counts from the receiver's own `Date`, because clocks differ; without that it makes no sense.
    """
    value = response.headers.get("Retry-After", "").strip()
    if response.status_code not in {429, 503} or not value:
        return None
    with suppress(ValueError, TypeError, OverflowError):
        if value.isascii() and value.isdigit():
            return timedelta(seconds=int(value))
        return max(timedelta(), _moment(value) - _moment(response.headers.get("Date", "")))
    return None


def _moment(date: str) -> datetime:
    moment = parsedate_to_datetime(date)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


async def _drained(response: httpx.Response) -> None:
    """Read the body within the bounds. The status is known already, so an error or timeout here changes nothing."""
    read = 0
    with suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(BODY):
            async for chunk in response.aiter_raw():
                read += len(chunk)
                if read > LARGEST_ANSWER:
                    return
