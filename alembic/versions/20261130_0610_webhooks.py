"""Nobody was told when a job ended: webhooks, and deliveries as jobs that the transaction inserts which ends a job.

Whatever ends a job calls `announce`, under the clamp: a settle, the sweep, a claim that meets a cancelled one, and a
cancel. It inserts a job of the kind `webhook` for each webhook of the tenant that asks for the event, with the job as
it ended in the payload: every try sends the same bytes. Where a tenant has no webhook, a settle costs one probe of an
index more. Code of before runs on the new functions: it does not look at the column that a settle now answers besides.

Deliveries are not the tenant's own work: they count for neither of its limits, `max_queued` and `max_running`.
"""

from typing import Any

from alembic import context

from app.adapters.postgres.ddl import ATTRIBUTES, let_the_app_call, wall_off
from app.adapters.postgres.migrations import script

revision = "20261130_0610"
down_revision = "20261130_0600"
branch_labels = None
depends_on = None

TABLE = """
create table daira.webhooks (
    tenant_id       text not null,
    id              uuid not null,
    url             text not null,
    events          text[] not null,
    description     text not null default '',
    secret          text not null,
    previous_secret text,
    previous_until  timestamptz,
    created_at      timestamptz not null default now(),
    healthy_at      timestamptz not null default now(),
    disabled_at     timestamptz,
    disabled_reason text,
    constraint webhooks_pkey primary key (tenant_id, id),
    constraint webhooks_tenant_check check (tenant_id <> ''),
    constraint webhooks_events_check check
        (events <@ array['job.done', 'job.failed', 'job.cancelled'] and events <> '{}'),
    constraint webhooks_tenant_fkey foreign key (tenant_id) references daira.tenants on delete cascade
);
grant select, insert, delete on daira.webhooks to daira_app;
grant update (secret, previous_secret, previous_until, healthy_at, disabled_at, disabled_reason)
    on daira.webhooks to daira_app;
"""

# No foreign key to the webhook: its removal would lock its deliveries one by one, against the batches that settle them.
JOBS = """
alter table daira.jobs add column webhook_id uuid;
grant insert (webhook_id), delete on daira.jobs to daira_app;
grant delete on daira.results to daira_app;
-- For a webhook's deliveries, and for the purge. An id is its last column: no claim by id can be led into it.
create index jobs_without_document on daira.jobs (tenant_id, webhook_id, id) where document_id is null;
"""

SCOPES = "array['documents:read', 'documents:write', 'jobs:write', {}'admin']"
SCOPES_CHECK = """
alter table daira.api_keys
    drop constraint api_keys_scopes_check,
    add constraint api_keys_scopes_check check (scopes <@ {} and scopes <> '{{}}')
"""

# RFC 9562, version 7: milliseconds, then chance. Postgres has one of its own from 18 on.
UUID7 = """
create function daira.uuid7() returns uuid language sql volatile security invoker as $$
    select encode(
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                    placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                    from 1 for 6),
            52, 1), 53, 1), 'hex')::uuid
$$
"""

# The clamp is the caller's, and so is the order: the jobs are locked already, and what is inserted nobody else sees.
ANNOUNCE = f"""
create function daira.announce(p_tenant text, p_jobs uuid[]) returns table (job_id uuid, delivery_id uuid)
{ATTRIBUTES}
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
end $$
"""

ZULU = """
create function daira.zulu(p_moment timestamptz) returns text language sql stable security invoker as $$
    select to_char(p_moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$
"""

NEW = {
    "uuid7()": UUID7,
    "zulu(timestamptz)": ZULU,
    "announce(text, uuid[])": ANNOUNCE,
}
SETTLE_SIGNATURE = "settle(text[], uuid[], int[], text[], text[], jsonb[], interval[], int[], int[], jsonb[])"

HOOKED = "exists (select from daira.webhooks w where w.tenant_id = {} and w.disabled_at is null)"

SETTLE = (
    ("attempt int, held boolean)", "attempt int, held boolean, deliveries uuid[])"),
    ("    h record;\nbegin", "    h record;\n    v_ended uuid[];\n    v_deliveries uuid[];\nbegin"),
    (
        "array_agg(j.claimed_by) as workers,",
        f"{HOOKED.format('v.tenant')} as hooked, array_agg(j.claimed_by) as workers,",
    ),
    (
        "        if h.jobs is not null then\n",
        "        v_deliveries := null;\n        if h.jobs is not null then\n",
    ),
    (
        "as u(job, attempt, worker, started_at, outcome, error);\n",
        """as u(job, attempt, worker, started_at, outcome, error);
            if h.hooked then
                select array_agg(a.job_id), array_agg(a.delivery_id) into v_ended, v_deliveries
                  from daira.announce(v.tenant, h.jobs) a;
            end if;
""",
    ),
    (
        "            select * from unnest(h.jobs, h.attempts)), false)\n",
        """            select * from unnest(h.jobs, h.attempts)), false),
            case when v_deliveries is not null then (select array_agg(d.id)
                from unnest(v_ended, v_deliveries) as d(job, id) where d.job = u.job) end
""",
    ),
)

