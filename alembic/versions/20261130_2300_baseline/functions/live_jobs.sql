-- The number of a tenant's live jobs, for its limit. It counts no further than p_at_most, and by the index jobs_live
-- whatever the statistics say. With a limit, the planner takes a walk over the table to be cheap, which it is not if
-- the live jobs are the last of many; and a bitmap would count them all first.
create function daira.live_jobs(
    p_tenant text,
    p_at_most int
)
returns int
language plpgsql
stable
security invoker
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    v_count int;
begin
    select count(*) into v_count from (
        select from daira.jobs x
        where x.tenant_id = p_tenant and x.state in ('queued', 'claimed') and x.kind is not null and x.kind <> 'webhook'
        limit p_at_most
    ) found;
    return v_count;
end;
$$;
