"""`daira key`: what lets a caller in."""

import re
from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID

import typer
from rich.table import Column, Table

from app.bootstrap import Runtime
from app.cli import tables
from app.cli.administration import with_runtime
from app.cli.tenants import TenantName
from app.domain import ids
from app.domain.errors import Invalid
from app.domain.ids import KeyId
from app.domain.keys import EVERYDAY, ApiKey, Scope

DURATION_PATTERN = re.compile(r"(\d{1,6})([smhdw]?)", re.ASCII)
DURATION_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration(text: str) -> timedelta:
    """Raises Invalid for anything else, and for a bare number that is not 0, as it could be of anything."""
    found = DURATION_PATTERN.fullmatch(text)
    if not found or (not found[2] and int(found[1])):
        raise Invalid(f"{text!r} is not a duration; write it as 90d, 24h, 15m or 30s")
    return timedelta(**{DURATION_UNITS[found[2] or "s"]: int(found[1])})


key = typer.Typer(help="Create, list, rotate and revoke API keys.", no_args_is_help=True)

KeyIdText = Annotated[UUID, typer.Argument(metavar="KEY_ID", help="The key's id, as `daira key list` shows it.")]


@key.command("create")
def key_create(
    tenant_name: TenantName,
    name: Annotated[str, typer.Option(help="A name that says what the key is for.")] = "cli",
    scope: Annotated[
        list[Scope] | None,
        typer.Option(help=f"A permission of the key; may be repeated. [default: {', '.join(sorted(EVERYDAY))}]"),
    ] = None,
    expires_in: Annotated[
        str | None, typer.Option(help="Lifetime, such as 90d or 12h. Default: the key never expires.")
    ] = None,
) -> None:
    """Create a key and print it. It can't be shown again."""
    span = None if expires_in is None else duration(expires_in)
    if span is not None and not span:
        raise Invalid("--expires-in must be more than 0")
    scopes = frozenset(scope) if scope else EVERYDAY

    async def issue(opened: Runtime) -> None:
        tenant_id = ids.tenant_id(tenant_name)
        print(await opened.tenants.issue_key(tenant_id, name=name, scopes=scopes, expires_in=span))

    with_runtime(issue)


@key.command("list")
def key_list(tenant_name: TenantName) -> None:
    """List the tenant's keys. Secrets are not stored, so they can't be shown."""

    async def show(opened: Runtime) -> None:
        table = Table(Column("id", no_wrap=True), "name", "scopes", "created", "last used", "expires", "revoked")
        for each in await opened.tenants.keys(ids.tenant_id(tenant_name)):
            table.add_row(str(each.id), each.name, " ".join(sorted(each.scopes)), *map(_shown, _times(each)))
        tables.show(table)

    with_runtime(show)


@key.command("rotate")
def key_rotate(
    tenant_name: TenantName,
    key_id: KeyIdText,
    overlap: Annotated[
        str, typer.Option(help="How long the old key still works, such as 24h; 0 ends it at once.")
    ] = "24h",
) -> None:
    """Replace a key: print a new one with the same name, scopes and lifetime."""
    span = duration(overlap)

    async def rotate(opened: Runtime) -> None:
        print(await opened.tenants.rotate_key(ids.tenant_id(tenant_name), KeyId(key_id), overlap=span))

    with_runtime(rotate)


@key.command("revoke")
def key_revoke(tenant_name: TenantName, key_id: KeyIdText) -> None:
    """Revoke a key at once."""
    with_runtime(lambda opened: opened.tenants.revoke_key(ids.tenant_id(tenant_name), KeyId(key_id)))
    print(f"revoked {key_id}")


def _times(each: ApiKey) -> tuple[datetime | None, ...]:
    return each.created_at, each.last_used_at, each.expires_at, each.revoked_at


def _shown(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M}" if time else "–"
