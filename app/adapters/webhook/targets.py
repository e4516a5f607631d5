"""The target of a webhook's URL: parsed by one parser, looked up once, with every address checked."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx

from app.adapters.webhook.addresses import is_allowed
from app.domain.errors import Invalid

LONGEST = 2_000
"""Characters of a URL."""

LOOKUPS = 16
"""Simultaneous look-ups. They have threads of their own so that a tenant's slow name server delays no look-up of ours,
such as that of the database."""

PORTS = frozenset({80, 443, 8080, 8443})
"""Ports of public receivers. Services on other ports don't speak HTTP and must not be reached from here."""

NO_PUBLIC_ADDRESS = "the host of the URL has no public address"
"""Also said of a host without any address, so that callers can't probe for names inside the network."""

ResolveHost = Callable[[str, int], Awaitable[list[str]]]
"""Takes host and port and returns the addresses. Raises OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    url: httpx.URL
    addresses: tuple[str, ...]
    """All of them are allowed."""


class TargetRefused(Exception):
    """The URL may not be used. The error's text may be shown to the tenant."""


class TargetResolver:
    def __init__(self, *, allow_private: bool, allow_http: bool, lookup: ResolveHost | None = None) -> None:
        self._allow_private = allow_private
        self._allow_http = allow_http
        self._threads = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="webhook-lookup")
        self._lookup = lookup or self._look_up

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def find(self, text: str) -> WebhookTarget:
        """Look the URL's host up and check every address. Raises TargetRefused."""
        url = self._parsed(text)
        try:
            addresses = await self._lookup(url.raw_host.decode("ascii"), _port(url))
        except (OSError, UnicodeError):
            raise TargetRefused(NO_PUBLIC_ADDRESS) from None
        # One address that is not allowed refuses all: a name with both kinds is how such checks are circumvented.
        if not addresses or not all(is_allowed(address, private=self._allow_private) for address in addresses):
            raise TargetRefused(NO_PUBLIC_ADDRESS)
        return WebhookTarget(url=url, addresses=tuple(dict.fromkeys(addresses)))

    def _parsed(self, text: str) -> httpx.URL:
        if len(text) > LONGEST:
            raise TargetRefused(f"the URL has more than {LONGEST:,} characters")
        try:
            url = httpx.URL(text)
        except (httpx.InvalidURL, UnicodeError):
            raise TargetRefused("this is not a URL") from None
        schemes = ("https", "http") if self._allow_http else ("https",)
        if url.scheme not in schemes:
            raise TargetRefused(f"the URL must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}")
        # Not `host`, which decodes `xn--…` and fails on a malformed one.
        if not url.raw_host:
            raise TargetRefused("the URL has no host")
        if url.userinfo:
            raise TargetRefused("the URL must not hold a name and password: receivers verify the signature instead")
        if url.fragment:
            raise TargetRefused("the URL must not have a fragment")
        if not self._allow_private and _port(url) not in PORTS:
            raise TargetRefused(f"the URL's port must be one of {', '.join(map(str, sorted(PORTS)))}")
        return url

    async def _look_up(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        return [str(address[0]) for *_, address in found]


async def check(targets: TargetResolver, url: str, *, seconds: float) -> None:
    """Check that the URL may be used. Raises Invalid if not, also when the look-up takes longer than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await targets.find(url)
    except TimeoutError:
        raise Invalid(NO_PUBLIC_ADDRESS, pointer="/url") from None
    except TargetRefused as fault:
        raise Invalid(str(fault), pointer="/url") from None


def pinned_url(target: WebhookTarget, address: str) -> httpx.URL:
    """The URL with this address for its host. The host's name is sent in the Host header and the TLS handshake."""
    return target.url.copy_with(host=str(ipaddress.ip_address(address.partition("%")[0])))


def _port(url: httpx.URL) -> int:
    return url.port or {"https": 443, "http": 80}[url.scheme]
