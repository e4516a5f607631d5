"""Claim and settle cost less a tenant, and a tenant's running jobs have a cap.

They filtered all arrays anew for every tenant, and the claim prepared for outcomes that hardly ever come: now each
tenant gets its slice of the arrays, once, and those outcomes have a statement of their own, run when there is one. At
ten jobs a tenant a claim costs half, a settle two thirds. Code of before runs on them: a column was added, no more.

Where a tenant has a cap, the claim locks the tenant's row before it counts what runs, so no two count at once: a count
without the lock admitted 20 where 2 were allowed. There is no counter that could drift: a job that is deleted, settled
or past its lease is not counted from that moment. Who was left out is told `capped`, and is rung for when a job of the
tenant ends, or by the sweeper, which rings for no more than have room.

What is locked by id is then written by its place (ctid), in a statement that can reach rows in no other way. Joined
by id again, the planner may walk all of a tenant's jobs instead: it does where it planned while the table was small, and
a session keeps its plans until the next ANALYZE. A locked row keeps its place, and the next statement of a volatile
function sees it. For the same reason the index on documents is partial: nothing but the primary key is left for a
look-up by id.
"""

from alembic import context

from app.adapters.postgres.ddl import ATTRIBUTES, BY_PLACE, let_the_app_call
from app.adapters.postgres.migrations import script

revision = "20261129_2320"
down_revision = "20261129_2315"
branch_labels = None
depends_on = None

BEGIN_ATTEMPTS = f"""
create function daira.begin_attempts(p_places tid[], p_worker text, p_now timestamptz, p_lease interval, p_capped boolean)
returns table (tenant_id text, job_id uuid, outcome text, attempts int, kind text, document_id uuid, payload jsonb,
               failures int, max_attempts int, traceparent text, waited interval, capped boolean)
{BY_PLACE}
begin
    return query
    update daira.jobs j
       set state = 'claimed', attempts = j.attempts + 1, claimed_by = p_worker,
           lease_until = p_now + p_lease, started_at = p_now, progress = null, rings = 0
     where j.ctid = any (p_places)
    returning j.tenant_id, j.id, 'claimed'::text, j.attempts, j.kind, j.document_id, j.payload, j.failures,
              j.max_attempts, j.traceparent, p_now - j.run_after, p_capped;
end $$
"""

END_ATTEMPTS = f"""
create function daira.end_attempts(p_places tid[], p_now timestamptz, p_states text[], p_errors jsonb[],
                                   p_delays interval[], p_failures int[], p_releases int[], p_progress jsonb[])
returns void
{BY_PLACE}
begin
    update daira.jobs j
       set state = h.final, claimed_by = null, lease_until = null,
           failures = j.failures + h.failures, releases = j.releases + h.releases,
           progress = case when h.final = 'queued' then null else coalesce(h.progress, j.progress) end,
           run_after = case when h.final = 'queued' then p_now + h.delay else j.run_after end,
           ring_after = case when h.final = 'queued' then p_now + h.delay + interval '5 seconds' else j.ring_after end,
           rings = 0,
           finished_at = case when h.final = 'queued' then null else p_now end,
           last_error = case h.final
               when 'done' then null
               when 'cancelled' then '{{"code": "cancelled", "message": "cancelled on request"}}'::jsonb
               else coalesce(h.error, j.last_error) end
      from unnest(p_places, p_states, p_errors, p_delays, p_failures, p_releases, p_progress)
           as h(place, final, error, delay, failures, releases, progress)
     where j.ctid = h.place;
end $$
"""

CLAIM_SIGNATURE = "claim(text[], uuid[], text, interval, text[])"
SWEEP_SIGNATURE = "sweep(text[], int, text[])"

