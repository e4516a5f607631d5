"""The queue in SQS. No poll is cut off, because the bells of its answer would stay hidden until their timeout."""

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import structlog

from app.adapters.sqs.batches import AT_ONCE, SIZE, RefusedEntry, SqsEntry
from app.adapters.sqs.queue import INVALID_REQUEST_CODES, SqsQueue
from app.domain.doorbells import Ring, parse_ring, ring_message
from app.domain.errors import Invalid, Unavailable
from app.ports.doorbell import DoorbellDelivery

log = structlog.get_logger()
T = TypeVar("T")
SqsMessage = Mapping[str, Any]

GROUP = "MessageGroupId"
"""Standard queues accept it since July 2025. It changes which tenant SQS serves first, and nothing in the message."""

LONGEST_DELAY = 900
"""Seconds; a limit of SQS. A bell with a longer delay rings too early, is found not due, and is rung again by the
sweeper."""

POLL = 5
"""Seconds. A longer wait is several polls, because closing waits for the last one."""

PAUSE = 0.1
"""Seconds between polls when less than a second is left, because SQS waits whole seconds only."""

VISIBILITY = 30
"""Seconds until an unacknowledged bell is delivered again. It is acknowledged some ms later, right after the claim."""


class SqsDoorbell:
    """Queues doorbells in one SQS queue. `dropped` is called with the number of its messages that were no doorbells.

    With `fair`, tenants are message groups, so that a busy one does not delay the others (fair queues). If the server
    accepts groups in FIFO queues only, this is logged once and no groups are sent from then on.
    """

    def __init__(
        self,
        *,
        queue: str,
        endpoint_url: str | None,
        region: str | None,
        dropped: Callable[[int], object],
        fair: bool = True,
    ) -> None:
        self._queue = SqsQueue(queue, endpoint_url=endpoint_url, region=region, longest_poll=POLL)
        self._dropped = dropped
        self._fair = fair
        self._stopping = asyncio.get_running_loop().create_future()
        self._background: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Find the queue, or create it. Raises Unavailable, saying what to do; the next call looks for it again."""
        await self._queue.open()

    async def ring(self, rings: Sequence[Ring], *, delay: timedelta = timedelta()) -> None:
        # Rounded up: a bell that comes early finds its job not due, and the job waits for a sweep.
        seconds = min(LONGEST_DELAY, max(0, math.ceil(delay.total_seconds())))
        refused = await self._send([self._entry(ring, seconds) for ring in rings])
        if refused:
            refused = await self._send_again(refused)
        if refused:
            codes = ", ".join(sorted({each.code for each in refused}))
            raise Unavailable(
                f"the queue {self._queue.name} refused {len(refused)} of {len(rings)} doorbells ({codes})"
            )

    async def answer(self, *, limit: int, wait: timedelta) -> list[DoorbellDelivery]:
        if self._stopping.done():
            return []
        abandoned = asyncio.Event()
        collecting = self._start(self._collect(limit=limit, wait=wait, abandoned=abandoned))
        taken = False
        try:
            await asyncio.wait({collecting, self._stopping}, return_when=asyncio.FIRST_COMPLETED)
            taken = not self._stopping.done()
        finally:
            if not taken:
                abandoned.set()
                self._run_in_background(self._give_back(collecting))
        return collecting.result() if taken else []

    async def acknowledge(self, deliveries: Sequence[DoorbellDelivery]) -> None:
        await self._delete([delivery.receipt for delivery in deliveries])

    async def stop_answering(self) -> None:
        if not self._stopping.done():
            self._stopping.set_result(None)

    async def ping(self) -> None:
        await self._queue.find()

    async def reconnect(self) -> None:
        """Find the queue through a new client, which resolves names and looks for credentials again.

        The old one is closed at the end: a poll that still waits would lose its bells with it.
        """
        await self._queue.open()

    async def close(self) -> None:
        """Close, giving back the bells that no caller took. This takes as long as the last poll."""
        await self.stop_answering()
        while self._background:
            _, late = await asyncio.wait(self._background, timeout=POLL * 2)
            for task in late:
                task.cancel()
        await self._queue.close()

    async def _send(self, entries: Sequence[SqsEntry]) -> list[RefusedEntry]:
        return await self._queue.in_batches("send_message_batch", entries)

    async def _send_again(self, refused: Sequence[RefusedEntry]) -> list[RefusedEntry]:
        """Send the refused entries again, without their group if that may be the reason."""
        disputed = any(each.code in INVALID_REQUEST_CODES and GROUP in each.entry for each in refused)
        again = await self._send(
            [_groupless(each.entry) if each.code in INVALID_REQUEST_CODES else each.entry for each in refused]
        )
        # Concluded only if it works without the group: an entry may be refused for another reason.
        if disputed and self._fair and not any(each.code in INVALID_REQUEST_CODES for each in again):
            self._fair = False
            log.warning("fair_queue_refused", queue=self._queue.name)
        return again

    def _entry(self, ring: Ring, seconds: int) -> dict[str, object]:
        group = {GROUP: ring.tenant_id} if self._fair else {}
        return {"MessageBody": ring_message(ring), "DelaySeconds": seconds, **group}

    async def _collect(self, *, limit: int, wait: timedelta, abandoned: asyncio.Event) -> list[DoorbellDelivery]:
        """Poll until there are bells, the wait is over, or the caller has abandoned."""
        end = _now() + wait.total_seconds()
        while True:
            seconds = _poll_seconds(end - _now())
            found = await self._receive(limit, seconds=seconds)
            left = end - _now()
            if found or abandoned.is_set() or left <= 0:
                return found
            if not seconds:
                await asyncio.sleep(min(PAUSE, left))

    async def _receive(self, limit: int, *, seconds: int) -> list[DoorbellDelivery]:
        messages = await self._poll(min(limit, SIZE), seconds)
        if len(messages) == SIZE < limit:
            # Only now and without waiting: of several waiting polls, all but one would go on in vain.
            messages += await self._more(limit - SIZE)
        return self._parsed(messages)

    async def _more(self, limit: int) -> list[SqsMessage]:
        counts = [min(SIZE, limit - start) for start in range(0, min(limit, SIZE * AT_ONCE), SIZE)]
        polls = await asyncio.gather(*(self._poll(count, 0) for count in counts), return_exceptions=True)
        # An error here must not lose the messages received already; the next poll meets the error again.
        return [message for poll in polls if isinstance(poll, list) for message in poll]

    async def _poll(self, count: int, seconds: int) -> list[SqsMessage]:
        answer = await self._queue.call(
            "receive_message", MaxNumberOfMessages=count, WaitTimeSeconds=seconds, VisibilityTimeout=VISIBILITY
        )
        return list(answer.get("Messages", []))

    def _parsed(self, messages: Sequence[SqsMessage]) -> list[DoorbellDelivery]:
        deliveries: list[DoorbellDelivery] = []
        malformed: list[object] = []
        for message in messages:
            try:
                # Parsed as bytes, because the limit counts bytes.
                ring = parse_ring(str(message.get("Body")).encode("utf-8", "surrogatepass"))
            except Invalid:
                malformed.append(message["ReceiptHandle"])
            else:
                deliveries.append(DoorbellDelivery(ring=ring, receipt=message["ReceiptHandle"]))
        if malformed:
            self._drop(malformed)
        return deliveries

    def _drop(self, receipts: list[object]) -> None:
        self._dropped(len(receipts))
        log.warning("doorbells_dropped", queue=self._queue.name, count=len(receipts))
        # Deleted in the background: the doorbells that came with them don't wait for it.
        self._run_in_background(self._delete_or_log(receipts))

    async def _delete_or_log(self, receipts: Sequence[object]) -> None:
        try:
            await self._delete(receipts)
        except Unavailable as error:
            log.warning("doorbells_left", queue=self._queue.name, count=len(receipts), reason=str(error))

    async def _delete(self, receipts: Sequence[object]) -> None:
        entries = [{"ReceiptHandle": receipt} for receipt in receipts]
        if refused := await self._queue.in_batches("delete_message_batch", entries):
            # A receipt that has expired or was used already: at worst the bell is delivered once more.
            codes = sorted({each.code for each in refused})
            log.info("doorbells_left", queue=self._queue.name, count=len(refused), reason=codes)

    async def _give_back(self, collecting: asyncio.Task[list[DoorbellDelivery]]) -> None:
        """Make the bells of a caller that has abandoned visible to other callers at once."""
        try:
            entries = [{"ReceiptHandle": each.receipt, "VisibilityTimeout": 0} for each in await collecting]
            await self._queue.in_batches("change_message_visibility_batch", entries)
        except Unavailable as error:
            log.info("doorbells_left", queue=self._queue.name, reason=str(error))

    def _run_in_background(self, work: Coroutine[object, object, None]) -> None:
        """Run in the background, until it is done or the doorbell is closed."""
        _ = self._start(work)

    def _start(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        # The loop itself keeps no strong reference to a task.
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _groupless(entry: SqsEntry) -> SqsEntry:
    return {name: value for name, value in entry.items() if name != GROUP}


def _poll_seconds(left: float) -> int:
    """Whole seconds. A tenth is added so that a wait of one second, by now 0.99999, is still a long poll."""
    return max(0, min(POLL, int(left + 0.1)))


def _now() -> float:
    return asyncio.get_running_loop().time()
