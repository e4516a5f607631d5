-- Write the beginning of an attempt into jobs that the caller has locked.
--
-- The settings force the planner to scan by place (ctid). Joined by id again, a plan made while the table was small
-- may walk all of a tenant's jobs. A locked row keeps its place until the transaction ends.
create function daira.begin_attempts(
    p_places tid[],
    p_worker text,
    p_now timestamptz,
    p_lease interval,
    p_capped boolean
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
set enable_indexscan = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_indexonlyscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    return query
    update daira.jobs j
       set state = 'claimed', changed = pg_current_xact_id(), attempts = j.attempts + 1, claimed_by = p_worker,
           lease_until = p_now + p_lease, started_at = p_now, progress = null, rings = 0
     where j.ctid = any (p_places)
    returning j.tenant_id, j.id, 'claimed'::text, j.attempts, j.kind, j.document_id, j.payload, j.failures,
              j.max_attempts, j.traceparent, p_now - j.run_after, p_capped;
end;
$$;
