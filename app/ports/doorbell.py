"""The queue port: one queue for each lane, without any data that needs protection."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from app.domain.doorbells import Ring


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorbellDelivery:
    ring: Ring
    receipt: object = None
    """The adapter's data for acknowledging. It has no meaning elsewhere."""


class Doorbell(Protocol):
    async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
        """Wake one worker for each ring, not before `delay` has passed (an adapter's limit may make it sooner).

        A ring may be delivered more than once, in any order. Raises Unavailable; some may have been rung by then.
        """
        ...

    async def answer(self, *, limit: int, wait: timedelta) -> list[DoorbellDelivery]:
        """Return up to `limit` deliveries. Waits up to `wait` for the first, then returns an empty list.

        Each delivery goes to one caller. Cancelling is safe: the sweeper rings a lost bell again. A message that is not
        a doorbell is dropped and counted. Raises Unavailable.
        """
        ...

    async def acknowledge(self, deliveries: Sequence[DoorbellDelivery]) -> None:
        """Mark deliveries as done, so that they need not be delivered again. Doing it twice, or late, is no error."""
        ...

    async def stop_answering(self) -> None:
        """Make `answer` return an empty list, now and from now on. Ringing continues."""
        ...

    async def ping(self) -> None:
        """Raises Unavailable when the queue can't be reached, or would not take a ring."""
        ...

    async def reconnect(self) -> None:
        """Let go of idle connections, and of all else that is remembered of the server. Raises Unavailable."""
        ...
