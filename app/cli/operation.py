"""`daira backlog` and `daira sweep`: looking at the work, and giving it a push by hand."""

from rich.console import Console
from rich.table import Table

from app.bootstrap import Runtime
from app.cli.administration import with_runtime


def backlog() -> None:
    """The work that waits, by kind, read from the table."""

    async def show(opened: Runtime) -> None:
        table = Table("kind", "due", "scheduled", "running", "stuck", "oldest due")
        for row in await opened.sweeps.backlog():
            figures = (row.due, row.scheduled, row.running, row.stuck)
            table.add_row(row.kind, *map(str, figures), f"{row.oldest_due.total_seconds():.0f} s")
        Console().print(table)

    with_runtime(show)


def sweep() -> None:
    """One pass of the sweeper over every tenant, now: ends leases that ran out, rings for lost doorbells."""

    async def pass_once(opened: Runtime) -> None:
        rung = await opened.sweeping.sweep() + await opened.sweeping.full_pass()
        print(f"rang {rung} doorbell(s)")

    with_runtime(pass_once)
