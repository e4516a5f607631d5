"""`daira doctor`: the start-up guard and every connection, one line each, in any environment."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from app import guard, local
from app.adapters.postgres.engine import temporary_engine
from app.adapters.postgres.urls import parse_url
from app.bootstrap import Runtime, open_runtime
from app.cli import tables
from app.cli.administration import with_runtime
from app.domain.errors import DairaError, Unavailable
from app.domain.ids import TenantId
from app.services.purging import PurgeReport
from app.settings import Environment, Settings
from app.telemetry import Metrics

USED_BY_JOBS = {"blobs", "llm", "recognition", "temp"}
"""Probes beyond those of the connections. That of the language model costs a few tokens."""


def doctor() -> None:
    """Check all that production requires, that database, queue and blobs answer, and what jobs use.

    Exits with 1 on a fault. In development, faults that only production refuses are shown and do not count.
    """
    console = Console(soft_wrap=True, highlight=False)
    failed = asyncio.run(_examine(console))
    sys.exit(1 if failed else 0)


async def _examine(console: Console) -> bool:
    settings = Settings()
    failed = False
    async for name, faults, tolerated in _answers(settings):
        mark = "[green]ok[/]   " if not faults else "[yellow]note[/] " if tolerated else "[red]FAULT[/]"
        console.print(f"{mark} {name}" + "".join(f"\n        {fault}" for fault in faults))
        failed = failed or (bool(faults) and not tolerated)
    return failed


async def _answers(settings: Settings) -> AsyncIterator[tuple[str, list[str], bool]]:
    """Name, faults, and whether they are tolerated here."""
    development = settings.env is Environment.DEVELOPMENT
    yield "settings", guard.settings_faults(settings), development
    if (settings.embedded or settings.memory_store) and not development:
        return
    async with local.with_database(settings) as located:
        away = [] if located.memory_store else await guard.run_check("database", reach(located))
        # Without a database every check of it would only say the same.
        sum_of = "" if away or located.memory_store else await _connections(located)
        async with guard.opened_checks(located) as checks:
            for name, check in checks.items() if not away else ():
                if name != "settings":
                    shown = f"{name}: {sum_of}" if name == guard.CONNECTIONS else name
                    yield shown, await guard.run_check(name, check), development and name == guard.NO_DEVELOPMENT_KEY
        # No worker, which would start readers; a probe starts one of its own.
        async with open_runtime(located.without_worker(), Metrics()) as runtime:
            for name, ping in runtime.pings.items():
                faults = await guard.run_check(name, _as_check(ping))
                yield f"{name} answers", [_with_address(fault, located, of=name) for fault in faults], False
            for name in sorted(USED_BY_JOBS & runtime.probes.keys()):
                yield f"{name} can be used", await guard.run_check(name, _as_check(runtime.probes[name])), False
            yield await _clocks(runtime)


async def _clocks(runtime: Runtime) -> tuple[str, list[str], bool]:
    try:
        readings = await runtime.purging.clocks.read()
    except DairaError as error:
        return "clocks", [f"can't be compared: {error}"], False
    ahead = [reading.ahead.total_seconds() for reading in (readings.database, readings.blobs)]
    return (
        "clocks: {:+.1f} s from the database's, {:+.1f} s from the blob store's".format(*ahead),
        readings.faults(),
        False,
    )


def _with_address(fault: str, settings: Settings, *, of: str) -> str:
    """Which database was asked: not by whom, and not with which password."""
    if of != "database":
        return fault
    return f"{fault}; DAIRA_DATABASE_URL leads to {parse_url(settings.database_url.get_secret_value()).address}"


def reach(settings: Settings) -> guard.CheckCall:
    url = settings.database_url.get_secret_value()
    return _as_check(
        lambda: temporary_engine(url, lambda engine: engine.call("select 1"), name="doctor", pooled=settings.pooled)
    )


async def _connections(settings: Settings) -> str:
    url = settings.database_url.get_secret_value()
    try:
        return await temporary_engine(
            url, lambda engine: guard.connections_explained(settings, engine), name="doctor", pooled=settings.pooled
        )
    except Unavailable as error:
        return str(error)


def _as_check(ping: Callable[[], Awaitable[object]]) -> guard.CheckCall:
    async def check() -> list[str]:
        await ping()
        return []

    return check


def sweep() -> None:
    """Sweep all tenants now: end expired leases and ring again for jobs whose doorbell was lost."""

    async def pass_once(opened: Runtime) -> None:
        rung = await opened.sweeping.sweep() + await opened.sweeping.full_pass()
        print(f"rang {rung} doorbell(s)")

    with_runtime(pass_once)


def purge(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and delete nothing.")] = False,
    even_many: Annotated[
        bool,
        typer.Option(
            "--even-many",
            help="Also delete where a tenant has more orphaned files than documents (skipped by default: it may be the"
            " wrong database).",
        ),
    ] = False,
) -> None:
    """Delete expired documents, orphaned files and unfinished uploads of all tenants now.

    Documents expire after DAIRA_RETENTION_DAYS. Nothing younger than a day counts as orphaned.
    """
    table = Table(
        "tenant",
        "documents beyond retention",
        "blobs without a document",
        "unfinished uploads",
        "expired keys",
        "jobs",
        "left",
    )
    progress = Console(stderr=True)

    async def pass_once(opened: Runtime) -> None:
        with progress.status("Purging…") as status:
            seen = 0

            def told(tenant_id: TenantId, purged: PurgeReport) -> None:
                nonlocal seen
                seen += 1
                status.update(f"Purging… {seen} tenant(s), {tenant_id}")
                if purged:
                    figures = (
                        purged.documents,
                        purged.orphans,
                        purged.unfinished,
                        purged.keys,
                        purged.jobs,
                        purged.left,
                    )
                    table.add_row(tenant_id, *map(str, figures))

            try:
                await opened.purging.purge(dry_run=dry_run, even_many=even_many, told=told)
            finally:
                status.stop()
                _show(table, seen=seen, dry_run=dry_run)

    with_runtime(pass_once)


def _show(table: Table, *, seen: int, dry_run: bool) -> None:
    if table.row_count:
        tables.show(table)
    print(f"{seen} tenant(s), {'nothing was removed: a dry run' if dry_run else 'purged'}")
    if any(cell != "0" for cell in table.columns[-1].cells):
        print(
            "left: more bytes without a document than with one, as if they were another database's. If they are not:"
            " daira purge --even-many"
        )
