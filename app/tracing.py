"""Traces: what one request has set off, from its first byte to the settled job, whichever processes do it.

What travels, in the job's row and never in its bell, is a W3C `traceparent`. Where no spans are recorded it travels
all the same, so that the log lines of a request and of its jobs have a `trace_id` in common.
"""

import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

SHAPE = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""Version 00; one of a later version is not understood, and begins anew. https://www.w3.org/TR/trace-context/"""

Attributes = Mapping[str, str | int]

current: ContextVar[str | None] = ContextVar("traceparent", default=None)
"""That of the request which is being answered."""


class Span(Protocol):
    """One step of a trace, while it is taken."""

    @property
    def traceparent(self) -> str: ...

    def tell(self, attributes: Attributes, *, name: str | None = None) -> None:
        """Add attributes that are known only now, and another name where it was not known."""
        ...


class Spans(Protocol):
    def span(
        self, name: str, *, parent: str | None, attributes: Attributes | None = None, serves: bool = False
    ) -> AbstractContextManager[Span]:
        """A step that lasts as long as the context. A parent of None, or one that is none, begins a trace.

        `serves`: somebody else waits for it.
        """
        ...

    def past(self, name: str, *, parent: str | None, began: int, ended: int, attributes: Attributes) -> None:
        """A step that is over; nanoseconds since the epoch."""
        ...


def trace_id(traceparent: str) -> str:
    return traceparent[3:35]


def valid_traceparent(traceparent: str | None) -> str | None:
    """None for what is none."""
    return traceparent if traceparent and SHAPE.fullmatch(traceparent) else None


@dataclass(frozen=True, slots=True)
class _NullSpan:
    traceparent: str

    def tell(self, attributes: Attributes, *, name: str | None = None) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None: ...


class NullSpans:
    """Nothing is recorded; a trace that somebody else has begun goes on, and each has a number."""

    def span(
        self,
        name: str,  # noqa: ARG002 - nobody is told
        *,
        parent: str | None,
        attributes: Attributes | None = None,  # noqa: ARG002 - nobody is told
        serves: bool = False,  # noqa: ARG002 - nobody is told
    ) -> AbstractContextManager[Span]:
        return _NullSpan(valid_traceparent(parent) or _started_trace())

    def past(self, name: str, *, parent: str | None, began: int, ended: int, attributes: Attributes) -> None: ...


def _started_trace() -> str:
    """Not sampled: who records the next step is told that there is no record of this one."""
    number = os.urandom(24).hex()
    return f"00-{number[:32]}-{number[32:]}-00"
