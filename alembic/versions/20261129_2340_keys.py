"""A key has scopes, and may be given an end; a tenant's live jobs are counted for their limit.

Keys that are there could do everything, and still can.
"""

from app.adapters.postgres.ddl import let_the_app_call
from app.adapters.postgres.migrations import script

revision = "20261129_2340"
down_revision = "20261129_2335"
branch_labels = None
depends_on = None

# Counted no further than asked, and by the index jobs_live whatever the statistics say: with a limit in sight the planner
# takes a walk over the table for cheap, which it is not where the live ones are the last of many, and a bitmap would
# count them all first.
LIVE_JOBS = """
create function daira.live_jobs(p_tenant text, p_at_most int) returns int
language plpgsql stable security invoker set plan_cache_mode = force_generic_plan set enable_seqscan = off
set enable_bitmapscan = off as $$
declare
    v_count int;
begin
    select count(*) into v_count from (
        select from daira.jobs x where x.tenant_id = p_tenant and x.state in ('queued', 'claimed') and x.kind is not null
        limit p_at_most
    ) found;
    return v_count;
end $$
"""


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script(LIVE_JOBS)
    let_the_app_call("live_jobs(text, int)")
    script("""
        alter table daira.api_keys
            add column scopes text[] not null default '{admin}',
            add constraint api_keys_scopes_check check
                (scopes <@ array['documents:read', 'documents:write', 'jobs:write', 'admin'] and scopes <> '{}');
        grant update (expires_at) on daira.api_keys to daira_app;
    """)


def downgrade() -> None:
    script("""
        drop function daira.live_jobs(text, int);
        revoke update (expires_at) on daira.api_keys from daira_app;
        alter table daira.api_keys drop column scopes;
    """)
