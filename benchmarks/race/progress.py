"""Shows the current step: one changing line on a terminal, a line for each step elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Steps:
    def __init__(self, console: Console, progress: Progress | None) -> None:
        self._console = console
        self._progress = progress
        self._bar = None if progress is None else progress.add_task("")
        self._started = time.monotonic()
        self._measure = ""

    def begin(self, measure: str) -> None:
        self._measure = measure

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        text = f"{self._measure}: {what}" if self._measure else what
        if self._progress is not None and self._bar is not None:
            self._progress.update(self._bar, description=text)
        else:
            self._console.print(f"{time.monotonic() - self._started:6.0f} s  {text}", highlight=False)
        yield


@contextmanager
def shown() -> Iterator[Steps]:
    # Standard output is for the result, so progress goes to standard error.
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Steps(console, None)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield Steps(console, progress)
