"""Checks of rights other than policies: memberships, attributes and grants that would circumvent tenant isolation."""

from collections.abc import Awaitable, Callable

from app.adapters.postgres.engine import PostgresEngine
from app.adapters.postgres.isolation.checks import PUBLISHED, TENANT_TABLES

GRANTS = f"""
with tables as (select oid, name, relowner from ({TENANT_TABLES}) t), granted as (
    select t.name, t.relowner, null::name as column, a.grantee, a.privilege_type as what
    from tables t join pg_class c on c.oid = t.oid cross join aclexplode(c.relacl) a
    union all
    select t.name, t.relowner, c.attname, a.grantee, a.privilege_type
    from tables t join pg_attribute c on c.attrelid = t.oid cross join aclexplode(c.attacl) a
)
select name, "column", case when grantee = 0 then 'PUBLIC' else grantee::regrole::text end as who, what
from granted where grantee <> relowner order by 1, 2, 3, 4
"""

OF_THE_APPLICATION = frozenset({"SELECT", "INSERT", "DELETE"})
"""Rights on a whole table. UPDATE is granted by column, because a row must not change its tenant. TRUNCATE ignores
policies."""

FIXED = frozenset({"tenant_id", "id"})

OF_THE_SCOUT = {
    "jobs": frozenset({"tenant_id", "kind", "state", "run_after", "ring_after", "lease_until", "recognition"}),
    "tenants": frozenset({"tenant_id", "state", "max_running"}),
}


async def the_login_belongs_to_nothing(engine: PostgresEngine) -> list[str]:
    """Check the login's memberships, which policies follow.

    A login of another name may be a member of daira_app, and of no other role.
    """
    rows = await engine.call(
        "select current_user::text as me, r.rolname as role from pg_roles me, pg_roles r"
        " where me.rolname = current_user and not me.rolsuper"
        " and r.rolname not in (current_user, 'daira_app') and pg_has_role(me.oid, r.oid, 'member') order by 2"
    )
    return [f"the login {row['me']} is a member of {row['role']} and sees what that may see: revoke it" for row in rows]


async def roles_are_plain(engine: PostgresEngine) -> list[str]:
    rows = await engine.call(
        "select rolname as name, rolsuper or rolbypassrls as above, rolreplication or rolcreaterole as power,"
        " rolname = 'daira_scout' and rolcanlogin as login from pg_roles"
        " where rolname in ('daira_owner', 'daira_scout', current_user) order by 1"
    )
    faults = [f"{row['name']} is a superuser or has BYPASSRLS" for row in rows if row["above"]]
    # Policies don't filter replicated rows, and a role that creates roles can make itself a member of any.
    faults += [f"{row['name']} has REPLICATION or CREATEROLE" for row in rows if row["power"]]
    return faults + [f"{row['name']} can log in: make it NOLOGIN" for row in rows if row["login"]]


async def grants_are_narrow(engine: PostgresEngine) -> list[str]:
    return [
        f"{row['who']} may {row['what']} {row['name']}{'.' + row['column'] if row['column'] else ''}: revoke it"
        for row in await engine.call(GRANTS)
        if not _is_meant(row["who"], row["what"], table=row["name"], column=row["column"])
    ]


def _is_meant(who: str, what: str, *, table: str, column: str | None) -> bool:
    match who:
        case "daira_app":
            if column is None:
                return what in OF_THE_APPLICATION
            return what in {"SELECT", "INSERT"} or (what == "UPDATE" and column not in FIXED)
        case "daira_scout":
            return what == "SELECT" and column in OF_THE_SCOUT.get(table, frozenset())
        case _:
            return False


async def the_published_looks_are_the_scouts(engine: PostgresEngine) -> list[str]:
    """Check the published functions' owner and search_path.

    With another owner's rights they would read more rows. Without a search_path, another role's functions would run.
    """
    rows = await engine.call(
        "select proname as name, proowner::regrole::text as owner, prosecdef as definer,"
        " coalesce(array_to_string(proconfig, ','), '') as config, count(*) over (partition by proname) as many"
        " from pg_proc where pronamespace = 'daira'::regnamespace and proname = any ($1) order by 1",
        list(PUBLISHED),
    )
    faults = [f"function {row['name']} is there {row['many']} times" for row in rows if row["many"] > 1]
    faults += [f"function {row['name']} runs as {row['owner']}" for row in rows if row["owner"] != "daira_scout"]
    pinned = "search_path=pg_catalog, pg_temp"
    return faults + [
        f"function {row['name']} has lost its search_path or its SECURITY DEFINER"
        for row in rows
        if not row["definer"] or row["config"] != pinned
    ]


async def the_login_makes_nothing(engine: PostgresEngine) -> list[str]:
    rows = await engine.call(
        "select nspname as name from pg_namespace where nspname in ('daira', 'public')"
        " and has_schema_privilege(oid, 'create')"
        " and not (select rolsuper from pg_roles where rolname = current_user) order by 1"
    )
    return [f"the login may create things in schema {row['name']}: revoke it" for row in rows]


async def no_tenant_by_default(engine: PostgresEngine) -> list[str]:
    (row,) = await engine.call("select current_setting('app.tenant_id', true) as tenant")
    return ["app.tenant_id is set for every connection: unclamped, one tenant is seen"] if row["tenant"] else []


CHECKS: dict[str, Callable[[PostgresEngine], Awaitable[list[str]]]] = {
    "memberships": the_login_belongs_to_nothing,
    "plain roles": roles_are_plain,
    "grants": grants_are_narrow,
    "owner of the looks": the_published_looks_are_the_scouts,
    "nothing is made": the_login_makes_nothing,
    "no tenant by default": no_tenant_by_default,
}
