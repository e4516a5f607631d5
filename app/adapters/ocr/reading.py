"""One open file, read by as many children as are free."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import timedelta

from app.adapters.ocr import wire
from app.adapters.ocr.desk import Desk
from app.adapters.ocr.pool import Pool, Seat
from app.domain.errors import DocumentFault
from app.domain.pages import Page
from app.domain.warnings import DocumentWarning
from app.ports.ocr import Mode, Unreadable

Work = asyncio.Task[Page | Unreadable]


class Reading:
    """An OpenFile. It has one seat for certain; others help while nobody waits for them."""

    def __init__(self, pool: Pool, seat: Seat, *, opening: wire.Message, mode: Mode, timeout: timedelta) -> None:
        self._pool = pool
        self._opening = opening
        self._mode = mode
        self._timeout = timeout
        self._own = Desk(seat, opening=opening, timeout=timeout)
        self._helpers: list[Desk] = []
        self._working: dict[Work, Desk] = {}
        self._is_shared = False
        """Whether it is worth opening in several children."""
        self.page_count = 0
        self.warnings: Sequence[DocumentWarning] = ()

    async def open(self) -> None:
        opened = await self._own.open()
        self.page_count = opened["page_count"]
        self.warnings = wire.unpacked_warnings(opened["warnings"])
        self._is_shared = opened["shared"]

    async def pages(self, numbers: Iterable[int] | None = None) -> AsyncGenerator[Page | Unreadable]:
        everything = range(1, self.page_count + 1)
        waiting = deque(everything if numbers is None else [number for number in numbers if number in everything])
        await self._assign(waiting)
        while self._working:
            ended, _ = await asyncio.wait(self._working, return_when=asyncio.FIRST_COMPLETED)
            for work in ended:
                del self._working[work]
            # The next pages are on their way before anybody looks at these.
            await self._assign(waiting)
            for work in ended:
                yield work.result()

    async def close(self) -> None:
        """End what is still at work, and free the seats of helpers."""
        for work in self._working:
            work.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        self._working.clear()
        for helper in list(self._helpers):
            await self._dismiss(helper)

    async def _assign(self, waiting: deque[int]) -> None:
        """A page for everybody who is free; seats that others wait for, and those without a page, are given back."""
        busy = set(self._working.values())
        if waiting and self._own not in busy:
            self._start(self._own, waiting)
        for helper in [helper for helper in self._helpers if helper not in busy]:
            if waiting and not self._pool.is_wanted:
                self._start(helper, waiting)
            else:
                await self._dismiss(helper)
        while waiting and self._is_shared and (seat := await self._pool.spare()):
            helper = Desk(seat, opening=self._opening, timeout=self._timeout)
            self._helpers.append(helper)
            self._start(helper, waiting)

    def _start(self, desk: Desk, waiting: deque[int]) -> None:
        self._working[asyncio.create_task(self._read(desk, waiting.popleft()))] = desk

    async def _dismiss(self, helper: Desk) -> None:
        self._helpers.remove(helper)
        await self._pool.give_back(helper.seat)

    async def _read(self, desk: Desk, number: int) -> Page | Unreadable:
        try:
            return wire.unpacked((await desk.page(number, mode=self._mode))["page"])
        except DocumentFault as fault:
            return Unreadable(number, fault)
