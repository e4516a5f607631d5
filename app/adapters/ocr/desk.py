"""One file in front of one child: a crash costs a second try in a fresh child, a hang its timeout."""

from datetime import timedelta

import structlog

from app.adapters.ocr import wire
from app.adapters.ocr.pool import Seat
from app.adapters.ocr.process import ChildDied, ChildProcess
from app.domain.errors import DocumentFault
from app.ports.ocr import Mode

log = structlog.get_logger()

READER_DIED = "reader_died"

OUT_OF_CPU = "SIGPROF"
"""What a child's own fence ends it with."""
_OUT_OF_MEMORY = "SIGABRT"
"""How C++ ends without memory. One that has read other files may have had less of it than there is."""
_KILLED = "SIGKILL"
"""How the kernel ends who took too much; whose fault it was, a second try tells."""


class Desk:
    """All calls raise DocumentFault."""

    def __init__(self, seat: Seat, *, opening: wire.Message, timeout: timedelta) -> None:
        self.seat = seat
        self._opening = opening
        self._timeout = timeout
        self._opened: wire.Message = {}
        self._opened_in: ChildProcess | None = None

    async def open(self) -> wire.Message:
        """What there is to say of the file."""
        await self._tried_twice(None, what="the file")
        return self._opened

    async def page(self, number: int, *, mode: Mode) -> wire.Message:
        return await self._tried_twice({"do": "page", "number": number, "mode": mode}, what=f"page {number}")

    async def _tried_twice(self, request: wire.Message | None, *, what: str) -> wire.Message:
        try:
            return await self._tried(request, what=what)
        except ChildDied as death:
            if death.how == _OUT_OF_MEMORY and death.was_fresh:
                raise _blamed_for(death, what=what) from death
        try:
            return await self._tried(request, what=what)
        except ChildDied as death:
            raise _blamed_for(death, what=what) from death

    async def _tried(self, request: wire.Message | None, *, what: str) -> wire.Message:
        try:
            return await self._answer(request)
        except ChildDied as death:
            log.warning(READER_DIED, how=death.how, on=what)
            if death.how == OUT_OF_CPU:
                # It would take as long again.
                raise DocumentFault(
                    "timeout", f"Drawing {what} takes too much computing: simplify or split the document."
                ) from death
            raise
        except TimeoutError as error:
            limit = f"{self._timeout.total_seconds():g} s"
            raise DocumentFault(
                "timeout", f"Reading {what} took over {limit}: simplify or split the document."
            ) from error

    async def _answer(self, request: wire.Message | None) -> wire.Message:
        child = await self.seat.child()
        if child is not self._opened_in:
            child.files += 1
            self._opened = _without_fault(await child.ask(self._opening, within=self._timeout))
            self._opened_in = child
        if request is None:
            return {}
        return _without_fault(await child.ask(request, within=self._timeout))


def _blamed_for(death: ChildDied, *, what: str) -> DocumentFault:
    if death.how in {_OUT_OF_MEMORY, _KILLED}:
        return DocumentFault(
            "too_large", f"Reading {what} takes too much memory ({death.how}): simplify or split the document."
        )
    return DocumentFault(
        "corrupt",
        f"The reader died twice on {what} ({death.how}): save the document anew, or upload its pages as images.",
    )


def _without_fault(answer: wire.Message) -> wire.Message:
    if "fault" in answer:
        raise DocumentFault(answer["fault"], answer["message"])
    return answer
