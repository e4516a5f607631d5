"""The tables.

Primary keys are (tenant_id, id) and foreign keys carry tenant_id: a key on id alone lets one tenant probe
another's ids through duplicate-key errors.
"""

from app.adapters.postgres.migrations import script

revision = "20261129_0900"
down_revision = None
branch_labels = None
depends_on = None

TABLES = r"""
create table daira.tenants (
    tenant_id  text not null,
    state      text not null default 'active',
    created_at timestamptz not null default now(),
    constraint tenants_pkey primary key (tenant_id),
    constraint tenants_name_check check (tenant_id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    constraint tenants_state_check check (state in ('active', 'suspended'))
);

create table daira.api_keys (
    tenant_id     text not null,
    id            uuid not null,
    name          text not null,
    secret_sha256 bytea not null,
    created_at    timestamptz not null default now(),
    expires_at    timestamptz,
    revoked_at    timestamptz,
    last_used_at  timestamptz,
    constraint api_keys_pkey primary key (tenant_id, id),
    constraint api_keys_tenant_check check (tenant_id <> ''),
    constraint api_keys_tenant_fkey foreign key (tenant_id) references daira.tenants on delete cascade,
    constraint api_keys_secret_key unique (tenant_id, secret_sha256)
);

create table daira.documents (
    tenant_id  text not null,
    id         uuid not null,
    filename   text not null,
    media_type text not null,
    size       bigint not null,
    sha256     text not null,
    language   text not null,
    metadata   jsonb not null default '{}',
    page_count integer,
    created_at timestamptz not null default now(),
    constraint documents_pkey primary key (tenant_id, id),
    constraint documents_tenant_check check (tenant_id <> ''),
    constraint documents_tenant_fkey foreign key (tenant_id) references daira.tenants on delete cascade,
    constraint documents_bytes_key unique (tenant_id, sha256)
);
create index documents_newest on daira.documents (tenant_id, created_at, id);

create table daira.pages (
    tenant_id   text not null,
    document_id uuid not null,
    number      integer not null,
    text        text not null,
    source      text not null,
    confidence  double precision,
    width       double precision not null,
    height      double precision not null,
    rotation    smallint not null,
    language    text not null,
    words       jsonb not null default '[]',
    constraint pages_pkey primary key (tenant_id, document_id, number),
    constraint pages_tenant_check check (tenant_id <> ''),
    constraint pages_source_check check (source in ('text_layer', 'ocr')),
    constraint pages_document_fkey foreign key (tenant_id, document_id) references daira.documents on delete cascade
);

-- Heartbeats must stay heap-only updates: room on the page, and no index on a column that they write.
-- The row is small (documents live in the blob store), so a low fillfactor costs little.
create table daira.jobs (
    tenant_id        text not null,
    id               uuid not null,
    kind             text not null,
    document_id      uuid,
    state            text not null default 'queued',
    dedup_key        text,
    priority         smallint not null default 0,
    payload          jsonb not null default '{}',
    run_after        timestamptz not null default now(),
    ring_after       timestamptz not null default now() + interval '5 seconds',
    rings            smallint not null default 0,
    attempts         integer not null default 0,
    failures         integer not null default 0,
    expiries         integer not null default 0,
    releases         integer not null default 0,
    max_attempts     integer not null default 5,
    cancel_requested boolean not null default false,
    claimed_by       text,
    lease_until      timestamptz,
    progress         jsonb,
    last_error       jsonb,
    traceparent      text,
    created_at       timestamptz not null default now(),
    started_at       timestamptz,
    finished_at      timestamptz,
    constraint jobs_pkey primary key (tenant_id, id),
    constraint jobs_tenant_check check (tenant_id <> ''),
    -- Text and not an enum: an enum's comparison is not leakproof, so under RLS it can't be an index condition.
    constraint jobs_state_check check (state in ('queued', 'claimed', 'done', 'failed', 'cancelled')),
    constraint jobs_dedup_check check (length(dedup_key) <= 200),
    constraint jobs_tenant_fkey foreign key (tenant_id) references daira.tenants on delete cascade,
    constraint jobs_document_fkey foreign key (tenant_id, document_id) references daira.documents on delete cascade
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);
-- Within a tenant and never across: two tenants with the same document are two jobs.
create unique index jobs_dedup on daira.jobs (tenant_id, kind, dedup_key)
    where dedup_key is not null and state in ('queued', 'claimed');
-- The second condition keeps a claim by id from being proven against this index, which would walk the tenant's queue.
create index jobs_ring on daira.jobs (tenant_id, ring_after) where state = 'queued' and ring_after is not null;
-- Claimed jobs across tenants, and whether a tenant has any live job: the one probe that most tenants get in a full pass.
create index jobs_live on daira.jobs (state, tenant_id) where state in ('queued', 'claimed') and kind is not null;
create index jobs_of_document on daira.jobs (tenant_id, document_id);

create table daira.job_attempts (
    tenant_id   text not null,
    job_id      uuid not null,
    attempt     integer not null,
    worker      text not null,
    started_at  timestamptz not null,
    finished_at timestamptz not null default now(),
    outcome     text not null,
    error       jsonb,
    constraint job_attempts_pkey primary key (tenant_id, job_id, attempt),
    constraint job_attempts_tenant_check check (tenant_id <> ''),
    constraint job_attempts_outcome_check check
        (outcome in ('done', 'retry', 'fail', 'snooze', 'release', 'expired', 'cancelled')),
    constraint job_attempts_job_fkey foreign key (tenant_id, job_id) references daira.jobs on delete cascade
);

create table daira.results (
    tenant_id  text not null,
    job_id     uuid not null,
    data       jsonb not null,
    created_at timestamptz not null default now(),
    constraint results_pkey primary key (tenant_id, job_id),
    constraint results_tenant_check check (tenant_id <> ''),
    constraint results_job_fkey foreign key (tenant_id, job_id) references daira.jobs on delete cascade
);

create table daira.idempotency_keys (
    tenant_id   text not null,
    key         text not null,
    fingerprint bytea not null,
    document_id uuid,
    created_at  timestamptz not null default now(),
    expires_at  timestamptz not null default now() + interval '24 hours',
    constraint idempotency_keys_pkey primary key (tenant_id, key),
    constraint idempotency_keys_tenant_check check (tenant_id <> ''),
    constraint idempotency_keys_tenant_fkey foreign key (tenant_id) references daira.tenants on delete cascade,
    constraint idempotency_keys_document_fkey foreign key (tenant_id, document_id)
        references daira.documents on delete cascade
);

-- The queue, where Postgres is the queue as well. It holds nothing worth protecting: no row-level security,
-- no log, and losing it loses nothing. One bell for a job is enough, however often it is rung.
create unlogged table daira.doorbells (
    lane      text not null,
    tenant_id text not null,
    job_id    uuid not null,
    due_at    timestamptz not null default now(),
    constraint doorbells_pkey primary key (lane, tenant_id, job_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index doorbells_due on daira.doorbells (lane, due_at);
"""


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script(TABLES)


def downgrade() -> None:
    script(
        "drop table daira.doorbells, daira.idempotency_keys, daira.results, daira.job_attempts, daira.jobs,"
        " daira.pages, daira.documents, daira.api_keys, daira.tenants"
    )
