"""The schema, tenants and keys: commands for whoever runs the service."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Annotated
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Column, Table

from app import local
from app.adapters.postgres import migrations, roles
from app.bootstrap import Runtime, open_runtime
from app.domain import ids
from app.domain.errors import Invalid
from app.domain.ids import KeyId
from app.domain.tenants import TenantState
from app.settings import Settings
from app.telemetry import Metrics

db = typer.Typer(help="The database, once.", no_args_is_help=True)
tenant = typer.Typer(help="Tenants.", no_args_is_help=True)
key = typer.Typer(help="API keys.", no_args_is_help=True)

TenantName = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's name.")]


@asynccontextmanager
async def runtime() -> AsyncIterator[Runtime]:
    """The services that commands share with the API, without a worker."""
    async with local.with_database(Settings().without_worker()) as located, open_runtime(located, Metrics()) as opened:
        yield opened


def with_runtime(act: Callable[[Runtime], Awaitable[None]]) -> None:
    async def acting() -> None:
        async with runtime() as opened:
            await act(opened)

    asyncio.run(acting())


@db.command("init")
def db_init() -> None:
    """Make roles, database and schema, as an administrator of the server. Safe to repeat.

    Reads DAIRA_ADMIN_DATABASE_URL, and the passwords from DAIRA_MIGRATION_DATABASE_URL (as daira_owner)
    and DAIRA_DATABASE_URL (as daira_app).
    """
    settings = Settings()
    urls = (settings.admin_database_url, settings.migration_database_url, settings.database_url)
    admin, owner, app = (url.get_secret_value() for url in urls)
    if not (admin and owner and app):
        raise Invalid("set DAIRA_ADMIN_DATABASE_URL, DAIRA_MIGRATION_DATABASE_URL and DAIRA_DATABASE_URL")
    asyncio.run(roles.make_roles(admin, owner_url=owner, app_url=app))
    print("roles, database and schema are there; next: daira migrate")


def migrate() -> None:
    """Bring the schema to this version, as daira_owner (DAIRA_MIGRATION_DATABASE_URL). Safe to repeat."""
    asyncio.run(_migrate(Settings()))


async def _migrate(settings: Settings) -> None:
    async with local.with_database(settings) as located:
        owner = located.migration_database_url.get_secret_value()
        if not owner:
            raise Invalid("set DAIRA_MIGRATION_DATABASE_URL, as daira_owner: the application's login owns nothing")
        print(f"the schema is at {await migrations.migrate(owner)}")


@tenant.command("create")
def tenant_create(name: TenantName) -> None:
    """Register a tenant."""
    with_runtime(lambda opened: opened.tenants.create(ids.tenant_id(name)))
    print(f"created {name}; give it a key: daira key create {name}")


@tenant.command("list")
def tenant_list() -> None:
    """All tenants, with their state."""

    async def show(opened: Runtime) -> None:
        table = Table("tenant", "state", "created")
        for each in await opened.tenants.all():
            table.add_row(each.id, each.state, f"{each.created_at:%Y-%m-%d %H:%M}")
        Console().print(table)

    with_runtime(show)


@tenant.command("suspend")
def tenant_suspend(name: TenantName) -> None:
    """Accept none of its keys and claim none of its jobs, until resumed. Nothing is deleted."""
    with_runtime(lambda opened: opened.tenants.set_state(ids.tenant_id(name), TenantState.SUSPENDED))
    print(f"suspended {name}")


@tenant.command("resume")
def tenant_resume(name: TenantName) -> None:
    """End a suspension."""
    with_runtime(lambda opened: opened.tenants.set_state(ids.tenant_id(name), TenantState.ACTIVE))
    print(f"resumed {name}")


@key.command("create")
def key_create(
    tenant_name: TenantName,
    name: Annotated[str, typer.Option(help="What the key is for.")] = "cli",
    days: Annotated[int | None, typer.Option(help="Days until it expires. Default: never.", min=1)] = None,
) -> None:
    """Make a key and print it, this once."""

    async def issue(opened: Runtime) -> None:
        expires_in = None if days is None else timedelta(days=days)
        print(await opened.tenants.issue_key(ids.tenant_id(tenant_name), name=name, expires_in=expires_in))

    with_runtime(issue)


@key.command("list")
def key_list(tenant_name: TenantName) -> None:
    """The tenant's keys; their secrets are not known to anyone here."""

    async def show(opened: Runtime) -> None:
        table = Table(Column("id", no_wrap=True), "name", "created", "last used", "expires", "revoked")
        for each in await opened.tenants.keys(ids.tenant_id(tenant_name)):
            times = (each.created_at, each.last_used_at, each.expires_at, each.revoked_at)
            table.add_row(str(each.id), each.name, *(f"{time:%Y-%m-%d %H:%M}" if time else "–" for time in times))
        Console().print(table)

    with_runtime(show)


@key.command("revoke")
def key_revoke(
    tenant_name: TenantName, key_id: Annotated[UUID, typer.Argument(help="As in `daira key list`.")]
) -> None:
    """Refuse a key from now on."""
    with_runtime(lambda opened: opened.tenants.revoke_key(ids.tenant_id(tenant_name), KeyId(key_id)))
    print(f"revoked {key_id}")
