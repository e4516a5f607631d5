"""`daira selftest`: the running deployment tried out, by what an operator would otherwise learn from an incident."""

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from app import local
from app.adapters.postgres.engine import temporary_engine
from app.adapters.postgres.isolation.checks import schema_is_at_head
from app.cli.selftest_victim import victim_process
from app.domain.doorbells import LANE_OF_KIND
from app.domain.errors import Conflict, Invalid
from app.domain.selftest import KIND
from app.selftest.deployment import Deployment
from app.selftest.run import Check, CheckFinding, CheckVerdict
from app.selftest.run import selftest as run
from app.settings import Settings
from app.telemetry import Metrics, set_up_logging
from app.wiring import open_blobs, open_doorbells, open_isolation_probe, open_store

MARKS = {CheckVerdict.PASSED: "[green]✓[/]", CheckVerdict.FAILED: "[red]✗[/]", CheckVerdict.SKIPPED: "[yellow]–[/]"}
TERMINATED = 128 + signal.SIGTERM


def selftest(
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long a worker may take to claim a job.", min=0.5, max=3600)
    ] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Check a running deployment: lost queue messages, a killed worker, writes with a lost lease, isolation.

    Run it with the settings of a web or worker process. It uses tenants of its own and the running workers, and
    removes all that it made. Exits with 1 if a check fails.
    """
    set_up_logging(level="error", human=True)
    settings = Settings().without_worker()
    refuse_unshared(settings)
    show = FindingPrinter(Console(stderr=as_json, soft_wrap=True, highlight=False), lines=not as_json)
    started = time.monotonic()
    try:
        findings = asyncio.run(_selftest(settings, patience=timedelta(seconds=timeout), show=show))
    except asyncio.CancelledError:
        sys.exit(TERMINATED)
    all_passed = sum_up(findings, seconds=time.monotonic() - started, as_json=as_json)
    sys.exit(0 if all_passed else 1)


async def _selftest(settings: Settings, *, patience: timedelta, show: "FindingPrinter") -> list[CheckFinding]:
    running = asyncio.current_task()
    assert running is not None

    def stop() -> None:
        """End as Ctrl-C does, after removing what was made. A second signal does not stop the removal."""
        if not running.cancelling():
            running.cancel()

    for told in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(told, stop)
    async with deployment(settings) as found:
        with show:
            return await run(found, patience=patience, watcher=show)


@asynccontextmanager
async def deployment(settings: Settings) -> AsyncIterator[Deployment]:
    async with local.with_database(settings) as located, AsyncExitStack() as stack:
        url = located.database_url.get_secret_value()
        if faults := await temporary_engine(url, schema_is_at_head, name="selftest", pooled=located.pooled):
            raise Conflict(faults[0])
        store = await open_store(located, stack)
        doorbells = await open_doorbells(located, stack, Metrics())
        yield Deployment(
            database=store.database,
            leases=store.leases,
            sweeps=store.sweeps,
            doorbell=doorbells[LANE_OF_KIND[KIND]],
            blobs=await open_blobs(located, stack),
            wall=open_isolation_probe(located, stack),
            doomed=lambda: victim_process(located),
            sweep_every=located.sweep_every,
        )


def refuse_unshared(settings: Settings) -> None:
    of_one_process = {
        "database (DAIRA_DATABASE_URL)": settings.memory_store,
        "queue (DAIRA_QUEUE_URL)": settings.memory_queue,
        "blob store (DAIRA_BLOB_URL)": settings.memory_blobs,
    }
    for what, unshared in of_one_process.items():
        if unshared:
            raise Invalid(f"selftest needs a {what} that the workers share: memory:// is one process's own")


class FindingPrinter:
    """A line for each finding, and on a terminal what is being looked at."""

    def __init__(self, console: Console, *, lines: bool) -> None:
        self._console = console
        self._lines = lines
        self._bars = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True
        )
        self._shown: dict[Check, TaskID] = {}

    def __enter__(self) -> None:
        if self._console.is_terminal:
            self._bars.start()

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bars.stop()

    def started(self, check: Check) -> None:
        self._shown[check] = self._bars.add_task(f"{check.name:<16}[dim]{check.sentence}[/]", total=None)

    def found(self, finding: CheckFinding) -> None:
        if finding.check in self._shown:
            self._bars.remove_task(self._shown[finding.check])
        if self._lines:
            took = "" if finding.verdict is CheckVerdict.SKIPPED else f" [dim]({finding.seconds:.1f} s)[/]"
            name = f"{finding.check.name:<16}"
            self._console.print(f"{MARKS[finding.verdict]} {name}{escape(finding.seen)}{took}")


def sum_up(findings: list[CheckFinding], *, seconds: float, as_json: bool) -> bool:
    """Report whether all checks passed, for people or as JSON."""
    failed, skipped = (
        [finding.check.name for finding in findings if finding.verdict is verdict]
        for verdict in (CheckVerdict.FAILED, CheckVerdict.SKIPPED)
    )
    if as_json:
        checks = [_body(finding) for finding in findings]
        print(json.dumps({"ok": not failed, "seconds": round(seconds, 1), "checks": checks}))
    elif failed:
        print(f"not as it should be: {', '.join(failed)}" + (f"; {len(skipped)} not looked at" if skipped else ""))
    else:
        print(f"all is as it should be ({seconds:.1f} s)")
    return not failed


def _body(finding: CheckFinding) -> dict[str, object]:
    return {
        "name": finding.check.name,
        "checks": finding.check.sentence,
        "verdict": finding.verdict,
        "seen": finding.seen,
        "seconds": round(finding.seconds, 2),
    }
