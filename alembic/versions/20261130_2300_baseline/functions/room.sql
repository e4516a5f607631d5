-- The number of jobs that a tenant with a cap may begin now. With p_lock the tenant's row is locked before the count,
-- so that no two transactions count at once: without it 20 jobs were admitted where 2 were allowed. A transaction that
-- waited for the lock counts what the other has claimed, because each statement of a volatile function sees all that
-- was committed before.
--
-- There is no counter that could drift: a job that is deleted, settled or past its lease is not counted from that
-- moment. Deliveries of webhooks are not the tenant's own work and are not counted.
create function daira.room(
    p_tenant text,
    p_lock boolean
)
returns int
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
    v_cap int;
    v_running int;
begin
    if p_lock then
        perform from daira.tenants t where t.tenant_id = p_tenant for no key update;
    end if;
    select t.max_running into v_cap from daira.tenants t where t.tenant_id = p_tenant;
    select count(*) into v_running from daira.jobs x
    where x.tenant_id = p_tenant and x.state = 'claimed' and x.kind is not null and x.kind <> 'webhook'
      and x.lease_until >= clock_timestamp();
    return greatest(0, v_cap - v_running);
end;
$$;
