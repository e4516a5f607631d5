-- Insert a job of kind 'webhook' for each of the tenant's webhooks that asks for the end of one of these jobs. The
-- payload holds the job as it ended, so that every attempt sends the same bytes.
--
-- The caller has set the clamp and locked the jobs. No other session sees the new rows, so their order does not matter.
-- The settings force the planner to use an index, whatever the statistics say.
create function daira.announce(
    p_tenant text,
    p_jobs uuid[]
)
returns table (
    job_id uuid,
    delivery_id uuid
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
begin
    return query
    insert into daira.jobs (tenant_id, id, kind, webhook_id, payload, max_attempts, traceparent, run_after, ring_after)
    select p_tenant, daira.uuid7(), 'webhook', w.id,
           jsonb_build_object('webhook_id', w.id, 'event', 'job.' || e.state, 'job_id', e.id, 'data',
               jsonb_build_object(
                   'id', e.id, 'document_id', e.document_id, 'kind', e.kind, 'state', e.state,
                   'attempts', e.attempts, 'failures', e.failures, 'expiries', e.expiries, 'error', e.last_error,
                   'created_at', daira.zulu(e.created_at), 'started_at', daira.zulu(e.started_at),
                   'finished_at', daira.zulu(e.finished_at))),
           10, e.traceparent, e.finished_at, e.finished_at + interval '5 seconds'
      from daira.webhooks w
     cross join unnest(p_jobs) as u(id)
     cross join lateral (select x.* from daira.jobs x where x.tenant_id = p_tenant and x.id = u.id offset 0) e
     where w.tenant_id = p_tenant and w.disabled_at is null and 'job.' || e.state = any (w.events)
       and e.kind not in ('webhook', 'selftest')
    returning (payload ->> 'job_id')::uuid, id;
end;
$$;
