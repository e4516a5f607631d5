-- Write the end of an attempt into jobs that the caller has locked.
--
-- The settings force the planner to scan by place (ctid). Joined by id again, a plan made while the table was small
-- may walk all of a tenant's jobs. A locked row keeps its place until the transaction ends.
create function daira.end_attempts(
    p_places tid[],
    p_now timestamptz,
    p_states text[],
    p_errors jsonb[],
    p_delays interval[],
    p_failures int[],
    p_releases int[],
    p_progress jsonb[],
    p_recognition boolean[]
)
returns void
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
    update daira.jobs j
       set state = h.final, changed = pg_current_xact_id(), claimed_by = null, lease_until = null,
           failures = j.failures + h.failures, releases = j.releases + h.releases,
           progress = case when h.final = 'queued' and h.recognition is null then null
                           else coalesce(h.progress, j.progress) end,
           run_after = case when h.final = 'queued' then p_now + h.delay else j.run_after end,
           ring_after = case when h.final = 'queued' then p_now + h.delay + interval '5 seconds' else j.ring_after end,
           rings = 0, recognition = coalesce(h.recognition, j.recognition),
           worked = j.worked + (p_now - j.started_at),
           finished_at = case when h.final = 'queued' then null else p_now end,
           last_error = case h.final
               when 'done' then null
               when 'cancelled' then '{"code": "cancelled", "message": "cancelled on request"}'::jsonb
               else coalesce(h.error, j.last_error) end
      from unnest(p_places, p_states, p_errors, p_delays, p_failures, p_releases, p_progress, p_recognition)
           as h(place, final, error, delay, failures, releases, progress, recognition)
     where j.ctid = h.place;
end;
$$;
