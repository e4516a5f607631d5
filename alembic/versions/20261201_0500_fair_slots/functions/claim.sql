-- Claim jobs by id for a worker, for many tenants in one round trip. Each doorbell gets an outcome.
--
-- The rules here hold for claim, beat, settle and sweep alike:
-- - They run with the caller's rights, inside row-level security. For each tenant in turn they set the clamp in a
--   statement of its own. At the end the caller's own clamp is put back.
-- - They lock rows by id and look at the state afterwards: with the state in the WHERE clause the planner walks the
--   tenant's whole queue.
-- - They work in (tenant_id, id) order: otherwise concurrent batches deadlock.
-- - They have no EXCEPTION blocks: leaving one by an error brings back the previous tenant's clamp.
-- - Their plans are generic: by id there is one good plan, and planning anew cost more than the claim itself (1.0 ms
--   against 0.4 ms, measured).
-- - Each tenant gets its slice of the arrays once: filtering all arrays for every tenant cost twice as much for a
--   claim of ten jobs a tenant.
--
-- p_recognition is the worker's number of free recognition slots. So many of the jobs that wait for one are claimed,
-- and the others get the outcome `recognition`. Null means that the worker does not tell them apart.
--
-- The settings force the planner to use an index, whatever the statistics say.
create function daira.claim(
    p_tenants text[],
    p_jobs uuid[],
    p_worker text,
    p_lease interval,
    p_kinds text[],
    p_recognition int default null
)
returns table (
    tenant_id text,
    job_id uuid,
    outcome text,
    attempts int,
    kind text,
    document_id uuid,
    payload jsonb,
    failures int,
    max_attempts int,
    traceparent text,
    waited interval,
    capped boolean
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
    v_tenant text;
    v_ids uuid[];
    v_active boolean;
    v_cap int;
    v_ready uuid[];
    v_places tid[];
    v_flags boolean[];
    v_slots int := p_recognition;
    v_begun int;
    v_fit uuid[];
begin
    for v_tenant, v_ids in
        select u.t, array_agg(distinct u.j order by u.j) from unnest(p_tenants, p_jobs) as u(t, j)
        where u.t <> '' group by u.t order by u.t
    loop
        perform set_config('app.tenant_id', v_tenant, true);
        select t.state = 'active', case when p_kinds <> array['webhook'] then t.max_running end into v_active, v_cap
          from daira.tenants t where t.tenant_id = v_tenant;
        v_active := coalesce(v_active, false);
        select coalesce(array_agg(j.id), '{}'), coalesce(array_agg(j.place), '{}'), array_agg(j.recognition)
          into v_ready, v_places, v_flags
          from unnest(v_ids) as u(id) cross join lateral (
            select x.id, x.ctid as place, x.kind, x.state, x.run_after, x.cancel_requested, x.recognition
            from daira.jobs x
            where x.tenant_id = v_tenant and x.id = u.id for update skip locked offset 0
          ) j
         where v_active and j.state = 'queued' and not j.cancel_requested and j.run_after <= v_now
           and j.kind = any (p_kinds);
        if v_slots is not null and true = any (v_flags) then
            select coalesce(array_agg(w.id), '{}'), coalesce(array_agg(w.place), '{}'),
                   count(*) filter (where w.flag)
              into v_ready, v_places, v_begun
              from (select u.id, u.place, u.flag, count(*) filter (where u.flag) over (order by u.id) as nth
                    from unnest(v_ready, v_places, v_flags) as u(id, place, flag)) w
             where not w.flag or w.nth <= v_slots;
            v_slots := v_slots - v_begun;
        end if;
        v_fit := v_ready;
        if v_cap is not null and v_ready <> '{}' then
            v_ready := v_ready[1:daira.room(v_tenant, p_lock => true)];
            v_places := v_places[1:cardinality(v_ready)];
        end if;
        if v_ready <> '{}' then
            return query select * from daira.begin_attempts(v_places, p_worker, v_now, p_lease, v_cap is not null);
        end if;
        continue when cardinality(v_ready) = cardinality(v_ids);

        -- The others, and what is to be done about them. Those that could be locked above still are.
        return query
        with judged as materialized (
            select u.id, case
                when j.id is null then 'missing_or_locked'
                when j.state = 'claimed' then 'taken'
                when j.state <> 'queued' then j.state
                when j.cancel_requested then 'cancelled'
                when j.run_after > v_now then 'not_due'
                when not v_active then 'suspended'
                when j.kind <> all (p_kinds) then 'unknown_kind'
                when j.recognition and p_recognition is not null and j.id <> all (v_fit) then 'recognition'
                when v_cap is not null then 'capped'
                -- Let go by another just now: it was locked when it could have been claimed.
                else 'missing_or_locked' end as outcome,
                j.state = 'queued' as queued
            from unnest(v_ids) as u(id) left join lateral (
                select x.id, x.kind, x.state, x.run_after, x.cancel_requested, x.recognition from daira.jobs x
                where x.tenant_id = v_tenant and x.id = u.id for update skip locked offset 0
            ) j on true
            where u.id <> all (v_ready)
        ), put_off as (
            update daira.jobs j
               set run_after = v_now + interval '60 seconds', ring_after = v_now + interval '65 seconds', rings = 0
              from judged d
             where d.outcome in ('unknown_kind', 'suspended') and j.tenant_id = v_tenant and j.id = d.id
        ), capped as (
            update daira.jobs j
               -- Those that wait for recognition have no bound as those of a capped tenant have: the interval grows.
               set ring_after = case d.outcome when 'capped' then v_now + interval '30 seconds'
                                else greatest(j.ring_after, v_now + interval '30 seconds') end
              from judged d
             where d.outcome in ('capped', 'recognition') and j.tenant_id = v_tenant and j.id = d.id
        ), cancelled as (
            update daira.jobs j
               set state = 'cancelled', changed = pg_current_xact_id(), finished_at = v_now,
                   last_error = '{"code": "cancelled", "message": "cancelled on request"}'
              from judged d
             where d.outcome = 'cancelled' and d.queued and j.tenant_id = v_tenant and j.id = d.id
        )
        select v_tenant, d.id, d.outcome, null::int, null::text, null::uuid, null::jsonb, null::int, null::int,
               null::text, null::interval, null::boolean
        from judged d;
        if exists (select from daira.webhooks w where w.tenant_id = v_tenant and w.disabled_at is null) then
            perform daira.announce(v_tenant, (
                select array_agg(j.id) from unnest(v_ids) as u(id) cross join lateral (
                    select x.id from daira.jobs x
                    where x.tenant_id = v_tenant and x.id = u.id and x.finished_at = v_now offset 0
                ) j));
        end if;
    end loop;
    perform set_config('app.tenant_id', coalesce(v_before, ''), true);
end;
$$;
