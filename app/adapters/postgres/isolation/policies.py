"""A check of the policies of tenant tables, word for word: a policy that exists may still let all rows pass."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from app.adapters.postgres.engine import PostgresEngine
from app.adapters.postgres.isolation.checks import TENANT_TABLES

CLAMPED = "tenant_id=SELECTNULLIFcurrent_setting'app.tenant_id',true,''"
"""The clamp's condition as the server prints it, without blanks, brackets, casts and labels. A helper function in its
place could be IMMUTABLE: a plan would keep its value and serve the next tenant with it."""

POLICIES = f"""
select t.name as table, p.polname as policy, p.polpermissive as permissive, p.polcmd::text as command,
       array(select case when r = 0 then 'PUBLIC' else r::regrole::text end from unnest(p.polroles) r) as roles,
       regexp_replace(pg_get_expr(p.polqual, p.polrelid), '\\s|[()]|::text|AS "nullif"', '', 'g') as sees,
       regexp_replace(pg_get_expr(p.polwithcheck, p.polrelid), '\\s|[()]|::text|AS "nullif"', '', 'g') as writes
from ({TENANT_TABLES}) t join pg_policy p on p.polrelid = t.oid order by 1, 2
"""


class Policy(NamedTuple):
    command: str
    """`*` all, `r` select."""
    roles: tuple[str, ...]
    sees: str | None
    writes: str | None


CLAMP = Policy("*", ("daira_app",), CLAMPED, CLAMPED)
OF_THE_SCOUT = {
    ("jobs", "scout_live"): Policy("r", ("daira_scout",), "state=ANYARRAY['queued','claimed']", None),
    ("tenants", "scout_registry"): Policy("r", ("daira_scout",), "tenant_id<>''", None),
}


async def policies_say_what_they_should(engine: PostgresEngine) -> list[str]:
    """Check every policy.

    Permissive ones are joined by OR, so each must be known; restrictive ones only remove rows.
    """
    faults = []
    for row in await engine.call(POLICIES):
        table, name = row["table"], row["policy"]
        policy = Policy(row["command"], tuple(row["roles"]), row["sees"], row["writes"])
        if row["permissive"] and name != "tenant_rows" and (table, name) not in OF_THE_SCOUT:
            faults.append(
                f"policy {name} on {table} shows {', '.join(policy.roles)} more than a tenant's rows: drop it"
            )
        elif name in {"tenant_rows", "tenant_clamp"} and policy != CLAMP:
            faults.append(f"policy {name} on {table} is not the clamp")
        elif policy != OF_THE_SCOUT.get((table, name), policy):
            faults.append(f"policy {name} on {table} shows the scout something else than live work")
    return faults


CHECKS: dict[str, Callable[[PostgresEngine], Awaitable[list[str]]]] = {
    "words of policies": policies_say_what_they_should
}
