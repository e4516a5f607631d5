"""Checks of the database's catalogue: the conditions of tenant isolation. Each fault says what is wrong."""

from collections.abc import Awaitable, Callable

import asyncpg
from sqlalchemy import text

from app.adapters.postgres import migrations
from app.adapters.postgres.engine import PostgresEngine

PUBLISHED = ("backlog", "tenants_with_due_work")
"""The only SECURITY DEFINER functions there may be."""

MINIMUM = 15

TIMEOUTS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_timeout")
LEAST_TIMEOUT = 250
"""Milliseconds. A statement takes a few, and some tens on a busy server."""

TO_HEAD = "daira migrate"
"""The end of a fault's text where a migration helps."""

# A table with a tenant_id holds tenants' rows. Doorbells have one too, but hold nothing worth protecting.
TENANT_TABLES = """
select c.oid, c.relname as name, c.relowner, c.relrowsecurity and c.relforcerowsecurity as walled
from pg_class c join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
where n.nspname = 'daira' and c.relkind in ('r', 'p') and c.relname <> 'doorbells'
"""


async def login_is_ordinary(engine: PostgresEngine) -> list[str]:
    (me,) = await engine.call(
        "select rolname as name, rolsuper, rolbypassrls from pg_roles where rolname = current_user"
    )
    faults = []
    if me["rolsuper"]:
        faults.append(f"the login {me['name']} is a superuser: row-level security does not bind it; use daira_app")
    if me["rolbypassrls"]:
        faults.append(f"the login {me['name']} has BYPASSRLS: use daira_app")
    owners = await engine.call(
        f"select distinct pg_get_userbyid(relowner) as owner, relowner = current_user::regrole as mine"
        f" from ({TENANT_TABLES}) t where pg_has_role(current_user, relowner, 'member')"
    )
    for row in owners if not me["rolsuper"] else []:
        what = "owns the tenant tables" if row["mine"] else f"is a member of their owner {row['owner']}"
        faults.append(f"the login {me['name']} {what} and could switch their row-level security off: use daira_app")
    return faults


async def tables_are_walled(engine: PostgresEngine) -> list[str]:
    open_tables = await engine.call(f"select name from ({TENANT_TABLES}) t where not walled order by 1")
    faults = [f"table {row['name']} lacks ENABLE or FORCE ROW LEVEL SECURITY" for row in open_tables]
    thin = await engine.call(
        f"select t.name, k.permissive from ({TENANT_TABLES}) t cross join (values (true), (false)) k(permissive)"
        " where not exists (select from pg_policy p where p.polrelid = t.oid and p.polpermissive = k.permissive"
        " and p.polcmd = '*' and 'daira_app'::regrole = any (p.polroles)"
        " and pg_get_expr(p.polqual, p.polrelid) like '%app.tenant_id%'"
        " and pg_get_expr(p.polwithcheck, p.polrelid) like '%app.tenant_id%') order by 1, 2"
    )
    return faults + [
        f"table {row['name']} lacks its {'permissive' if row['permissive'] else 'restrictive'} clamp policy"
        for row in thin
    ]


async def nothing_looks_across(engine: PostgresEngine) -> list[str]:
    views = await engine.call(
        "select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'daira' and (c.relkind = 'm' or c.relkind = 'v'"
        " and not coalesce('security_invoker=true' = any (c.reloptions), false)) order by 1"
    )
    functions = await engine.call(
        "select p.proname as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname not in ('pg_catalog', 'information_schema') and p.prosecdef"
        " and not (n.nspname = 'daira' and p.proname = any ($1)) order by 1",
        list(PUBLISHED),
    )
    return [f"view {row['name']} runs with its owner's rights: make it security_invoker" for row in views] + [
        f"function {row['name']} is SECURITY DEFINER and not one of the published two" for row in functions
    ]


async def row_security_cannot_be_switched_off(engine: PostgresEngine) -> list[str]:
    """Try to switch row-level security off. A login that it binds gets an error; any other reads on."""
    try:
        async with engine.begin() as connection:
            await connection.execute(text("set local row_security = off"))
            await connection.execute(text("select from daira.jobs limit 1"))
    except Exception as error:
        if is_refused(error):
            return []
        raise
    return ["row_security = off does not raise an error for this login: it reads other tenants' rows; use daira_app"]


async def schema_is_at_head(engine: PostgresEngine) -> list[str]:
    """The schema must be at head or later: during a rollout, the previous release runs on the new schema.

    Revisions sort by time.
    """
    current, head = await migrations.current(engine) or "nothing", migrations.head()
    if current[:1].isdigit() and current >= head:
        return []
    behind = f"the schema is at {current}, this version needs {head}: {TO_HEAD}"
    return [behind if current == "nothing" else migrations.no_way_from(current) or behind]


async def scout_has_its_policies(engine: PostgresEngine) -> list[str]:
    """Check the scout's policies. Without them the two queries across tenants find nothing and give no error."""
    missing = await engine.call(
        "select w.t as name from (values ('jobs'), ('tenants')) w(t) where not exists (select from pg_policies p"
        " where p.schemaname = 'daira' and p.tablename = w.t and p.cmd = 'SELECT' and 'daira_scout' = any (p.roles))"
    )
    return [f"the scout has no policy on {row['name']}: lost bells would never be found" for row in missing]


async def only_the_application_looks_across(engine: PostgresEngine) -> list[str]:
    """Check that only daira_app and its owner may call a published function."""
    open_to = await engine.call(
        "select p.proname as name, coalesce(nullif(a.grantee, 0)::regrole::text, 'PUBLIC') as who"
        " from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
        " where n.nspname = 'daira' and p.prosecdef"
        " and (a.grantee = 0 or a.grantee not in ('daira_app'::regrole, p.proowner)) order by 1, 2"
    )
    return [f"function {row['name']} may be called by {row['who']}: revoke it" for row in open_to]


async def server_is_recent(engine: PostgresEngine) -> list[str]:
    (row,) = await engine.call("select current_setting('server_version_num')::int / 10000 as major")
    return [] if row["major"] >= MINIMUM else [f"PostgreSQL {row['major']} is too old: {MINIMUM} or later"]


async def server_takes_writes(engine: PostgresEngine) -> list[str]:
    """Raises Unavailable on a standby or a read-only database: that may pass, so it is no fault of the settings."""
    await engine.ping()
    return []


async def sessions_have_time(engine: PostgresEngine) -> list[str]:
    """Check the time-outs that the login, the database or the URL's `options` set. They are in milliseconds."""
    short = await engine.call(
        "select name, setting from pg_settings where name = any ($1) and setting::bigint between 1 and $2 order by 1",
        list(TIMEOUTS),
        LEAST_TIMEOUT - 1,
    )
    return [
        f"{row['name']} is {row['setting']} ms for this login: statements take longer; make it {LEAST_TIMEOUT} or more"
        for row in short
    ]


CHECKS: dict[str, Callable[[PostgresEngine], Awaitable[list[str]]]] = {
    "server version": server_is_recent,
    "takes writes": server_takes_writes,
    "time of sessions": sessions_have_time,
    "ordinary login": login_is_ordinary,
    "schema at head": schema_is_at_head,
    "walled tables": tables_are_walled,
    "nothing looks across": nothing_looks_across,
    "the published looks": only_the_application_looks_across,
    "the scout": scout_has_its_policies,
    "row_security": row_security_cannot_be_switched_off,
}


def is_refused(error: BaseException | None) -> bool:
    """Return True if the server refused a statement for a lack of rights."""
    while error is not None:
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            return True
        error = error.__cause__
    return False
