"""A tenant's live jobs have a limit, and it is exact: counted in the transaction that adds, under the tenant's lock."""

from datetime import timedelta

from app.domain.errors import TooMany
from app.ports.database import Tx

NEAR = 1_000
"""Jobs that transactions which commit at the same moment may add: 50 of them with 20 each. Who is further from the
limit than that needs no lock."""

COME_BACK = timedelta(seconds=30)


async def refuse_beyond(limit: int, tx: Tx) -> None:
    """To be asked last, with the new jobs added: the lock may be held while waiting for nothing but the commit.

    Raises TooMany, and so takes back what the transaction has added.
    """
    far = limit - NEAR
    if far > 0 and await tx.jobs.live(at_most=far) < far:
        return
    await tx.tenant.lock()
    if await tx.jobs.live(at_most=limit + 1) > limit:
        raise TooMany(
            f"{limit:,} jobs of this tenant are queued or running, the limit here: wait for some to end",
            retry_after=COME_BACK,
        )
