-- Settle jobs, for many tenants in one round trip. The fence decides which attempts are still held; nothing is written
-- for the others. claim.sql lists the rules of such functions. p_recognition is null, except for a job that is put back
-- for others: true if it waits for a recognition slot.
--
-- The settings force the planner to use an index, whatever the statistics say.
create function daira.settle(
    p_tenants text[],
    p_jobs uuid[],
    p_attempts int[],
    p_states text[],
    p_outcomes text[],
    p_errors jsonb[],
    p_delays interval[],
    p_failures int[],
    p_releases int[],
    p_progress jsonb[],
    p_recognition boolean[] default null
)
returns table (
    tenant_id text,
    job_id uuid,
    attempt int,
    held boolean,
    deliveries uuid[]
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
    v_now timestamptz := clock_timestamp();
    v record;
    h record;
    v_ended uuid[];
    v_deliveries uuid[];
begin
    for v in
        select u.tenant, array_agg(u.job order by u.job) as jobs, array_agg(u.attempt order by u.job) as attempts,
               array_agg(u.next order by u.job) as nexts, array_agg(u.outcome order by u.job) as outcomes,
               array_agg(u.error order by u.job) as errors, array_agg(u.delay order by u.job) as delays,
               array_agg(u.failures order by u.job) as failures, array_agg(u.releases order by u.job) as releases,
               array_agg(u.progress order by u.job) as progress,
               array_agg(u.recognition order by u.job) as recognition
        from unnest(p_tenants, p_jobs, p_attempts, p_states, p_outcomes, p_errors, p_delays, p_failures, p_releases,
                    p_progress, p_recognition)
             as u(tenant, job, attempt, next, outcome, error, delay, failures, releases, progress, recognition)
        where u.tenant <> '' group by u.tenant order by u.tenant
    loop
        perform set_config('app.tenant_id', v.tenant, true);
        select array_agg(u.job) as jobs, array_agg(u.attempt) as attempts, array_agg(j.place) as places,
               array_agg(case when j.cancel_requested and u.next in ('queued', 'failed')
                              then 'cancelled' else u.next end) as finals,
               array_agg(case when j.cancel_requested and u.next in ('queued', 'failed')
                              then 'cancelled' else u.outcome end) as outcomes,
               array_agg(u.error) as errors, array_agg(u.delay) as delays, array_agg(u.failures) as failures,
               array_agg(u.releases) as releases, array_agg(u.progress) as progress,
               array_agg(u.recognition) as recognition,
               exists (select from daira.webhooks w where w.tenant_id = v.tenant and w.disabled_at is null) as hooked,
               array_agg(j.claimed_by) as workers, array_agg(j.started_at) as starts
          into h
          from unnest(v.jobs, v.attempts, v.nexts, v.outcomes, v.errors, v.delays, v.failures, v.releases, v.progress,
                      v.recognition)
               as u(job, attempt, next, outcome, error, delay, failures, releases, progress, recognition)
         cross join lateral (
            select x.ctid as place, x.state, x.attempts, x.cancel_requested, x.claimed_by, x.started_at
            from daira.jobs x where x.tenant_id = v.tenant and x.id = u.job for update offset 0
         ) j
         -- The fence.
         where j.state = 'claimed' and j.attempts = u.attempt;
        v_deliveries := null;
        if h.jobs is not null then
            perform daira.end_attempts(h.places, v_now, h.finals, h.errors, h.delays, h.failures, h.releases,
                                       h.progress, h.recognition);
            insert into daira.job_attempts (tenant_id, job_id, attempt, worker, started_at, finished_at, outcome, error)
            select v.tenant, u.job, u.attempt, u.worker, u.started_at, v_now, u.outcome, u.error
            from unnest(h.jobs, h.attempts, h.workers, h.starts, h.outcomes, h.errors)
                 as u(job, attempt, worker, started_at, outcome, error)
            -- A job that was put back for others has no entry for it: it would have one for each page.
            where u.outcome <> 'yield';
            if h.hooked then
                select array_agg(a.job_id), array_agg(a.delivery_id) into v_ended, v_deliveries
                  from daira.announce(v.tenant, h.jobs) a;
            end if;
        end if;
        return query
        select v.tenant, u.job, u.attempt, coalesce((u.job, u.attempt) in (
            select * from unnest(h.jobs, h.attempts)), false),
            case when v_deliveries is not null then (select array_agg(d.id)
                from unnest(v_ended, v_deliveries) as d(job, id) where d.job = u.job) end
        from unnest(v.jobs, v.attempts) as u(job, attempt);
    end loop;
    perform set_config('app.tenant_id', coalesce(v_before, ''), true);
end;
$$;
