"""`daira upload`: files to the service, progress on a terminal, text or JSON in a pipe."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from app.cli import addresses
from app.cli.upload.find_files import FileList, find_files
from app.cli.upload.progress import ProgressBars
from app.cli.upload.report import UploadReport
from app.cli.upload.sender import WATCHERS, UploadOptions, UploadSender, UploadStopped
from app.client.client import Client
from app.client.retries import RetryPolicy

INTERRUPTED = 128 + signal.SIGINT
PATIENCE = 120.0
"""Seconds for a service that does not answer, or restarts."""


def upload(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Files, folders (with all below them), patterns such as 'scans/**/*.pdf', or - for standard input.",
            metavar="FILE…",
        ),
    ],
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the text and print it.")] = False,
    job: Annotated[
        list[str] | None, typer.Option("--job", help="A job kind to run; may be repeated. [default: ocr]")
    ] = None,
    language: Annotated[str | None, typer.Option(help="The documents' language, such as eng.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Metadata stored with each document; may be repeated.")
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Upload files even if the server already has them (restores lost file contents)."),
    ] = False,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="The number of files sent at once.")] = 4,
    name: Annotated[str | None, typer.Option(help="The file name for standard input.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each document.")] = False,
    url: Annotated[
        str | None, typer.Option(help="The service's address. Default: DAIRA_URL, or the running `daira up`.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The data folder of the running `daira up` to use.")] = None,
) -> None:
    """Upload documents; with --wait, print their text. Exits with 1 if any document failed.

    Files that the server has are not sent again: after Ctrl-C or a failure, run the same command again.
    Hidden and empty files in folders are skipped. The API key is DAIRA_API_KEY, or the key of the running `daira up`.

    - `daira upload --wait scan.pdf`
    - `daira upload --json scans 'mail/**/*.eml' | jq .id`
    - `curl -s https://example.com/a.pdf | daira upload - --name a.pdf`
    """
    order = UploadOptions(kinds=job, language=language, metadata=_pairs(metadata or []), wait=wait, again=again)
    address = addresses.find(url=url, api_key=None, data_dir=data_dir)
    with Client(address.url, address.api_key, patience=RetryPolicy(seconds=0)) as client:
        # A wrong address or key is one fault, and not one for each file.
        client.me()
    gathered = find_files(files, name=name)
    sys.exit(_run(address, gathered, order, parallel=parallel, as_json=as_json))


def _run(
    address: addresses.ServiceAddress, gathered: FileList, order: UploadOptions, *, parallel: int, as_json: bool
) -> int:
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    interrupts = InterruptHandler()
    lull = BusyNotice(console, interrupts.stop)
    patience = RetryPolicy(seconds=PATIENCE, busy=0, pause=lull.pause, told=lull.tell)
    bars = ProgressBars(console, gathered.files, wait=order.wait)
    started = time.monotonic()
    with Client(address.url, address.api_key, patience=patience, connections=parallel + WATCHERS + 1) as client:
        report = UploadReport(console, gathered, text=client.text if order.wait else None, as_json=as_json)
        sending = UploadSender(
            client=client, order=order, show=bars, say=lull.say, stop=interrupts.stop, hurry=interrupts.hurry
        )
        report.begin()
        with bars.open(), interrupts.heard():
            for outcome in sending.outcomes(gathered.files, parallel=parallel):
                report.add(outcome)
        stopped, hurry = interrupts.stop.is_set(), interrupts.hurry.is_set()
        report.end(seconds=time.monotonic() - started, stopped=stopped, in_a_hurry=hurry)
    if hurry:
        # Threads that wait for an answer would be waited for.
        sys.stdout.flush()
        os._exit(INTERRUPTED)
    if stopped:
        return INTERRUPTED
    return 1 if report.has_faults else 0


class InterruptHandler:
    """Ctrl-C: once, and what is being sent is finished; twice, and it ends at once."""

    def __init__(self) -> None:
        self.stop = Event()
        self.hurry = Event()

    @contextmanager
    def heard(self) -> Iterator[None]:
        before = signal.signal(signal.SIGINT, self._hear)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _hear(self, _signal: int, _frame: FrameType | None) -> None:
        if self.stop.is_set():
            self.hurry.set()
        self.stop.set()


class BusyNotice:
    """Messages of the threads about a busy or unreachable service, printed once and not once for each thread."""

    def __init__(self, console: Console, stop: Event) -> None:
        self._console = console
        self._stop = stop
        self._lock = Lock()
        self._said_until = 0.0

    def tell(self, why: Exception, seconds: float) -> None:
        self.say(f"no answer ({why}): trying again in {seconds:.0f} s", seconds=seconds)

    def say(self, line: str, *, seconds: float = 5.0) -> None:
        with self._lock:
            now = time.monotonic()
            if now < self._said_until:
                return
            self._said_until = now + seconds
        self._console.print(line, style="yellow", markup=False)

    def pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise UploadStopped


def _pairs(given: list[str]) -> dict[str, str]:
    wrong = [pair for pair in given if "=" not in pair]
    if wrong:
        raise typer.BadParameter(f"{wrong[0]!r} is not KEY=VALUE", param_hint="--metadata")
    return dict(pair.split("=", 1) for pair in given)
