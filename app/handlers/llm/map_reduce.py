"""A document asked about part by part; a part that proves too long is asked about in halves."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from app.domain.jobs import Progress
from app.domain.llm.chunks import Chunk
from app.ports.leases import Reporter
from app.ports.llm import LlmContextExceeded, LlmTruncated

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPart:
    chunk: Chunk
    long: bool
    """It is half of one whose answer was cut off: there is no second time."""
    alone: bool
    """It is the whole document."""
    last: bool

    @property
    def divisible(self) -> bool:
        return self.chunk.halves() is not None


async def over_parts(
    chunks: Sequence[Chunk], ask: Callable[[DocumentPart], Awaitable[T]], reporter: Reporter | None = None
) -> list[tuple[Chunk, T]]:
    """What each part was answered, in the document's order; nothing is left out.

    Raises LlmContextExceeded where a part can't be cut any further.
    """
    answered: list[tuple[Chunk, T]] = []
    waiting = deque((chunk, False) for chunk in chunks)
    alone = len(chunks) == 1
    total = len({page for chunk in chunks for page in chunk.pages})
    while waiting:
        chunk, long = waiting.popleft()
        try:
            answer = await ask(DocumentPart(chunk=chunk, long=long, alone=alone, last=not waiting))
        except (LlmContextExceeded, LlmTruncated) as fault:
            halves = chunk.halves()
            if halves is None:
                raise
            alone = False
            waiting.extendleft((half, long or isinstance(fault, LlmTruncated)) for half in reversed(halves))
        else:
            answered.append((chunk, answer))
            if reporter is not None:
                done = len({page for chunk, _ in answered for page in chunk.pages})
                reporter.report(Progress(done=done, total=total, unit="page"))
    return answered
