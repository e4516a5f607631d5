"""What sends a webhook's deliveries: to an address that is allowed, and to no other that it might lead to."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookResponse:
    status: int
    retry_after: timedelta | None = None
    """What the receiver asks for."""

    @property
    def success(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004 - the class of it, in HTTP


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookUnanswered:
    """There was no answer, or nobody to ask."""

    code: str
    message: str
    """For the tenant: it tells nothing of the network that Daira is in."""


class Sender(Protocol):
    async def check(self, url: str) -> None:
        """Raises Invalid where nothing would be sent to, with a JSON pointer to `/url`."""
        ...

    async def send(self, url: str, *, body: bytes, headers: Mapping[str, str]) -> WebhookResponse | WebhookUnanswered:
        """POST once. The address is looked up and checked anew, and it is the one that the connection goes to.

        Redirects are answers like any other. It comes to an end within a bounded time, whatever the receiver does.
        """
        ...
