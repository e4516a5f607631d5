"""Drafts of pages: a page that took time to read is stored at once, so that no other attempt reads it again."""

import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from app.domain.errors import AttemptOver, DocumentFault
from app.domain.leases import Lease
from app.domain.pages import Page, Source
from app.domain.warnings import WarningCode
from app.ports.database import Database
from app.ports.reading import UnreadablePage

WORTH_A_DRAFT = 1.0
"""Seconds of reading text layers that are worth a draft. A page read by OCR is worth one by itself."""

UNREADABLE_AT_FIRST = 3
"""Pages that may be unreadable before more must have been read. Each may have taken its whole timeout."""


class PageDrafts:
    def __init__(
        self,
        database: Database,
        lease: Lease,
        *,
        language: str,
        drafted: AbstractSet[int] = frozenset(),
        unreadable: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the pages of one attempt. Earlier ones have stored the `drafted` pages, `unreadable` of them blank."""
        self.left: list[int] = []
        """The wanted pages that no attempt has read yet."""
        self.in_hand: list[Page] = []
        """Pages that are not drafted yet. They are written with the next draft or with the results."""
        self.total = 0
        self._drafted = drafted
        self._unreadable = unreadable
        self._database = database
        self.job_id = lease.job_id
        self._lease = lease
        self._language = language
        self._readable = 0
        self._faults: list[DocumentFault] = []
        self._clock = clock
        self._drafted_at = clock()

    @property
    def done(self) -> int:
        return self._readable + self._unreadable

    def begin(self, wanted: Sequence[int]) -> None:
        """Set the wanted pages. A file that is opened a second time changes nothing."""
        if not self.total:
            self.total = len(wanted)
            self.left = [number for number in wanted if number not in self._drafted]
            self._readable = self.total - len(self.left) - self._unreadable

    async def take(self, read: Page | UnreadablePage) -> None:
        """Add a page.

        Raises DocumentFault where so many are unreadable that the file is to blame, AttemptOver on a lost lease.
        """
        page = self._counted(read)
        self.in_hand.append(page)
        self.left = [number for number in self.left if number != page.number]
        # The last pages need no draft, because they are written with the results at once.
        if self.done < self.total and (page.source is Source.OCR or self._clock() - self._drafted_at > WORTH_A_DRAFT):
            await self._draft()

    def give_up(self, fault: DocumentFault) -> None:
        """Count the pages that are left as unreadable. Raises the fault where they are most of the document."""
        for number in self.left:
            self.in_hand.append(self._counted(UnreadablePage(number, fault)))
        self.left = []

    async def keep(self) -> None:
        """Store all pages, for the attempt that goes on from them."""
        if self.in_hand:
            await self._draft()

    def _counted(self, read: Page | UnreadablePage) -> Page:
        if isinstance(read, Page):
            self._readable += 1
            return read
        self._unreadable += 1
        self._faults.append(read.fault)
        nothing_read = not self._readable and self.done == self.total
        if nothing_read or self._unreadable > max(UNREADABLE_AT_FIRST, self._readable):
            raise self._faults[0]
        return _blank(read.number, language=self._language)

    async def _draft(self) -> None:
        async with self._database.begin(self._lease.tenant_id) as tx:
            if not await tx.pages.draft(self._lease, self.in_hand):
                raise AttemptOver("the lease is lost: another attempt continues from the drafts")
        self.in_hand.clear()
        self._drafted_at = self._clock()


def _blank(number: int, *, language: str) -> Page:
    return Page(
        number=number,
        text="",
        source=Source.OCR,
        confidence=None,
        width=None,
        height=None,
        rotation=0,
        language=language,
        warnings=(WarningCode.PAGE_UNREADABLE,),
    )