# How many jobs a tenant with a cap may begin now. Who waits for the lock counts what the other has claimed: each
# statement of a volatile function sees all that was committed before it.
ROOM = f"""
create function daira.room(p_tenant text, p_lock boolean) returns int
{ATTRIBUTES}
declare
    v_cap int;
    v_running int;
begin
    if p_lock then
        perform from daira.tenants t where t.tenant_id = p_tenant for no key update;
    end if;
    select t.max_running into v_cap from daira.tenants t where t.tenant_id = p_tenant;
    select count(*) into v_running from daira.jobs x
    where x.tenant_id = p_tenant and x.state = 'claimed' and x.kind is not null and x.lease_until >= clock_timestamp();
    return greatest(0, v_cap - v_running);
end $$
"""

CLAIM = f"""
create function daira.claim(p_tenants text[], p_jobs uuid[], p_worker text, p_lease interval, p_kinds text[])
returns table (tenant_id text, job_id uuid, outcome text, attempts int, kind text, document_id uuid, payload jsonb,
               failures int, max_attempts int, traceparent text, waited interval, capped boolean)
{ATTRIBUTES}
declare
    v_before text := current_setting('app.tenant_id', true);
    v_now timestamptz := clock_timestamp();
    v_tenant text;
    v_ids uuid[];
    v_active boolean;
    v_cap int;
    v_ready uuid[];
    v_places tid[];
begin
    for v_tenant, v_ids in
        select u.t, array_agg(distinct u.j order by u.j) from unnest(p_tenants, p_jobs) as u(t, j)
        where u.t <> '' group by u.t order by u.t
    loop
        perform set_config('app.tenant_id', v_tenant, true);
        select t.state = 'active', t.max_running into v_active, v_cap from daira.tenants t where t.tenant_id = v_tenant;
        v_active := coalesce(v_active, false);
        select coalesce(array_agg(j.id), '{{}}'), coalesce(array_agg(j.place), '{{}}') into v_ready, v_places
          from unnest(v_ids) as u(id) cross join lateral (
            select x.id, x.ctid as place, x.kind, x.state, x.run_after, x.cancel_requested from daira.jobs x
            where x.tenant_id = v_tenant and x.id = u.id for update skip locked offset 0
          ) j
         where v_active and j.state = 'queued' and not j.cancel_requested and j.run_after <= v_now
           and j.kind = any (p_kinds);
        if v_cap is not null and v_ready <> '{{}}' then
            v_ready := v_ready[1:daira.room(v_tenant, p_lock => true)];
            v_places := v_places[1:cardinality(v_ready)];
        end if;
        if v_ready <> '{{}}' then
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
                when v_cap is not null then 'capped'
                -- Let go by another just now: it was locked when it could have been claimed.
                else 'missing_or_locked' end as outcome,
                j.state = 'queued' as queued
            from unnest(v_ids) as u(id) left join lateral (
                select x.id, x.kind, x.state, x.run_after, x.cancel_requested from daira.jobs x
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
               set ring_after = v_now + interval '30 seconds'
              from judged d
             where d.outcome = 'capped' and j.tenant_id = v_tenant and j.id = d.id
        ), cancelled as (
            update daira.jobs j
               set state = 'cancelled', finished_at = v_now,
                   last_error = '{{"code": "cancelled", "message": "cancelled on request"}}'
              from judged d
             where d.outcome = 'cancelled' and d.queued and j.tenant_id = v_tenant and j.id = d.id
        )
        select v_tenant, d.id, d.outcome, null::int, null::text, null::uuid, null::jsonb, null::int, null::int,
               null::text, null::interval, null::boolean
        from judged d;
    end loop;
    perform set_config('app.tenant_id', coalesce(v_before, ''), true);
end $$
"""

