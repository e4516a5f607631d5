-- The tables and their indexes.
--
-- Primary keys are (tenant_id, id) and foreign keys carry tenant_id: a key on id alone lets one tenant probe another's
-- ids through duplicate-key errors.

-- A limit that is NULL is taken from the setting.
create table daira.tenants (
    tenant_id text not null,
    state text not null default 'active',
    created_at timestamptz not null default now(),
    max_running integer,
    max_queued integer,
    max_upload_bytes bigint,
    requests_per_minute integer,
    constraint tenants_pkey primary key (tenant_id),
    constraint tenants_name_check check (tenant_id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    constraint tenants_state_check check (state in ('active', 'suspended')),
    constraint tenants_limits_check check (
        max_running > 0 and max_queued > 0 and max_upload_bytes > 0 and requests_per_minute > 0
    )
);
create index tenants_resting on daira.tenants (tenant_id) where state <> 'active';

create table daira.api_keys (
    tenant_id text not null,
    id uuid not null,
    name text not null,
    secret_sha256 bytea not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    scopes text[] not null default '{admin}',
    constraint api_keys_pkey primary key (tenant_id, id),
    constraint api_keys_tenant_check check (tenant_id <> ''),
    constraint api_keys_tenant_fkey foreign key (tenant_id) references daira.tenants on delete cascade,
    constraint api_keys_secret_key unique (tenant_id, secret_sha256),
    constraint api_keys_scopes_check check (
        scopes <@ array['documents:read', 'documents:write', 'jobs:write', 'webhooks:write', 'admin'] and scopes <> '{}'
    )
);

create table daira.documents (
    tenant_id text not null,
    id uuid not null,
    filename text not null,
    media_type text not null,
    size bigint not null,
    sha256 text not null,
    language text not null,
    metadata jsonb not null default '{}',
    page_count integer,
    created_at timestamptz not null default now(),
    warnings jsonb not null default '[]',
    constraint documents_pkey primary key (tenant_id, id),
    constraint documents_tenant_check check (tenant_id <> ''),
    constraint documents_tenant_fkey foreign key (tenant_id) references daira.tenants on delete cascade,
    constraint documents_bytes_key unique (tenant_id, sha256)
);
create index documents_newest on daira.documents (tenant_id, created_at, id);

-- A page of text without geometry has no size.
create table daira.pages (
    tenant_id text not null,
    document_id uuid not null,
    number integer not null,
    text text not null,
    source text not null,
    confidence double precision,
    width double precision,
    height double precision,
    rotation smallint not null,
    language text not null,
    words jsonb not null default '[]',
    warnings text[] not null default '{}',
    constraint pages_pkey primary key (tenant_id, document_id, number),
    constraint pages_tenant_check check (tenant_id <> ''),
    constraint pages_source_check check (source in ('text_layer', 'ocr')),
    constraint pages_document_fkey foreign key (tenant_id, document_id) references daira.documents on delete cascade
);

-- The pages that have a word, for every word, in a table that an index finds behind row-level security. There is no GIN
-- index: `@@` is not leakproof, so behind policies it is no condition of an index (docs/decisions/0032).
create table daira.terms (
    tenant_id text not null,
    lexeme text not null,
    stemming text not null,
    document_id uuid not null,
    places integer[] not null,
    constraint terms_pkey primary key (tenant_id, lexeme, stemming, document_id),
    constraint terms_tenant_check check (tenant_id <> ''),
    constraint terms_document_fkey foreign key (tenant_id, document_id) references daira.documents on delete cascade
);
create index terms_of_document on daira.terms (tenant_id, document_id);

create table daira.indexed (
    tenant_id text not null,
    stemming text not null,
    document_id uuid not null,
    constraint indexed_pkey primary key (tenant_id, stemming, document_id),
    constraint indexed_tenant_check check (tenant_id <> ''),
    constraint indexed_document_fkey foreign key (tenant_id, document_id) references daira.documents on delete cascade
);
create index indexed_documents on daira.indexed (tenant_id, document_id);

-- Heartbeats must stay heap-only updates: room on the page, and no index on a column that they write. The row is small
-- (documents live in the blob store), so a low fillfactor costs little.
--
-- The state is text and not an enum: an enum's comparison is not leakproof, so under row-level security it can't be an
-- index condition.
--
-- kind and ring_after are held by checks and not by NOT NULL. The partial indexes below name `is not null` conditions,
-- which keep a claim by id from being proven against them. Since PostgreSQL 17 the planner drops IS NOT NULL on a
-- NOT NULL column from a query, and then can't prove the index's condition either. It does not look at checks for that.
-- Measured with 220,000 jobs, 4,000 of them live: 97 ms a look of the sweeper with NOT NULL, 0.4 ms with checks.
--
-- changed names the transaction that gave the job its state, for streams of events (docs/decisions/0030). Progress is
-- no change of state.
--
-- webhook_id has no foreign key: a webhook's removal would lock its deliveries one by one, against the batches that
-- settle them.
create table daira.jobs (
    tenant_id text not null,
    id uuid not null,
    kind text,
    document_id uuid,
    state text not null default 'queued',
    dedup_key text,
    priority smallint not null default 0,
    payload jsonb not null default '{}',
    run_after timestamptz not null default now(),
    ring_after timestamptz default now() + interval '5 seconds',
    rings smallint not null default 0,
    attempts integer not null default 0,
    failures integer not null default 0,
    expiries integer not null default 0,
    releases integer not null default 0,
    max_attempts integer not null default 5,
    cancel_requested boolean not null default false,
    claimed_by text,
    lease_until timestamptz,
    progress jsonb,
    last_error jsonb,
    traceparent text,
    created_at timestamptz not null default now(),
    started_at timestamptz,
    finished_at timestamptz,
    changed xid8 default pg_current_xact_id(),
    webhook_id uuid,
    constraint jobs_pkey primary key (tenant_id, id),
    constraint jobs_tenant_check check (tenant_id <> ''),
    constraint jobs_state_check check (state in ('queued', 'claimed', 'done', 'failed', 'cancelled')),
    constraint jobs_dedup_check check (length(dedup_key) <= 200),
    constraint jobs_kind_there check (kind is not null),
    constraint jobs_ring_there check (ring_after is not null),
    constraint jobs_tenant_fkey foreign key (tenant_id) references daira.tenants on delete cascade,
    constraint jobs_document_fkey foreign key (tenant_id, document_id) references daira.documents on delete cascade
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);
-- Within a tenant and never across tenants: two tenants with the same document have two jobs.
create unique index jobs_dedup on daira.jobs (tenant_id, kind, dedup_key)
where dedup_key is not null and state in ('queued', 'claimed');
-- The second condition keeps a claim by id from being proven against this index, which would walk the tenant's queue.
create index jobs_ring on daira.jobs (tenant_id, ring_after) where state = 'queued' and ring_after is not null;
-- For claimed jobs across tenants, and for the question if a tenant has any live job. Most tenants get only this one
-- probe in a full pass.
create index jobs_live on daira.jobs (state, tenant_id) where state in ('queued', 'claimed') and kind is not null;
-- Partial, so that the primary key is the only index for a look-up by id.
create index jobs_of_document on daira.jobs (tenant_id, document_id) where document_id is not null;
-- For a webhook's deliveries, and for the purge. An id is its last column, so that no claim by id uses it.
create index jobs_without_document on daira.jobs (tenant_id, webhook_id, id) where document_id is null;
create index jobs_changed on daira.jobs (tenant_id, changed) where changed is not null;
-- For the backlog only: no other query may say `kind > ''`, so that the planner does not take this index for a claim or
-- a sweep, which have indexes that begin with the tenant.
create index jobs_waiting on daira.jobs (kind, run_after, tenant_id) where state = 'queued' and kind > '';

create table daira.job_attempts (
    tenant_id text not null,
    job_id uuid not null,
    attempt integer not null,
    worker text not null,
    started_at timestamptz not null,
    finished_at timestamptz not null default now(),
    outcome text not null,
    error jsonb,
    constraint job_attempts_pkey primary key (tenant_id, job_id, attempt),
    constraint job_attempts_tenant_check check (tenant_id <> ''),
    constraint job_attempts_outcome_check check (
        outcome in ('done', 'retry', 'fail', 'snooze', 'release', 'expired', 'cancelled')
    ),
    constraint job_attempts_job_fkey foreign key (tenant_id, job_id) references daira.jobs on delete cascade
);

create table daira.results (
    tenant_id text not null,
    job_id uuid not null,
    data jsonb not null,
    created_at timestamptz not null default now(),
    constraint results_pkey primary key (tenant_id, job_id),
    constraint results_tenant_check check (tenant_id <> ''),
    constraint results_job_fkey foreign key (tenant_id, job_id) references daira.jobs on delete cascade
);

-- The pages that an attempt has read, kept until the job settles, so that the next attempt reads no page twice.
create table daira.drafts (
    tenant_id text not null,
    job_id uuid not null,
    number integer not null,
    text text not null,
    source text not null,
    confidence double precision,
    width double precision,
    height double precision,
    rotation smallint not null,
    language text not null,
    words jsonb not null default '[]',
    warnings text[] not null default '{}',
    constraint drafts_pkey primary key (tenant_id, job_id, number),
    constraint drafts_tenant_check check (tenant_id <> ''),
    constraint drafts_source_check check (source in ('text_layer', 'ocr')),
    constraint drafts_job_fkey foreign key (tenant_id, job_id) references daira.jobs on delete cascade
);

-- The answers of a language model, kept until their job settles, so that no answer is paid for twice.
create table daira.answers (
    tenant_id text not null,
    job_id uuid not null,
    question text not null,
    text text,
    fault text,
    input_tokens integer not null,
    output_tokens integer not null,
    constraint answers_pkey primary key (tenant_id, job_id, question),
    constraint answers_tenant_check check (tenant_id <> ''),
    constraint answers_job_fkey foreign key (tenant_id, job_id) references daira.jobs on delete cascade
);

create table daira.idempotency_keys (
    tenant_id text not null,
    key text not null,
    fingerprint bytea not null,
    document_id uuid,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null default now() + interval '24 hours',
    resource_id uuid,
    made boolean,
    constraint idempotency_keys_pkey primary key (tenant_id, key),
    constraint idempotency_keys_tenant_check check (tenant_id <> ''),
    constraint idempotency_keys_tenant_fkey foreign key (tenant_id) references daira.tenants on delete cascade,
    constraint idempotency_keys_document_fkey foreign key (tenant_id, document_id)
    references daira.documents on delete cascade
);
-- For the removal of a document, and of expired keys, without a walk through the tenant's keys.
create index idempotency_keys_document on daira.idempotency_keys (tenant_id, document_id);
create index idempotency_keys_expiry on daira.idempotency_keys (tenant_id, expires_at);

create table daira.webhooks (
    tenant_id text not null,
    id uuid not null,
    url text not null,
    events text[] not null,
    description text not null default '',
    secret text not null,
    previous_secret text,
    previous_until timestamptz,
    created_at timestamptz not null default now(),
    healthy_at timestamptz not null default now(),
    disabled_at timestamptz,
    disabled_reason text,
    constraint webhooks_pkey primary key (tenant_id, id),
    constraint webhooks_tenant_check check (tenant_id <> ''),
    constraint webhooks_events_check check (
        events <@ array['job.done', 'job.failed', 'job.cancelled'] and events <> '{}'
    ),
    constraint webhooks_tenant_fkey foreign key (tenant_id) references daira.tenants on delete cascade
);

-- A tenant's usage by day. Rows are added and never changed, so that no transaction waits for another's.
create table daira.usage (
    tenant_id text not null,
    id uuid not null,
    day date not null default (now() at time zone 'utc')::date,
    documents bigint not null,
    pages bigint not null,
    bytes bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    constraint usage_pkey primary key (tenant_id, id),
    constraint usage_tenant_check check (tenant_id <> ''),
    constraint usage_tenant_fkey foreign key (tenant_id) references daira.tenants on delete cascade
);
create index usage_days on daira.usage (tenant_id, day);

-- The queue, if Postgres is the queue as well. It holds nothing worth protecting, so it has no row-level security and
-- no log, and may be lost. A job has one bell, however often it is rung. A bell without a turn is delayed.
create unlogged table daira.doorbells (
    lane text not null,
    tenant_id text not null,
    job_id uuid not null,
    due_at timestamptz not null default now(),
    turn bigint,
    constraint doorbells_pkey primary key (lane, tenant_id, job_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
create index doorbells_turn on daira.doorbells (lane, turn) where turn is not null;
create index doorbells_of_tenant on daira.doorbells (lane, tenant_id, turn) where turn is not null;
create index doorbells_due on daira.doorbells (lane, due_at) where turn is null;
