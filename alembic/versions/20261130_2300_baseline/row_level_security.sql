-- Row-level security, forced on every table that holds tenants' rows, with two policies each.
--
-- A transaction is clamped by the setting app.tenant_id. After its first use on a connection the setting is never NULL
-- again but '', hence nullif: an unclamped read finds nothing, an unclamped write is refused. The setting is wrapped in
-- a select so that it is evaluated once for a statement, and not planned anew in the loops of the functions.
--
-- Permissive policies are joined by OR and follow role membership; the restrictive twin bounds them all.

alter table daira.tenants enable row level security;
alter table daira.tenants force row level security;
create policy tenant_rows on daira.tenants as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.tenants as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

alter table daira.api_keys enable row level security;
alter table daira.api_keys force row level security;
create policy tenant_rows on daira.api_keys as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.api_keys as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

alter table daira.documents enable row level security;
alter table daira.documents force row level security;
create policy tenant_rows on daira.documents as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.documents as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

alter table daira.pages enable row level security;
alter table daira.pages force row level security;
create policy tenant_rows on daira.pages as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.pages as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

alter table daira.terms enable row level security;
alter table daira.terms force row level security;
create policy tenant_rows on daira.terms as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.terms as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

alter table daira.indexed enable row level security;
alter table daira.indexed force row level security;
create policy tenant_rows on daira.indexed as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.indexed as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

alter table daira.jobs enable row level security;
alter table daira.jobs force row level security;
create policy tenant_rows on daira.jobs as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.jobs as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

alter table daira.job_attempts enable row level security;
alter table daira.job_attempts force row level security;
create policy tenant_rows on daira.job_attempts as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.job_attempts as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

alter table daira.results enable row level security;
alter table daira.results force row level security;
create policy tenant_rows on daira.results as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.results as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

alter table daira.drafts enable row level security;
alter table daira.drafts force row level security;
create policy tenant_rows on daira.drafts as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.drafts as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

alter table daira.answers enable row level security;
alter table daira.answers force row level security;
create policy tenant_rows on daira.answers as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.answers as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

alter table daira.idempotency_keys enable row level security;
alter table daira.idempotency_keys force row level security;
create policy tenant_rows on daira.idempotency_keys as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.idempotency_keys as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

alter table daira.webhooks enable row level security;
alter table daira.webhooks force row level security;
create policy tenant_rows on daira.webhooks as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.webhooks as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

alter table daira.usage enable row level security;
alter table daira.usage force row level security;
create policy tenant_rows on daira.usage as permissive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));
create policy tenant_clamp on daira.usage as restrictive for all to daira_app
using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')))
with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')));

-- A tenant's removal deletes all of its rows by the foreign keys' cascade, which runs with the rights of the tables'
-- owner: no grant to delete jobs, keys or history is needed. The tenant must be suspended first. Then none of its keys
-- is accepted and none of its jobs claimed meanwhile, and no single wrong statement deletes an active tenant's work.
create policy tenant_suspended_first on daira.tenants as restrictive for delete to daira_app
using (state = 'suspended');
