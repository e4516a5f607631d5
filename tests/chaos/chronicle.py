"""What was done to whom and when, counted for the report and kept for the proof."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.chaos.records import Harm


class Chronicle:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.harms: list[Harm] = []
        self.amiss: list[str] = []
        """What went otherwise than the product promises, beside what the checker looks at."""

    @contextmanager
    def harm(self, name: str, *, pid: int | None = None) -> Iterator[None]:
        """What lasts as long as the context, and may cost a lease: of this process, or of all."""
        began_at = time.monotonic()
        try:
            yield
        finally:
            self.counts[name] += 1
            self.harms.append(Harm(name=name, pid=pid, began_at=began_at, ended_at=time.monotonic()))
