"""Checks of the tenant tables: keys that reveal nothing of other tenants, and nothing that copies or hides rows."""

from collections.abc import Awaitable, Callable

from app.adapters.postgres.engine import PostgresEngine
from app.adapters.postgres.isolation.checks import TENANT_TABLES

OF_NOBODY = ("alembic_version", "doorbells")
"""Tables that hold no tenants' rows."""

DOORBELL = ("lane", "tenant_id", "job_id", "due_at", "turn")

TENANT_COLUMN = (
    f"(select t.oid, t.name, a.attnum, a.attnotnull from ({TENANT_TABLES}) t"
    " join pg_attribute a on a.attrelid = t.oid and a.attname = 'tenant_id')"
)


async def keys_begin_with_the_tenant(engine: PostgresEngine) -> list[str]:
    """Check keys. A unique index or foreign key without the tenant would reveal that another tenant has an id."""
    rows = await engine.call(
        "select t.name, i.indexrelid::regclass::text as key"
        f" from {TENANT_COLUMN} t join pg_index i on i.indrelid = t.oid"
        " where i.indisunique and i.indkey[0] <> t.attnum union all"
        f" select t.name, c.conname from {TENANT_COLUMN} t join pg_constraint c on c.conrelid = t.oid"
        " where c.contype = 'f' and not t.attnum = any (c.conkey) order by 1, 2"
    )
    return [f"key {row['key']} of {row['name']} does not carry the tenant: ids can be probed" for row in rows]


async def every_row_has_a_tenant(engine: PostgresEngine) -> list[str]:
    unnamed = await engine.call(
        f"select t.name from {TENANT_COLUMN} t where not t.attnotnull or not exists (select from pg_constraint c"
        " where c.conrelid = t.oid and c.contype = 'c' and c.convalidated and c.conkey = array[t.attnum]) order by 1"
    )
    others = await engine.call(
        "select c.relname as name from pg_class c where c.relnamespace = 'daira'::regnamespace"
        " and (c.relkind in ('r', 'p') and c.relname <> all ($1) and not exists (select from pg_attribute a"
        " where a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped) or c.relkind = 'f') order by 1",
        list(OF_NOBODY),
    )
    return [f"table {row['name']} takes rows whose tenant is NULL or empty" for row in unnamed] + [
        f"table {row['name']} does not say whose its rows are, or can't be walled" for row in others
    ]


async def a_doorbell_holds_nothing_else(engine: PostgresEngine) -> list[str]:
    rows = await engine.call(
        "select attname as name from pg_attribute where attrelid = 'daira.doorbells'::regclass and attnum > 0"
        " and not attisdropped and attname <> all ($1) order by 1",
        list(DOORBELL),
    )
    return [f"doorbells has a column {row['name']}: they are seen by all, and hold nothing else" for row in rows]


async def nothing_happens_beside_a_write(engine: PostgresEngine) -> list[str]:
    triggers = await engine.call(
        f"select t.name, g.tgname as trigger, g.tgisinternal as internal from ({TENANT_TABLES}) t"
        " join pg_trigger g on g.tgrelid = t.oid where not g.tgisinternal or g.tgenabled <> 'O' order by 1, 2"
    )
    rules = await engine.call(
        f"select t.name, r.rulename as rule from ({TENANT_TABLES}) t join pg_rewrite r on r.ev_class = t.oid order by 1"
    )
    faults = [
        f"foreign keys of {row['name']} are switched off" if row["internal"] else _unknown(row["name"], row["trigger"])
        for row in triggers
    ]
    return sorted(set(faults)) + [_unknown(row["name"], row["rule"]) for row in rules]


def _unknown(table: str, name: str) -> str:
    return f"{name} on {table} is a trigger or rule that no migration made"


async def nothing_stands_beside_the_schema(engine: PostgresEngine) -> list[str]:
    """Check for partitions and views elsewhere. A table's policies don't hold for a partition read by its own name."""
    rows = await engine.call(
        f"select c.oid::regclass::text as name from ({TENANT_TABLES}) t join pg_inherits i on i.inhparent = t.oid"
        " join pg_class c on c.oid = i.inhrelid where c.relnamespace <> 'daira'::regnamespace"
        " union select c.oid::regclass::text"
        f" from ({TENANT_TABLES}) t join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = t.oid"
        " join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid"
        " join pg_class c on c.oid = r.ev_class"
        " where c.relnamespace <> 'daira'::regnamespace and c.relkind in ('v', 'm')"
        " and not coalesce('security_invoker=true' = any (c.reloptions), false) order by 1"
    )
    return [f"{row['name']} shows rows of tenants outside of schema daira" for row in rows]


async def no_function_claims_to_be_leakproof(engine: PostgresEngine) -> list[str]:
    """Check for LEAKPROOF functions, which run before the policies do."""
    rows = await engine.call(
        "select oid::regproc::text as name from pg_proc"
        " where proleakproof and pronamespace <> 'pg_catalog'::regnamespace order by 1"
    )
    return [f"function {row['name']} is LEAKPROOF and gets rows before the policies do" for row in rows]


CHECKS: dict[str, Callable[[PostgresEngine], Awaitable[list[str]]]] = {
    "keys": keys_begin_with_the_tenant,
    "owners of rows": every_row_has_a_tenant,
    "doorbells": a_doorbell_holds_nothing_else,
    "triggers and rules": nothing_happens_beside_a_write,
    "parts and views": nothing_stands_beside_the_schema,
    "leakproof functions": no_function_claims_to_be_leakproof,
}
