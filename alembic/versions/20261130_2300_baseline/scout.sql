-- The scout finds tenants with work, across all tenants: no ids, no payload, no finished job, no write.
--
-- This comes after grants.sql: once the functions belong to the scout, only the scout can change their rights.
grant usage on schema daira to daira_scout;
grant select (tenant_id, kind, state, run_after, ring_after, lease_until) on daira.jobs to daira_scout;
grant select (tenant_id, state) on daira.tenants to daira_scout;
create policy scout_live on daira.jobs as permissive for select to daira_scout
using (state in ('queued', 'claimed'));
create policy scout_registry on daira.tenants as permissive for select to daira_scout
using (tenant_id <> '');

-- A role needs CREATE on the schema at the moment it becomes the owner of a function, and never again.
grant create on schema daira to daira_scout;
alter function daira.backlog() owner to daira_scout;
alter function daira.tenants_with_due_work(int, text[], text) owner to daira_scout;
revoke create on schema daira from daira_scout;
