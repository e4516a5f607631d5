"""Deliveries over HTTP: to a checked address, bounded in time and bytes, without following redirects.

No message holds an address and no log line holds a URL, because its query may be a secret of the receiver.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property

import httpx

from app.adapters.webhook.targets import TargetRefused, TargetResolver, WebhookTarget, check, pinned_url
from app.ports.sender import WebhookResponse, WebhookUnanswered

TOTAL = 15.0
CONNECT = 5.0
"""Seconds: TOTAL for the whole delivery, CONNECT for a connection to one address of the receiver."""

BODY = 2.0
"""Seconds for reading the body. Only the status counts; the body is read so that the receiver can finish
undisturbed."""

LARGEST_ANSWER = 64 * 1024
"""Bytes of the body that are read."""

TIMED_OUT = WebhookUnanswered(code="timeout", message=f"the receiver has not answered within {TOTAL:g} s")


class HttpWebhookSender:
    def __init__(self, targets: TargetResolver, *, total: float = TOTAL) -> None:
        self._targets = targets
        self._total = total

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
        try:
            async with asyncio.timeout(self._total):
                target = await self._targets.find(url)
                return await self._sent(target, body=body, headers=headers)
        except TimeoutError:
            return TIMED_OUT
        except TargetRefused as fault:
            return WebhookUnanswered(code="no_address", message=str(fault))

    async def _sent(
        self, target: WebhookTarget, *, body: bytes, headers: Mapping[str, str]
    ) -> WebhookResponse | WebhookUnanswered:
        """Send to the first address that accepts a connection. Before that, no receiver has seen any of it."""
        for address in target.addresses:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return await self._posted(target, address, body=body, headers=headers)
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


async def _drained(response: httpx.Response) -> None:
    """Read the body within the bounds. The status is known already, so an error or timeout here changes nothing."""
    read = 0
    with suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(BODY):
            async for chunk in response.aiter_raw():
                read += len(chunk)
                if read > LARGEST_ANSWER:
                    return
