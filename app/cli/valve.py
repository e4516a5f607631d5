"""How a crowd of senders slows down together: when one is told to come later, all wait, and then one goes first."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Event


class Stopped(Exception):
    """The user wants to stop."""


class Valve:
    def __init__(self, stop: Event) -> None:
        self._stop = stop
        self._changed = Condition()
        self._closed_until = 0.0
        self._narrow = False
        """One at a time, until one got through."""
        self._taken = False

    @contextmanager
    def passage(self) -> Iterator[Callable[[float], None]]:
        """Waits while it is closed. What is yielded closes it, for so many seconds; who leaves without has opened it.

        Raises Stopped.
        """
        self._enter()
        closed = False

        def close(seconds: float) -> None:
            nonlocal closed
            closed = True
            self._narrow = True
            self._closed_until = max(self._closed_until, time.monotonic() + seconds)

        try:
            yield close
        finally:
            with self._changed:
                if self._taken and not closed:
                    self._narrow = False
                self._taken = False
                self._changed.notify_all()

    def _enter(self) -> None:
        with self._changed:
            while not self._stop.is_set():
                left = self._closed_until - time.monotonic()
                if left <= 0 and not (self._narrow and self._taken):
                    self._taken = self._narrow
                    return
                # Looked at often enough for Ctrl-C.
                self._changed.wait(min(0.2, left) if left > 0 else 0.2)
        raise Stopped