SETTLE = f"""
create or replace function daira.settle(p_tenants text[], p_jobs uuid[], p_attempts int[], p_states text[],
                                        p_outcomes text[], p_errors jsonb[], p_delays interval[], p_failures int[],
                                        p_releases int[], p_progress jsonb[])
returns table (tenant_id text, job_id uuid, attempt int, held boolean)
{ATTRIBUTES}
declare
    v_before text := current_setting('app.tenant_id', true);
    v_now timestamptz := clock_timestamp();
    v record;
    h record;
begin
    for v in
        select u.tenant, array_agg(u.job order by u.job) as jobs, array_agg(u.attempt order by u.job) as attempts,
               array_agg(u.next order by u.job) as nexts, array_agg(u.outcome order by u.job) as outcomes,
               array_agg(u.error order by u.job) as errors, array_agg(u.delay order by u.job) as delays,
               array_agg(u.failures order by u.job) as failures, array_agg(u.releases order by u.job) as releases,
               array_agg(u.progress order by u.job) as progress
        from unnest(p_tenants, p_jobs, p_attempts, p_states, p_outcomes, p_errors, p_delays, p_failures, p_releases,
                    p_progress)
             as u(tenant, job, attempt, next, outcome, error, delay, failures, releases, progress)
        where u.tenant <> '' group by u.tenant order by u.tenant
    loop
        perform set_config('app.tenant_id', v.tenant, true);
        select array_agg(u.job) as jobs, array_agg(u.attempt) as attempts, array_agg(j.place) as places,
               array_agg(case when j.cancel_requested and u.next in ('queued', 'failed')
                              then 'cancelled' else u.next end) as finals,
               array_agg(case when j.cancel_requested and u.next in ('queued', 'failed')
                              then 'cancelled' else u.outcome end) as outcomes,
               array_agg(u.error) as errors, array_agg(u.delay) as delays, array_agg(u.failures) as failures,
               array_agg(u.releases) as releases, array_agg(u.progress) as progress,
               array_agg(j.claimed_by) as workers, array_agg(j.started_at) as starts
          into h
          from unnest(v.jobs, v.attempts, v.nexts, v.outcomes, v.errors, v.delays, v.failures, v.releases, v.progress)
               as u(job, attempt, next, outcome, error, delay, failures, releases, progress)
         cross join lateral (
            select x.ctid as place, x.state, x.attempts, x.cancel_requested, x.claimed_by, x.started_at
            from daira.jobs x where x.tenant_id = v.tenant and x.id = u.job for update offset 0
         ) j
         -- The fence.
         where j.state = 'claimed' and j.attempts = u.attempt;
        if h.jobs is not null then
            perform daira.end_attempts(h.places, v_now, h.finals, h.errors, h.delays, h.failures, h.releases,
                                       h.progress);
            insert into daira.job_attempts (tenant_id, job_id, attempt, worker, started_at, finished_at, outcome, error)
            select v.tenant, u.job, u.attempt, u.worker, u.started_at, v_now, u.outcome, u.error
            from unnest(h.jobs, h.attempts, h.workers, h.starts, h.outcomes, h.errors)
                 as u(job, attempt, worker, started_at, outcome, error);
        end if;
        return query
        select v.tenant, u.job, u.attempt, coalesce((u.job, u.attempt) in (
            select * from unnest(h.jobs, h.attempts)), false)
        from unnest(v.jobs, v.attempts) as u(job, attempt);
    end loop;
    perform set_config('app.tenant_id', coalesce(v_before, ''), true);
end $$
"""

