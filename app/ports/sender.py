"""The port that sends a webhook's deliveries: only to allowed addresses, whatever a host name resolves to."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookResponse:
    status: int
    retry_after: timedelta | None = None
    """The wait that the receiver asks for."""

    @property
    def success(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004 - the class of it, in HTTP


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookUnanswered:
    """A delivery without an answer, or without a receiver to send to."""

    code: str
    message: str
    """Shown to the tenant. It reveals nothing about the network that Daira runs in."""


class WebhookSender(Protocol):
    async def check(self, url: str) -> None:
        """Raises Invalid with a JSON pointer to `/url` where deliveries would not be sent."""
        ...

    async def send(self, url: str, *, body: bytes, headers: Mapping[str, str]) -> WebhookResponse | WebhookUnanswered:
        """POST once. The address is looked up and checked anew, and the connection goes to that very address.

        Redirects are answers like any other. It ends within a bounded time, whatever the receiver does. Raises
        Unavailable where other receivers, which answered lately, can't be reached either.
        """
        ...
