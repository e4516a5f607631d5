-- Put doorbells into the Postgres queue. They are sorted, because concurrent batches would deadlock otherwise. A job
-- has one bell: the sooner one counts, and its turn is kept.
--
-- The queue serves tenants in turn, so that a tenant with ten thousand bells does not delay another's one. Each bell
-- has a turn, its place in the order of service: one more than the tenant's last bell, and no less than the turn that
-- is being served. So a tenant's k-th bell waits for the others' k-th, and a late one joins the current round.
-- (Start-time fair queueing, Goyal, Vin and Cheng 1997, with bells of equal length.) Both numbers are one index probe
-- away. A delayed bell has no turn yet: it gets one from the first worker that asks after its time has come.
--
-- The settings force the planner to use an index, whatever the statistics say.
create function daira.ring(
    p_lane text,
    p_tenants text[],
    p_jobs uuid[],
    p_delay interval
)
returns void
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
    v_now boolean := p_delay <= interval '0';
    v_turn bigint := case when v_now then coalesce((
        select d.turn from daira.doorbells d where d.lane = p_lane and d.turn is not null order by d.turn limit 1
    ), 0) end;
begin
    insert into daira.doorbells as d (lane, tenant_id, job_id, due_at, turn)
    select p_lane, w.tenant_id, w.job_id, now() + p_delay, case when v_now then greatest(v_turn, (
               select x.turn from daira.doorbells x
               where x.lane = p_lane and x.tenant_id = w.tenant_id and x.turn is not null order by x.turn desc limit 1
           )) + w.place end
    from (
        select u.t as tenant_id, u.j as job_id, row_number() over (partition by u.t order by u.j) as place
        from (select distinct t, j from unnest(p_tenants, p_jobs) as u(t, j)) u
    ) w
    order by w.tenant_id, w.job_id
    on conflict (lane, tenant_id, job_id) do update
        set due_at = least(d.due_at, excluded.due_at), turn = coalesce(d.turn, excluded.turn);
end;
$$;
