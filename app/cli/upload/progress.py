"""Bars while files are sent and read: one for each file in hand, one for all. In a pipe there are none."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text
from typing_extensions import override

from app.cli.upload.find_files import LocalFile

LONGEST_NAME = 40
STEADY = 1.0
"""Seconds after which a rate means something."""


class ProgressBars:
    def __init__(self, console: Console, files: Sequence[LocalFile], *, wait: bool) -> None:
        self._lock = Lock()
        self._of_file: dict[int, TaskID] = {}
        self._sizes = {id(file): file.size for file in files}
        self._counted: dict[int, int] = {}
        self._progress = Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            BarColumn(),
            _AmountColumn(),
            _RateColumn(),
            _TimeLeftColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            # What is printed there goes above the bars; where it is a file or a pipe, it must arrive there.
            redirect_stdout=sys.stdout.isatty(),
            speed_estimate_period=10,
        )
        many = len(files) > 1
        total = sum(file.size for file in files)
        self._all = self._progress.add_task("all", total=total, unit="bytes", files=len(files), done=0, visible=many)
        self._read = self._progress.add_task("read", total=len(files), unit="files", visible=many and wait)

    @contextmanager
    def open(self) -> Iterator[None]:
        with self._progress:
            yield

    def sending(self, file: LocalFile, sent: int) -> None:
        # The form around the file counts among what is sent.
        self._update(file, done=min(sent, file.size), total=file.size, unit="bytes")
        self._count(file, min(sent, file.size))

    def reading(self, file: LocalFile, done: int, total: int) -> None:
        self._update(file, done=done, total=total, unit="pages")

    def stored(self, file: LocalFile, *, sent: bool) -> None:
        del sent
        self._count(file, file.size)
        with self._lock:
            done = self._progress.tasks[0].fields["done"] + 1
            self._progress.update(self._all, done=done)
        self._remove(file)

    def over(self, file: LocalFile) -> None:
        self._count(file, file.size)
        self._remove(file)
        self._progress.advance(self._read)

    def _count(self, file: LocalFile, done: int) -> None:
        with self._lock:
            more = done - self._counted.get(id(file), 0)
            self._counted[id(file)] = done
        self._progress.advance(self._all, more)

    def _update(self, file: LocalFile, *, done: int, total: int, unit: str) -> None:
        with self._lock:
            bar = self._of_file.get(id(file))
            if bar is None:
                bar = self._progress.add_task(_short(file), total=total, unit=unit)
                self._of_file[id(file)] = bar
        self._progress.update(bar, completed=done, total=total, unit=unit)

    def _remove(self, file: LocalFile) -> None:
        with self._lock:
            bar = self._of_file.pop(id(file), None)
        if bar is not None:
            self._progress.remove_task(bar)


class _AmountColumn(ProgressColumn):
    @override
    def render(self, task: Task) -> Text:
        done, total = int(task.completed), int(task.total or 0)
        if task.fields["unit"] == "bytes":
            amount = f"{decimal(done)} of {decimal(total)}"
        else:
            amount = f"{done:,} of {total:,} {task.fields['unit']}"
        if "files" in task.fields:
            amount = f"{task.fields['done']:,} of {task.fields['files']:,} files, {amount}"
        return Text(amount, style="progress.download")


class _RateColumn(ProgressColumn):
    @override
    def render(self, task: Task) -> Text:
        # Small files are in the system's buffers at once, which says nothing of the line.
        if task.fields["unit"] != "bytes" or not task.speed or (task.elapsed or 0) < STEADY:
            return Text("")
        return Text(f"{decimal(int(task.speed))}/s", style="progress.data.speed")


class _TimeLeftColumn(ProgressColumn):
    max_refresh = 0.5

    @override
    def render(self, task: Task) -> Text:
        left = task.time_remaining
        return Text("" if left is None or task.finished else f"{_clock(left)} left", style="progress.remaining")


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


def _short(file: LocalFile) -> str:
    name = file.shown
    return escape(name if len(name) <= LONGEST_NAME else f"…{name[-LONGEST_NAME + 1 :]}")
