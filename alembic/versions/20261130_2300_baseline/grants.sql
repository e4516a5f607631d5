-- The rights of daira_app. It has no UPDATE on tenant_id or id anywhere and no TRUNCATE, and it can't replace a key's
-- secret.
grant usage on schema daira to daira_app;
grant select on all tables in schema daira to daira_app;

grant insert (tenant_id), delete,
update (state, max_running, max_queued, max_upload_bytes, requests_per_minute) on daira.tenants to daira_app;
grant insert, update (expires_at, revoked_at, last_used_at) on daira.api_keys to daira_app;
grant insert, delete, update (page_count, warnings) on daira.documents to daira_app;
grant insert, delete on daira.pages, daira.terms, daira.indexed to daira_app;
grant insert (
    tenant_id, id, kind, document_id, dedup_key, priority, payload, run_after, ring_after, max_attempts, traceparent,
    webhook_id
), delete, update (
    state, run_after, ring_after, rings, attempts, failures, expiries, releases, cancel_requested, claimed_by,
    lease_until, progress, last_error, started_at, finished_at, changed
) on daira.jobs to daira_app;
grant insert on daira.job_attempts to daira_app;
grant insert, delete on daira.results, daira.drafts, daira.answers, daira.usage to daira_app;
grant insert, delete, update (document_id, resource_id, made) on daira.idempotency_keys to daira_app;
grant insert, delete,
update (secret, previous_secret, previous_until, healthy_at, disabled_at, disabled_reason) on daira.webhooks
to daira_app;
grant insert, delete, update (due_at, turn) on daira.doorbells to daira_app;

-- The functions: PUBLIC, to which Postgres gives EXECUTE, can't call them.
revoke all on all functions in schema daira from public;
grant execute on all functions in schema daira to daira_app;
