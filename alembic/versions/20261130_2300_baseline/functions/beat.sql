-- Renew the leases of running jobs, for many tenants in one round trip. Rows that are locked are passed over, so that
-- a heartbeat may go on while a job is settled. claim.sql lists the rules of such functions.
--
-- The settings force the planner to use an index, whatever the statistics say.
create function daira.beat(
    p_tenants text[],
    p_jobs uuid[],
    p_attempts int[],
    p_progress jsonb[],
    p_lease interval
)
returns table (
    tenant_id text,
    job_id uuid,
    attempt int,
    held boolean,
    cancel_requested boolean
)
language plpgsql
volatile
security invoker
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_before text := current_setting('app.tenant_id', true);
    v record;
    b record;
begin
    for v in
        select u.tenant, array_agg(u.job order by u.job) as jobs, array_agg(u.attempt order by u.job) as attempts,
               array_agg(u.progress order by u.job) as progress
        from unnest(p_tenants, p_jobs, p_attempts, p_progress) as u(tenant, job, attempt, progress)
        where u.tenant <> '' group by u.tenant order by u.tenant
    loop
        perform set_config('app.tenant_id', v.tenant, true);
        select array_agg(h.job) as jobs, array_agg(h.attempt) as attempts, array_agg(h.held) as held,
               array_agg(h.cancel_requested) as cancels,
               array_agg(h.place) filter (where h.held) as places,
               array_agg(h.progress) filter (where h.held) as progress
          into b
          from (
            select u.job, u.attempt, u.progress, j.place, coalesce(j.cancel_requested, false) as cancel_requested,
                   coalesce(j.state = 'claimed' and j.attempts = u.attempt, false) as held,
                   -- A row that is being written just now, most likely by this job's own settle, is left out: waiting
                   -- for it would keep all the other leases waiting.
                   j.place is not null or not exists (
                       select from daira.jobs x where x.tenant_id = v.tenant and x.id = u.job offset 0) as known
            from unnest(v.jobs, v.attempts, v.progress) as u(job, attempt, progress)
            left join lateral (
                select x.ctid as place, x.state, x.attempts, x.cancel_requested from daira.jobs x
                where x.tenant_id = v.tenant and x.id = u.job for update skip locked offset 0
            ) j on true
          ) h
         where h.known;
        if b.places is not null then
            perform daira.renew(b.places, b.progress, p_lease);
        end if;
        return query select v.tenant, u.* from unnest(b.jobs, b.attempts, b.held, b.cancels) as u;
    end loop;
    perform set_config('app.tenant_id', coalesce(v_before, ''), true);
end;
$$;
