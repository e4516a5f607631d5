-- Take doorbells off the Postgres queue. A bell that is taken is removed: it wakes one worker, and a worker that dies
-- with it costs one sweep. Without bells, one row holds the seconds until the next delayed bell is due.
--
-- The settings force the planner to use an index, whatever the statistics say.
create function daira.answer(
    p_lane text,
    p_limit int
)
returns table (
    tenant_id text,
    job_id uuid,
    wait double precision
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
    v_turn bigint;
begin
    if exists (select from daira.doorbells d where d.lane = p_lane and d.turn is null and d.due_at <= now()) then
        select coalesce(min(d.turn), 0) into v_turn from (
            select x.turn from daira.doorbells x where x.lane = p_lane and x.turn is not null order by x.turn limit 1
        ) d;
        update daira.doorbells d
           set turn = greatest(v_turn, (
               select x.turn from daira.doorbells x
               where x.lane = p_lane and x.tenant_id = d.tenant_id and x.turn is not null order by x.turn desc limit 1
           )) + w.place
          from (
            select l.tenant_id, l.job_id, row_number() over (partition by l.tenant_id order by l.due_at) as place
            from (
                select x.tenant_id, x.job_id, x.due_at from daira.doorbells x
                where x.lane = p_lane and x.turn is null and x.due_at <= now()
                order by x.due_at limit 1000 for update skip locked
            ) l
          ) w
         where d.lane = p_lane and d.tenant_id = w.tenant_id and d.job_id = w.job_id;
    end if;

    return query
    -- By place, or a plan made while the table was small walks the whole lane for each bell. One that was rung again
    -- between the look and the lock has another place by now, and is taken the next time.
    delete from daira.doorbells d where d.ctid = any (array(
        select x.ctid from daira.doorbells x
        where x.lane = p_lane and x.turn is not null order by x.turn limit p_limit for update skip locked
    ))
    returning d.tenant_id, d.job_id, null::double precision;

    if not found then
        return query
        select null::text, null::uuid, extract(epoch from min(d.due_at) - clock_timestamp())::double precision
        from (
            select x.due_at from daira.doorbells x where x.lane = p_lane and x.turn is null order by x.due_at limit 1
        ) d;
    end if;
end;
$$;
