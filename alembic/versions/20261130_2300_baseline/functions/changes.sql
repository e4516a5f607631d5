-- The jobs whose state changed in transactions that p_upto sees (default: this statement's snapshot) and p_since does
-- not, in the order of the transactions' numbers, from a place on. No job comes twice in that order, however many
-- pages it takes: a job that changes again meanwhile leaves the window. No row at all means that p_since is not of
-- this database's past.
--
-- A number beyond the snapshot came with a restored dump, from another server, and means nothing here.
-- docs/decisions/0030 gives the reason why there is no log of events.
create function daira.changes(
    p_tenant text,
    p_since pg_snapshot,
    p_upto pg_snapshot,
    p_changed xid8,
    p_id uuid,
    p_of uuid[],
    p_limit int
)
returns table (
    upto pg_snapshot,
    id uuid,
    changed xid8
)
language plpgsql
stable
security invoker
rows 10
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
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
end;
$$;