SWEEP = (
    ("    v_limit int;\nbegin", "    v_limit int;\n    v_capped boolean;\n    v_ended record;\nbegin"),
    ("        if v_is_lost then return query\n", "        if v_is_lost then\n"),
    (
        "        select v_tenant, e.id, e.kind, true, e.due, e.apart from ended e;\n",
        """        select array_agg(e.id) as jobs, array_agg(e.kind) as kinds, array_agg(e.due) as dues,
               array_agg(e.apart) as aparts into v_ended from ended e;
        return query select v_tenant, u.job, u.kind, true, u.due, u.apart
            from unnest(v_ended.jobs, v_ended.kinds, v_ended.dues, v_ended.aparts) as u(job, kind, due, apart);
        -- The rows of those that are queued again are passed over.
        return query select v_tenant, a.delivery_id, 'webhook', false, true, interval '0'
            from daira.announce(v_tenant, v_ended.jobs) a;
""",
    ),
    # A cap is for the tenant's own work: its deliveries are rung for beside it.
    (
        "        select t.state = 'active', case",
        "        select t.state = 'active', t.max_running is not null, case",
    ),
    ("into v_active, v_limit from", "into v_active, v_capped, v_limit from"),
    ("not coalesce(v_active, false) or v_limit = 0", "not coalesce(v_active, false)"),
    (
        "              and x.ring_after <= v_horizon and",
        "              and (not v_capped or x.kind <> 'webhook')\n              and x.ring_after <= v_horizon and",
    ),
)
OWN = "and (not v_capped or x.kind <> 'webhook')"

CLAIM = (
    (
        "select t.state = 'active', t.max_running into",
        "select t.state = 'active', case when p_kinds <> array['webhook'] then t.max_running end into",
    ),
    (
        "        from judged d;\n",
        f"""        from judged d;
        if {HOOKED.format("v_tenant")} then
            perform daira.announce(v_tenant, (
                select array_agg(j.id) from unnest(v_ids) as u(id) cross join lateral (
                    select x.id from daira.jobs x
                    where x.tenant_id = v_tenant and x.id = u.id and x.finished_at = v_now offset 0
                ) j));
        end if;
""",
    ),
)

ROOM = (("x.kind is not null", "x.kind is not null and x.kind <> 'webhook'"),)
LIVE_JOBS = ROOM


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script(TABLE)
    wall_off("webhooks")
    script(JOBS)
    script(SCOPES_CHECK.format(SCOPES.format("'webhooks:write', ")))
    for function in NEW.values():
        script(function)
    script(f"drop function daira.{SETTLE_SIGNATURE}")
    script(_changed(_before("SETTLE"), SETTLE).replace("create or replace function", "create function"))
    let_the_app_call(SETTLE_SIGNATURE, *NEW)
    script(_changed(_module("20261130_0600").claim(), CLAIM))
    script(_with_deliveries_of_capped(_changed(_module("20261130_0600").sweep(), SWEEP)))
    script(_replacing(_changed(_before("ROOM"), ROOM)))
    script(_replacing(_changed(_live_jobs(), LIVE_JOBS)))


def downgrade() -> None:
    script(f"drop function daira.{SETTLE_SIGNATURE}")
    script(_before("SETTLE").replace("create or replace function", "create function"))
    let_the_app_call(SETTLE_SIGNATURE)
    script(_module("20261130_0600").claim())
    script(_module("20261130_0600").sweep())
    for body in (_before("ROOM"), _live_jobs()):
        script(_replacing(body))
    for name in reversed(NEW):
        script(f"drop function daira.{name}")
    script("""
        drop table daira.webhooks;
        revoke delete on daira.jobs, daira.results from daira_app;
        drop index daira.jobs_without_document;
        alter table daira.jobs drop column webhook_id;
    """)
    # Keys with the new scope are left as they are: nobody can find them, across the wall.
    script(SCOPES_CHECK.format(SCOPES.format("")) + " not valid")


def _module(revision: str) -> Any:
    return context.script.get_revision(revision).module


def _before(name: str) -> str:
    body: str = getattr(_module("20261129_2320"), name)
    return body


def _live_jobs() -> str:
    body: str = _module("20261129_2340").LIVE_JOBS
    return body


def _changed(body: str, changes: tuple[tuple[str, str], ...]) -> str:
    """A function of before with these parts exchanged, each of which stands in it once."""
    for before, after in changes:
        if body.count(before) != 1:
            raise ValueError(f"not there once: {before}")
        body = body.replace(before, after)
    return body


def _with_deliveries_of_capped(sweep: str) -> str:
    """The statement that rings, once more for the deliveries of a tenant with a cap, which are not counted by it."""
    start = sweep.index("        return query\n        with found as")
    end = sweep.index("    end loop;", start)
    deliveries = sweep[start:end].replace(OWN, "and x.kind = 'webhook'").replace("limit v_limit", "limit p_limit")
    return sweep[:end] + "        continue when not v_capped;\n" + deliveries + sweep[end:]


def _replacing(body: str) -> str:
    return body.replace("create function", "create or replace function", 1)
