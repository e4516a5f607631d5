-- Give back jobs whose lease ran out and return jobs that are due for a ring, for many tenants in one round trip.
-- claim.sql lists the rules of such functions.
--
-- p_recognition limits the rings to jobs that wait for a recognition slot (true), or to the others (false).
--
-- The settings force the planner to use an index, whatever the statistics say.
create function daira.sweep(
    p_tenants text[],
    p_limit int,
    p_kinds text[] default null,
    p_recognition boolean default null
)
returns table (
    tenant_id text,
    job_id uuid,
    kind text,
    expired boolean,
    due boolean,
    delay interval
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
    -- An early pass, for an idle worker with an empty queue, does not wait for the next ring to be due.
    v_horizon timestamptz := case when p_kinds is null then v_now else 'infinity' end;
    v_lost jsonb := '{"code": "worker_lost", "message": "the worker stopped renewing its lease: killed or cut off"}';
    v_cancelled jsonb := '{"code": "cancelled", "message": "cancelled on request"}';
    v_tenant text;
    v_is_lost boolean;
    v_is_due boolean;
    v_active boolean;
    v_limit int;
    v_capped boolean;
    v_ended record;
begin
    for v_tenant in select distinct u.t from unnest(p_tenants) as u(t) where u.t <> '' order by 1
    loop
        perform set_config('app.tenant_id', v_tenant, true);
        -- Most tenants have nothing, and one probe tells: a tenth of what starting the statements below costs.
        perform from daira.jobs x where x.state in ('queued', 'claimed') and x.kind is not null limit 1;
        continue when not found;
        select exists (select from daira.jobs x where x.tenant_id = v_tenant and x.state = 'claimed'
                          and x.kind is not null and x.lease_until < v_now),
               exists (select from daira.jobs x where x.tenant_id = v_tenant and x.state = 'queued'
                          and x.ring_after is not null and x.ring_after <= v_horizon)
          into v_is_lost, v_is_due;
        if v_is_lost then
            with lost as materialized (
                select x.id, x.attempts, x.claimed_by, x.started_at, case
                    when x.cancel_requested then 'cancelled'
                    when x.expiries + 1 >= 3 then 'failed'
                    else 'queued' end as final,
                    -- What died with its worker twice is tried once more at a time of its own: one of those that died
                    -- together may be what kills them, and must not take the others along a third time.
                    case when x.expiries + 1 = 2 and not x.cancel_requested then random() * interval '15 seconds'
                         else interval '0' end as apart
                from daira.jobs x
                where x.tenant_id = v_tenant and x.state = 'claimed' and x.kind is not null and x.lease_until < v_now
                order by x.id for update skip locked
            ), ended as (
                update daira.jobs j
                   set state = l.final, changed = pg_current_xact_id(), expiries = j.expiries + 1, claimed_by = null,
                       lease_until = null, progress = null,
                       last_error = case l.final when 'cancelled' then v_cancelled else v_lost end,
                       run_after = case l.final when 'queued' then v_now + l.apart else j.run_after end,
                       -- The caller rings, now or for then.
                       ring_after = v_now + l.apart + interval '30 seconds', rings = 0,
                       finished_at = case l.final when 'queued' then null else v_now end
                  from lost l
                 where j.tenant_id = v_tenant and j.id = l.id
                returning j.id, j.kind, l.final = 'queued' as due, l.apart
            ), noted as (
                insert into daira.job_attempts (
                    tenant_id, job_id, attempt, worker, started_at, finished_at, outcome, error
                )
                select v_tenant, l.id, l.attempts, l.claimed_by, l.started_at, v_now, 'expired', v_lost from lost l
            )
            select array_agg(e.id) as jobs, array_agg(e.kind) as kinds, array_agg(e.due) as dues,
                   array_agg(e.apart) as aparts into v_ended from ended e;
            return query select v_tenant, u.job, u.kind, true, u.due, u.apart
                from unnest(v_ended.jobs, v_ended.kinds, v_ended.dues, v_ended.aparts) as u(job, kind, due, apart);
            -- The rows of those that are queued again are passed over.
            return query select v_tenant, a.delivery_id, 'webhook', false, true, interval '0'
                from daira.announce(v_tenant, v_ended.jobs) a;
        end if;

        continue when not v_is_due;
        -- A tenant with a cap is rung for what has room: its other jobs wait, and cost nothing meanwhile.
        select t.state = 'active', t.max_running is not null,
               case when t.max_running is null then p_limit
                    else least(p_limit, daira.room(v_tenant, p_lock => false)) end
          into v_active, v_capped, v_limit from daira.tenants t where t.tenant_id = v_tenant;
        continue when not coalesce(v_active, false);

        return query
        with found as materialized (
            select x.id from daira.jobs x
            where x.tenant_id = v_tenant and x.state = 'queued' and x.ring_after is not null
              -- Less, not equal: what was given back just above is returned already.
              and x.run_after < v_now
              and (not v_capped or x.kind <> 'webhook')
              and x.ring_after <= v_horizon and (p_kinds is null or x.kind = any (p_kinds))
              and (p_recognition is null or x.recognition = p_recognition)
            order by x.ring_after limit v_limit for update skip locked
        ), bumped as (
            update daira.jobs j
               set rings = least(j.rings + 1, 30),
                   ring_after = v_now + least(interval '15 minutes', interval '30 seconds' * 2 ^ least(j.rings, 10))
                                * (1 + random() * 0.25)
              from found f
             where j.tenant_id = v_tenant and j.id = f.id
            returning j.id, j.kind
        )
        select v_tenant, b.id, b.kind, false, true, interval '0' from bumped b;

        continue when not v_capped;
        return query
        with found as materialized (
            select x.id from daira.jobs x
            where x.tenant_id = v_tenant and x.state = 'queued' and x.ring_after is not null
              -- Less, not equal: what was given back just above is returned already.
              and x.run_after < v_now
              and x.kind = 'webhook'
              and x.ring_after <= v_horizon and (p_kinds is null or x.kind = any (p_kinds))
              and (p_recognition is null or x.recognition = p_recognition)
            order by x.ring_after limit p_limit for update skip locked
        ), bumped as (
            update daira.jobs j
               set rings = least(j.rings + 1, 30),
                   ring_after = v_now + least(interval '15 minutes', interval '30 seconds' * 2 ^ least(j.rings, 10))
                                * (1 + random() * 0.25)
              from found f
             where j.tenant_id = v_tenant and j.id = f.id
            returning j.id, j.kind
        )
        select v_tenant, b.id, b.kind, false, true, interval '0' from bumped b;
    end loop;
    perform set_config('app.tenant_id', coalesce(v_before, ''), true);
end;
$$;
