"""HTTP connections that end when their client does nothing with them.

Uvicorn waits for ever: for the rest of a head, or of a body that was answered already, and for a reader of the answer.
"""

import asyncio

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.web.pace import SLOWEST


class Patient(H11Protocol):
    patience: float
    """Seconds; see `patient`."""

    _for_a_request: asyncio.TimerHandle | None = None
    _for_a_reader: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_a_request()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._serves() and self._for_a_request:
            self._for_a_request.cancel()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._serves():
            self._expect_a_request()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_a_reader()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        if self._for_a_reader:
            self._for_a_reader.cancel()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._for_a_request, self._for_a_reader):
            if timer:
                timer.cancel()

    def _serves(self) -> bool:
        # Uvicorn's own annotation forgets that there is none before the first request.
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    def _expect_a_request(self) -> None:
        """Whole, with its head: not a byte of it now and then. Also while the rest of an answered body comes in."""
        if self._for_a_request:
            self._for_a_request.cancel()
        self._for_a_request = self.loop.call_later(self.patience, self.transport.abort)

    def _expect_a_reader(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._for_a_reader = self.loop.call_later(self.patience, self._look_at_the_reader, waiting)

    def _look_at_the_reader(self, waiting: int) -> None:
        if waiting - self.transport.get_write_buffer_size() < SLOWEST * self.patience:
            self.transport.abort()
        else:
            self._expect_a_reader()


def patient(seconds: float) -> type[Patient]:
    """For uvicorn's configuration, which wants a class."""
    return type("Patient", (Patient,), {"patience": seconds})
