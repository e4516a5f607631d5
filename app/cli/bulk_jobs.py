"""`daira job`: retries and cancels all jobs that match, of one tenant or of all, for whoever runs the service."""

import sys
from collections.abc import AsyncIterator, Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from app.bootstrap import Runtime
from app.cli import tables
from app.cli.administration import with_runtime
from app.cli.keys import duration
from app.domain import ids
from app.domain.doorbells import LANE_OF_KIND
from app.domain.errors import Invalid
from app.domain.ids import TenantId
from app.domain.jobs import JobFilter, JobState
from app.services.bulk_jobs import BulkProgress

job = typer.Typer(
    help="Retry and cancel all jobs that match, of one tenant or all. `daira jobs` works with a tenant's key.",
    no_args_is_help=True,
)

Act = Callable[[Runtime, TenantId | None, JobFilter], AsyncIterator[BulkProgress]]

Tenant = Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="Only this tenant's jobs.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", help="Only jobs of this kind. Can be repeated.")]
Codes = Annotated[
    list[str] | None,
    typer.Option("--code", help="Only jobs whose error has this code, such as llm_not_configured. Can be repeated."),
]
Since = Annotated[str | None, typer.Option("--since", metavar="AGE", help="Only jobs not older than this, as 2h.")]
Until = Annotated[str | None, typer.Option("--until", metavar="AGE", help="Only jobs at least as old as this.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count the jobs, and change none.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@job.command("retry")
def job_retry(
    tenant: Tenant = None,
    kind: Kinds = None,
    code: Codes = None,
    since: Since = None,
    until: Until = None,
    cancelled: Annotated[bool, typer.Option("--cancelled", help="Retry cancelled jobs, not failed ones.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Queue all failed jobs that match again, with no failure counted. Ages count from a job's end.

    Those with an equal job that is queued or claimed are left out.
    """
    states = {JobState.CANCELLED if cancelled else JobState.FAILED}
    wanted = _filter(states, kind=kind, code=code, since=since, until=until)
    _act("retry", lambda opened, name, of: opened.bulk.retry(name, of), tenant, wanted, dry_run=dry_run, yes=yes)


@job.command("cancel")
def job_cancel(
    tenant: Tenant = None,
    kind: Kinds = None,
    code: Codes = None,
    since: Since = None,
    until: Until = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Cancel all queued jobs that match, and ask running ones to stop. Ages count from a job's creation."""
    wanted = _filter({JobState.QUEUED, JobState.CLAIMED}, kind=kind, code=code, since=since, until=until)
    _act("cancel", lambda opened, name, of: opened.bulk.cancel(name, of), tenant, wanted, dry_run=dry_run, yes=yes)


def _filter(
    states: set[JobState],
    *,
    kind: list[str] | None,
    code: list[str] | None,
    since: str | None,
    until: str | None,
) -> JobFilter:
    if unknown := set(kind or ()) - LANE_OF_KIND.keys():
        raise Invalid(f"there is no kind {', '.join(sorted(unknown))}; there is {', '.join(sorted(LANE_OF_KIND))}")
    return JobFilter(
        states=frozenset(states),
        kinds=frozenset(kind or ()),
        codes=frozenset(code or ()),
        since=None if since is None else duration(since),
        until=None if until is None else duration(until),
    )


def _act(verb: str, act: Act, tenant: str | None, wanted: JobFilter, *, dry_run: bool, yes: bool) -> None:
    name = None if tenant is None else ids.tenant_id(tenant)

    async def run(opened: Runtime) -> None:
        counted = [each async for each in opened.bulk.count(name, wanted)]
        total = sum(each.matched for each in counted)
        if dry_run or not total:
            _show(counted, dry_run=True)
            print(f"{total} job(s) of {len(counted)} tenant(s) match; nothing was changed")
            return
        if not yes:
            _ask(f"{verb} {total} job(s) of {len(counted)} tenant(s)?")
        await _run(act(opened, name, wanted), total=total)

    with_runtime(run)


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise Invalid(f"{question} Say so with --yes, or look with --dry-run")
    typer.confirm(question, abort=True, err=True)


async def _run(progress: AsyncIterator[BulkProgress], *, total: int) -> None:
    """Show the progress, and the sums at the end, also where it ends early."""
    latest: dict[TenantId, BulkProgress] = {}
    with Console(stderr=True).status(f"0 of {total}…") as status:
        try:
            async for each in progress:
                latest[each.tenant_id] = each
                status.update(f"{sum(one.matched for one in latest.values())} of {total}…")
        finally:
            status.stop()
            _show(list(latest.values()), dry_run=False)
            changed = sum(each.changed for each in latest.values())
            left_out = sum(each.left_out for each in latest.values())
            print(f"{changed} job(s) changed, {left_out} left out (an equal one is live, or it had changed)")


def _show(rows: list[BulkProgress], *, dry_run: bool) -> None:
    if not rows:
        return
    table = Table("tenant", "match", *([] if dry_run else ["changed", "left out"]))
    for row in rows:
        table.add_row(row.tenant_id, str(row.matched), *([] if dry_run else [str(row.changed), str(row.left_out)]))
    tables.show(table)
