-- The tenants that have due or expired work.
--
-- One of the two functions that see more than one tenant. They belong to daira_scout (scout.sql), which can neither
-- log in nor bypass row-level security: it has a policy for live rows, and SELECT on seven columns of them.
create function daira.tenants_with_due_work(
    p_limit int,
    p_kinds text[] default null,
    p_registry_after text default null,
    p_recognition boolean default null
)
returns setof text
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_horizon timestamptz := case when p_kinds is null then now() else 'infinity' end;
begin
    if p_registry_after is not null then
        -- The slow full pass: every name in turn, due or not, since it must not trust what it checks.
        return query select x.tenant_id from daira.tenants x
            where x.tenant_id > p_registry_after order by x.tenant_id limit p_limit;
        return;
    end if;
    -- One index probe for each tenant with a queued job, however many it has.
    return query
    with recursive waiting(tenant_id) as (
        (select j.tenant_id from daira.jobs j where j.state = 'queued' and j.ring_after is not null
         order by j.tenant_id limit 1)
        union all
        select (select j.tenant_id from daira.jobs j
                where j.state = 'queued' and j.ring_after is not null and j.tenant_id > w.tenant_id
                order by j.tenant_id limit 1)
        from waiting w where w.tenant_id is not null
    )
    select w.tenant_id from waiting w
    where exists (select from daira.jobs j
                  where j.tenant_id = w.tenant_id and j.state = 'queued' and j.ring_after is not null
                    and j.run_after <= now() and j.ring_after <= v_horizon
                    and (p_kinds is null or j.kind = any (p_kinds))
                    and (p_recognition is null or j.recognition = p_recognition))
      and exists (
          select from daira.tenants x where x.tenant_id = w.tenant_id and x.state = 'active'
          -- A tenant that runs as many jobs as it may waits for none of the caller's slots.
          and (p_kinds is null or p_kinds = array['webhook'] or x.max_running is null or x.max_running > (
              select count(*) from daira.jobs j
              where j.tenant_id = w.tenant_id and j.state = 'claimed' and j.kind is not null and j.kind <> 'webhook'
                and j.lease_until >= now()))
      )
    union
    select j.tenant_id from daira.jobs j
    where j.state = 'claimed' and j.kind is not null and j.lease_until < now()
    order by 1 limit p_limit;
end;
$$;
