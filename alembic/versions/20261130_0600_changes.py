"""A stream of events had nothing to resume at: each change of a job's state now notes the transaction that made it.

No log of events is written. `changed` says which transaction gave the job the state that it has, and a Postgres
snapshot, which is what a client resumes at, says which transactions it has seen: docs/decisions/0030. Jobs of before
have none, so no row is rewritten. Progress is no change: heartbeats write no indexed column, and stay heap-only.

Code of before runs on this. A cancel of a queued job that it makes is noted by nobody, and is found by the slower look
of whoever waits for that job.
"""

from collections.abc import Mapping

from alembic import context

from app.adapters.postgres.ddl import let_the_app_call
from app.adapters.postgres.migrations import script

revision = "20261130_0600"
down_revision = "20261130_0440"
branch_labels = None
depends_on = None

COLUMN = """
alter table daira.jobs add column changed xid8;
alter table daira.jobs alter column changed set default pg_current_xact_id();
grant update (changed) on daira.jobs to daira_app;
create index jobs_changed on daira.jobs (tenant_id, changed) where changed is not null;
"""

# What is set in the transactions that are visible in p_upto (default: to this very statement) and not in p_since, in
# the order of their numbers, from beyond a place on. Nothing comes twice in that order, however many pages it takes: a
# job that changes again meanwhile leaves the window. No row at all: p_since is not of this database's past.
#
# A number beyond the snapshot came with a restored dump, from another server: it tells nothing here.
CHANGES = """
create function daira.changes(p_tenant text, p_since pg_snapshot, p_upto pg_snapshot, p_changed xid8, p_id uuid,
                              p_of uuid[], p_limit int)
returns table (upto pg_snapshot, id uuid, changed xid8)
language plpgsql stable security invoker rows 10 set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_now pg_snapshot := pg_current_snapshot();
    v_upto pg_snapshot := coalesce(p_upto, v_now);
    v_from xid8 := greatest(pg_snapshot_xmin(p_since), p_changed);
    v_to xid8 := pg_snapshot_xmax(v_upto);
begin
    if pg_snapshot_xmax(p_since) > pg_snapshot_xmax(v_now) then
        return;
    end if;
    return query select v_upto, null::uuid, null::xid8;
    -- Most looks find nothing new, and need none of what follows.
    if p_since is null or p_since::text = v_upto::text then
        return;
    end if;
    return query
    select v_upto, x.id, x.changed from daira.jobs x
    where x.tenant_id = p_tenant and x.changed is not null and x.changed >= v_from and x.changed < v_to
      and not pg_visible_in_snapshot(x.changed, p_since) and pg_visible_in_snapshot(x.changed, v_upto)
      and (p_of is null or x.id = any (p_of))
      and (p_changed is null or x.changed > p_changed or x.id > p_id)
    order by x.changed, x.id limit p_limit;
end $$
"""
CHANGES_SIGNATURE = "changes(text, pg_snapshot, pg_snapshot, xid8, uuid, uuid[], int)"


def begin_attempts() -> str:
    return _with(_before("BEGIN_ATTEMPTS"), "set state = 'claimed', ")


def end_attempts() -> str:
    return _with(_before("END_ATTEMPTS"), "set state = h.final, ")


def claim() -> str:
    """The part for what was cancelled; what is claimed is written by begin_attempts."""
    return _with(_before("CLAIM"), "set state = 'cancelled', ")


def sweep() -> str:
    """The part for leases that ran out."""
    return _with(_before("SWEEP"), "set state = l.final, ")


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script(COLUMN)
    script(CHANGES)
    let_the_app_call(CHANGES_SIGNATURE)
    for function in (begin_attempts(), end_attempts(), claim(), sweep()):
        script(function)


def downgrade() -> None:
    for name in ("BEGIN_ATTEMPTS", "END_ATTEMPTS", "CLAIM", "SWEEP"):
        script(_before(name))
    script(f"drop function daira.{CHANGES_SIGNATURE}")
    script("alter table daira.jobs drop column changed")


def _before(name: str) -> str:
    """A whole function of migration 2320, to be put in the place of the one that is there."""
    functions: Mapping[str, str] = vars(context.script.get_revision("20261129_2320").module)
    assert functions[name].count("create function") == 1
    return functions[name].replace("create function", "create or replace function")


def _with(function: str, change_of_state: str) -> str:
    assert function.count(change_of_state) == 1, f"{change_of_state!r} is not there once"
    return function.replace(change_of_state, f"{change_of_state}changed = pg_current_xact_id(), ")
