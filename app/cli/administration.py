"""The schema, and what all commands for whoever runs the service begin with."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import typer
from rich.console import Console

from app import local
from app.adapters.postgres import migrations
from app.adapters.postgres.isolation import roles
from app.bootstrap import Runtime, open_runtime
from app.domain.errors import Invalid
from app.settings import Settings
from app.telemetry import Metrics, set_up_logging

db = typer.Typer(help="Set up the database.", no_args_is_help=True)


@asynccontextmanager
async def runtime() -> AsyncIterator[Runtime]:
    """The services that commands share with the API, without a worker."""
    settings = Settings().without_worker()
    tell_where(settings)
    async with local.with_database(settings) as located, open_runtime(located, Metrics()) as opened:
        yield opened


def tell_where(settings: Settings) -> None:
    """Whoever has left out DAIRA_DATABASE_URL is answered too, but by another database than was meant."""
    if settings.embedded:
        where = f"DAIRA_DATABASE_URL is empty: this is the database of `daira up` in {settings.data_dir}"
        Console(stderr=True).print(where, style="dim", highlight=False, soft_wrap=True)


def with_runtime(act: Callable[[Runtime], Awaitable[None]]) -> None:
    # What a command prints is its answer: warnings go beside it, and what is no warning nowhere.
    set_up_logging(level="warning", human=True)

    async def acting() -> None:
        async with runtime() as opened:
            await act(opened)

    asyncio.run(acting())


@db.command("init")
def db_init() -> None:
    """Create the roles, the database and the schema, as an administrator of the server. Safe to repeat.

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
    tell_where(settings)
    async with local.with_database(settings) as located:
        owner = located.migration_database_url.get_secret_value()
        if not owner:
            raise Invalid("set DAIRA_MIGRATION_DATABASE_URL, as daira_owner: the application's login owns nothing")
        print(f"the schema is at {await migrations.migrate(owner)}")
