"""The roles, which an administrator makes once. Migrations grant their rights on the tables.

daira_owner  owns the schema and migrates it; forced row-level security binds it too
daira_app    the login of web and worker: no owner, no superuser, no BYPASSRLS, no memberships
daira_scout  owns the two functions that read more than one tenant; can't log in
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from app.adapters.postgres.engine import administer
from app.adapters.postgres.urls import parse_url
from app.domain.errors import Invalid

OWNER, APP, SCOUT = "daira_owner", "daira_app", "daira_scout"

PLAIN = {
    "rolsuper": "nosuperuser",
    "rolbypassrls": "nobypassrls",
    "rolcreatedb": "nocreatedb",
    "rolcreaterole": "nocreaterole",
    "rolreplication": "noreplication",
    "rolinherit": "noinherit",
}
"""The attributes that no role may have, by the catalogue's column."""

INHERIT_OPTIONS_SINCE = 16

TIMEOUTS = """
alter role daira_app set statement_timeout = '30s';
alter role daira_app set idle_in_transaction_session_timeout = '30s';
alter role daira_app set search_path = daira, public;
"""
# A migration that touches tenants' rows without a clamp would silently change none; this makes it an error.
FAIL_LOUDLY = "alter role daira_owner set row_security = off"


async def make_roles(admin_url: str, *, owner_url: str, app_url: str) -> None:
    """Create roles, database and schema, or bring them in line. Passwords are those in the two URLs.

    Raises Invalid if a URL names another role than its own or another database, and if the administrator lacks a right.
    """
    database = _database(owner_url, OWNER)
    if _database(app_url, APP) != database:
        raise Invalid("DAIRA_DATABASE_URL and DAIRA_MIGRATION_DATABASE_URL name different databases")
    async with _with_the_right_to(), administer(admin_url) as admin:
        await _role(admin, OWNER, login=True, password=_password(owner_url))
        await _role(admin, APP, login=True, password=_password(app_url))
        await _role(admin, SCOUT, login=False, password="")
        await admin.execute(TIMEOUTS + FAIL_LOUDLY)
        await admin.execute(_membership(admin))
        if not await admin.fetchval("select true from pg_database where datname = $1", database):
            await admin.execute(f"create database {_quoted(database)} owner {OWNER}")
        await admin.execute(f"revoke all on database {_quoted(database)} from public")
        await admin.execute(f"grant connect on database {_quoted(database)} to {APP}")
    async with _with_the_right_to(), administer(admin_url, database=database) as admin:
        await admin.execute(f"create schema if not exists daira authorization {OWNER}")
        await admin.execute("revoke create on schema public from public")


@asynccontextmanager
async def _with_the_right_to() -> AsyncIterator[None]:
    try:
        yield
    except asyncpg.InsufficientPrivilegeError as error:
        raise Invalid(
            f"the login of DAIRA_ADMIN_DATABASE_URL may not do this ({error}): it needs CREATEROLE and CREATEDB, and to"
            " have made the roles that are there"
        ) from error


async def _role(admin: asyncpg.Connection, name: str, *, login: bool, password: str) -> None:
    there = await admin.fetchrow("select * from pg_roles where rolname = $1", name)
    if there is None:
        await admin.execute(f"create role {name} {'login' if login else 'nologin'} {' '.join(PLAIN.values())}")
    else:
        # Correct attributes are not set again: the administrator of a managed server may not even repeat `nosuperuser`.
        wrong = [word for column, word in PLAIN.items() if there[column]]
        wrong += ["login" if login else "nologin"] if there["rolcanlogin"] != login else []
        if wrong:
            await admin.execute(f"alter role {name} {' '.join(wrong)}")
    if password:
        # A utility statement takes no parameters, so the server quotes the literal.
        literal = await admin.fetchval("select quote_literal($1::text)", password)
        await admin.execute(f"alter role {name} password {literal}")


def _membership(admin: asyncpg.Connection) -> str:
    """The grants that let the owner become the scout, to which it hands the two functions over."""
    options = " with inherit false, set true" if admin.get_server_version().major >= INHERIT_OPTIONS_SINCE else ""
    return f"grant {SCOUT} to {OWNER}{options}; grant {OWNER} to current_user"


def _password(url: str) -> str:
    """The password in the URL, decoded as clients send it."""
    return parse_url(url).password or ""


def _database(url: str, role: str) -> str:
    parsed = parse_url(url)
    if parsed.user != role:
        raise Invalid(f"the URL for {role} names the user {parsed.user!r}")
    return parsed.database or role


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
