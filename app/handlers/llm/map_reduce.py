"""Asks about a document part by part. A part that proves too long is halved."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from app.domain.jobs import Progress
from app.domain.llm.chunks import Chunk
from app.ports.leases import ProgressReporter
from app.ports.llm import LlmContextExceeded, LlmTruncated

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPart:
    chunk: Chunk
    long: bool
    """True for half of a part whose answer was cut off. If its own is cut off too, the job fails."""
    is_whole: bool
    """True if the part is the whole document."""
    last: bool

    @property
    def divisible(self) -> bool:
        return self.chunk.halves() is not None


async def map_parts(
    chunks: Sequence[Chunk], ask: Callable[[DocumentPart], Awaitable[T]], reporter: ProgressReporter | None = None
) -> list[tuple[Chunk, T]]:
    """Return the answer for each part, in the document's order, with nothing left out.

    Raises LlmContextExceeded where a part can't be cut any further.
    """
    answered: list[tuple[Chunk, T]] = []
    waiting = deque((chunk, False) for chunk in chunks)
    is_whole = len(chunks) == 1
    total = len({page for chunk in chunks for page in chunk.pages})
    while waiting:
        chunk, long = waiting.popleft()
        try:
            answer = await ask(DocumentPart(chunk=chunk, long=long, is_whole=is_whole, last=not waiting))
        except (LlmContextExceeded, LlmTruncated) as fault:
            halves = chunk.halves()
            if halves is None:
                raise
            is_whole = False
            waiting.extendleft((half, long or isinstance(fault, LlmTruncated)) for half in reversed(halves))
        else:
            answered.append((chunk, answer))
            if reporter is not None:
                done = len({page for chunk, _ in answered for page in chunk.pages})
                reporter.report(Progress(done=done, total=total, unit="page"))
    return answered
