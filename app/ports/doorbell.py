"""The queue port: one queue for each lane, holding nothing worth protecting."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from app.domain.doorbells import Ring


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    ring: Ring
    receipt: object = None
    """What the adapter needs to acknowledge; of no meaning to anyone else."""


class Doorbell(Protocol):
    async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
        """Wake one worker for each ring, not before `delay` has passed (an adapter's limit may make it sooner).

        May deliver more than once, in any order. Raises Unavailable; some may have been rung then.
        """
        ...

    async def answer(self, *, limit: int, wait: timedelta) -> list[Delivery]:
        """Up to `limit` deliveries; waits up to `wait` for the first, then returns an empty list.

        Each goes to one caller. Cancelling is safe: a bell that is lost by it is rung again by the sweeper.
        What is not a doorbell is dropped and counted. Raises Unavailable.
        """
        ...

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """These need not be delivered again. Doing it twice, or late, is no error."""
        ...

    async def stop_answering(self) -> None:
        """Whoever waits in `answer` gets an empty list, now and from now on; ringing goes on."""
        ...

    async def ping(self) -> None:
        """Raises Unavailable when the queue can't be reached."""
        ...
