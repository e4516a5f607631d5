"""What whoever waits for a soak test sees: how far it is, and at the end a table of what was done and found."""

import sys
import time
from collections import Counter
from collections.abc import Mapping

EVERY = 10.0
"""Seconds between lines, where there is no terminal to rewrite one on."""


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Progress:
    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._started = time.monotonic()
        self._told = -EVERY

    def tell(self, *, arrived: int, ended: int, counts: Counter[str]) -> None:
        passed = time.monotonic() - self._started
        harms = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        line = f"{passed:4.0f} s  {arrived:,} of {self._jobs:,} jobs arrived, {ended:,} ended; {harms or 'no harm yet'}"
        if sys.stdout.isatty():
            sys.stdout.write(f"\r{line[:200]}\x1b[K")
            sys.stdout.flush()
        elif passed - self._told >= EVERY:
            self._told = passed
            say(line)


def table(rows: Mapping[str, object]) -> None:
    width = max(map(len, rows))
    say("")
    for name, value in rows.items():
        say(f"{name:<{width}}  {value:>8,}" if isinstance(value, int) else f"{name:<{width}}  {value:>8}")