SWEEP = f"""
create function daira.sweep(p_tenants text[], p_limit int, p_kinds text[] default null)
returns table (tenant_id text, job_id uuid, kind text, expired boolean, due boolean, delay interval)
{ATTRIBUTES}
declare
    v_before text := current_setting('app.tenant_id', true);
    v_now timestamptz := clock_timestamp();
    -- An early pass, for an idle worker with an empty queue, does not wait for the next ring to be due.
    v_horizon timestamptz := case when p_kinds is null then v_now else 'infinity' end;
    v_lost jsonb := '{{"code": "worker_lost", "message": "the worker stopped renewing its lease: killed or cut off"}}';
    v_cancelled jsonb := '{{"code": "cancelled", "message": "cancelled on request"}}';
    v_tenant text;
    v_is_lost boolean;
    v_is_due boolean;
    v_active boolean;
    v_limit int;
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
        if v_is_lost then return query
        with lost as materialized (
            select x.id, x.attempts, x.claimed_by, x.started_at, case
                when x.cancel_requested then 'cancelled'
                when x.expiries + 1 >= 3 then 'failed'
                else 'queued' end as final,
                -- What died with its worker twice is tried once more at a time of its own: one of those that died
                -- together may be what kills them, and must not take the others along a third time.
                case when x.expiries + 1 = 2 and not x.cancel_requested then random() * interval '15 seconds' else interval '0' end as apart
            from daira.jobs x
            where x.tenant_id = v_tenant and x.state = 'claimed' and x.kind is not null and x.lease_until < v_now
            order by x.id for update skip locked
        ), ended as (
            update daira.jobs j
               set state = l.final, expiries = j.expiries + 1, claimed_by = null, lease_until = null, progress = null,
                   last_error = case l.final when 'cancelled' then v_cancelled else v_lost end,
                   run_after = case l.final when 'queued' then v_now + l.apart else j.run_after end,
                   -- The caller rings, now or for then.
                   ring_after = v_now + l.apart + interval '30 seconds', rings = 0,
                   finished_at = case l.final when 'queued' then null else v_now end
              from lost l
             where j.tenant_id = v_tenant and j.id = l.id
            returning j.id, j.kind, l.final = 'queued' as due, l.apart
        ), noted as (
            insert into daira.job_attempts (tenant_id, job_id, attempt, worker, started_at, finished_at, outcome, error)
            select v_tenant, l.id, l.attempts, l.claimed_by, l.started_at, v_now, 'expired', v_lost from lost l
        )
        select v_tenant, e.id, e.kind, true, e.due, e.apart from ended e;
        end if;

        continue when not v_is_due;
        -- A tenant with a cap is rung for what has room: its other jobs wait, and cost nothing meanwhile.
        select t.state = 'active', case when t.max_running is null then p_limit
                                        else least(p_limit, daira.room(v_tenant, p_lock => false)) end
          into v_active, v_limit from daira.tenants t where t.tenant_id = v_tenant;
        continue when not coalesce(v_active, false) or v_limit = 0;

        return query
        with found as materialized (
            select x.id from daira.jobs x
            where x.tenant_id = v_tenant and x.state = 'queued' and x.ring_after is not null
              -- Less, not equal: what was given back just above is returned already.
              and x.run_after < v_now
              and x.ring_after <= v_horizon and (p_kinds is null or x.kind = any (p_kinds))
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
    end loop;
    perform set_config('app.tenant_id', coalesce(v_before, ''), true);
end $$
"""


INDEX = """
drop index daira.jobs_of_document;
create index jobs_of_document on daira.jobs (tenant_id, document_id) where document_id is not null;
"""
PARTS = {
    "room(text, boolean)": ROOM,
    "begin_attempts(tid[], text, timestamptz, interval, boolean)": BEGIN_ATTEMPTS,
    "end_attempts(tid[], timestamptz, text[], jsonb[], interval[], int[], int[], jsonb[])": END_ATTEMPTS,
}


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script(INDEX)
    script(f"drop function daira.{CLAIM_SIGNATURE}; drop function daira.{SWEEP_SIGNATURE}")
    for function in (*PARTS.values(), CLAIM, SETTLE, SWEEP):
        script(function)
    let_the_app_call(CLAIM_SIGNATURE, SWEEP_SIGNATURE, *PARTS)


def downgrade() -> None:
    before = context.script.get_revision("20261129_0902").module
    script(f"drop function daira.{CLAIM_SIGNATURE}; drop function daira.{SWEEP_SIGNATURE}")
    script(before.CLAIM)
    script(before.SWEEP)
    let_the_app_call(CLAIM_SIGNATURE, SWEEP_SIGNATURE)
    script(before.SETTLE.replace("create function", "create or replace function"))
    for name in PARTS:
        script(f"drop function daira.{name}")
    script("drop index daira.jobs_of_document")
    script("create index jobs_of_document on daira.jobs (tenant_id, document_id)")
