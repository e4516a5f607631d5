-- Write new leases and progress into jobs that the caller has locked.
--
-- The settings force the planner to scan by place (ctid). Joined by id again, a plan made while the table was small
-- may walk all of a tenant's jobs. A locked row keeps its place until the transaction ends.
create function daira.renew(
    p_places tid[],
    p_progress jsonb[],
    p_lease interval
)
returns void
language plpgsql
volatile
security invoker
set plan_cache_mode = force_generic_plan
set enable_indexscan = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_indexonlyscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    update daira.jobs j
       set lease_until = clock_timestamp() + p_lease, progress = coalesce(u.progress, j.progress)
      from unnest(p_places, p_progress) as u(place, progress)
     where j.ctid = u.place;
end;
$$;
