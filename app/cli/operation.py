"""`daira sweep` and `daira purge`: doing by hand what workers do by time."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from app.bootstrap import Runtime
from app.cli import tables
from app.cli.administration import with_runtime
from app.domain.ids import TenantId
from app.services.purging import Purged


def sweep() -> None:
    """One pass of the sweeper over every tenant, now: ends leases that ran out, rings for lost doorbells."""

    async def pass_once(opened: Runtime) -> None:
        rung = await opened.sweeping.sweep() + await opened.sweeping.full_pass()
        print(f"rang {rung} doorbell(s)")

    with_runtime(pass_once)


def purge(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and remove nothing.")] = False,
    even_many: Annotated[
        bool, typer.Option("--even-many", help="Also where a tenant has more bytes without a document than with one.")
    ] = False,
) -> None:
    """One purge of every tenant, now: documents beyond DAIRA_RETENTION_DAYS, bytes without a document, leftovers.

    What is younger than a day is never taken for a leftover.
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

            def told(tenant_id: TenantId, purged: Purged) -> None:
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
