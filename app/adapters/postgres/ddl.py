"""What more than one migration says. It stays as it is, for they have been run with it: a new form has a new name."""

from app.adapters.postgres.migrations import script

# Wrapped in a select: evaluated once for a statement, and not planned anew in the loops of the functions.
CLAMP = "tenant_id = (select nullif(current_setting('app.tenant_id', true), ''))"

# Permissive policies are joined by OR and follow role membership; the restrictive twin bounds them all.
WALL = """
alter table daira.{table} enable row level security;
alter table daira.{table} force row level security;
create policy tenant_rows on daira.{table} as permissive for all to daira_app using ({clamp}) with check ({clamp});
create policy tenant_clamp on daira.{table} as restrictive for all to daira_app using ({clamp}) with check ({clamp});
"""

# A function's: nothing but a look-up by an index is left to the planner, whatever the statistics say.
ATTRIBUTES = """language plpgsql volatile security invoker set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column"""

# Nothing but a scan by place.
BY_PLACE = """language plpgsql volatile security invoker set plan_cache_mode = force_generic_plan
set enable_indexscan = off set enable_seqscan = off set enable_bitmapscan = off set enable_indexonlyscan = off
set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column"""


def wall_off(*tables: str) -> None:
    """Each of them shows a tenant's rows to who is clamped to it, and nothing to others. Rights are granted apart."""
    for table in tables:
        script(WALL.format(table=table, clamp=CLAMP))


def let_the_app_call(*functions: str) -> None:
    """By their signatures; everybody else no longer can."""
    for function in functions:
        script(f"revoke all on function daira.{function} from public")
        script(f"grant execute on function daira.{function} to daira_app")


def replace_backlog(body: str) -> None:
    """The scout's, and to be replaced by the scout alone, which may create nothing at any other time."""
    script("grant create on schema daira to daira_scout")
    script("set local role daira_scout")
    script(body)
    script("set local role none")
    script("revoke create on schema daira from daira_scout")
