"""`daira tenant`: who is served, how much of it, and not any more."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from app.bootstrap import Runtime
from app.cli import tables
from app.cli.administration import with_runtime
from app.domain import ids
from app.domain.errors import Invalid
from app.domain.tenants import TenantState

tenant = typer.Typer(help="Create, list, limit, suspend and erase tenants.", no_args_is_help=True)

TenantName = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's name.")]
NONE = "none"


@tenant.command("create")
def tenant_create(name: TenantName) -> None:
    """Register a tenant."""
    with_runtime(lambda opened: opened.tenants.create(ids.tenant_id(name)))
    print(f"created {name}; give it a key: daira key create {name}")


@tenant.command("list")
def tenant_list() -> None:
    """List all tenants with their state."""

    async def show(opened: Runtime) -> None:
        table = Table("tenant", "state", "created")
        for each in await opened.tenants.all():
            table.add_row(each.id, each.state, f"{each.created_at:%Y-%m-%d %H:%M}")
        tables.show(table)

    with_runtime(show)


@tenant.command("suspend")
def tenant_suspend(name: TenantName) -> None:
    """Refuse the tenant's keys and claim none of its jobs until it is resumed. Nothing is deleted."""
    with_runtime(lambda opened: opened.tenants.set_state(ids.tenant_id(name), TenantState.SUSPENDED))
    print(f"suspended {name}")


@tenant.command("resume")
def tenant_resume(name: TenantName) -> None:
    """End a suspension."""
    with_runtime(lambda opened: opened.tenants.set_state(ids.tenant_id(name), TenantState.ACTIVE))
    print(f"resumed {name}")


@tenant.command("limits")
def tenant_limits(
    name: TenantName,
    max_running: Annotated[str | None, typer.Option(metavar="N|none", help="The most jobs that run at a time.")] = None,
    max_queued: Annotated[str | None, typer.Option(metavar="N|none", help="The most jobs that wait or run.")] = None,
    max_upload_bytes: Annotated[
        str | None, typer.Option(metavar="N|none", help="The most bytes of a document.")
    ] = None,
    requests_per_minute: Annotated[
        str | None, typer.Option(metavar="N|none", help="The most requests a minute, in each web process.")
    ] = None,
) -> None:
    """Show a tenant's limits, changing those given. `none` resets a limit to the default."""
    given = {
        "max_running": max_running,
        "max_queued": max_queued,
        "max_upload_bytes": max_upload_bytes,
        "requests_per_minute": requests_per_minute,
    }
    changes = {limit: _number(limit, text) for limit, text in given.items() if text is not None}

    async def change_and_show(opened: Runtime) -> None:
        limits = (await opened.tenants.limit(ids.tenant_id(name), changes)).limits
        own, effective = asdict(limits), asdict(opened.tenants.allowance.with_own(limits))
        table = Table("limit", "its own", "in force")
        for limit, value in effective.items():
            table.add_row(limit, *(NONE if number is None else f"{number:,}" for number in (own[limit], value)))
        tables.show(table)

    with_runtime(change_and_show)


@tenant.command("erase")
def tenant_erase(
    name: TenantName,
    yes_erase: Annotated[
        str | None, typer.Option(metavar="TENANT", help="The tenant's name again, to confirm without a prompt.")
    ] = None,
) -> None:
    """Delete a tenant for good, with its documents, jobs and keys. This can't be undone."""
    asked = f"All that belongs to {name} will be gone for good. Type its name to go on"
    again = typer.prompt(asked, err=True) if yes_erase is None else yes_erase
    if again != name:
        raise Invalid(f"{again!r} is not {name!r}: nothing was erased")
    with_runtime(lambda opened: opened.erasure.erase(ids.tenant_id(name)))
    print(f"erased {name}")


def _number(limit: str, text: str) -> int | None:
    if text == NONE:
        return None
    if not (text.isascii() and text.isdigit()):
        raise Invalid(f"--{limit.replace('_', '-')} is a number, or none")
    return int(text)
