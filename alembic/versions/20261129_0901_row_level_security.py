"""The tenant wall: forced row-level security, two policies a table, grants by column.

A transaction is clamped by the setting app.tenant_id. After its first use on a connection the setting is never
NULL again but '', hence nullif: an unclamped read finds nothing, an unclamped write is refused.
"""

from app.adapters.postgres.ddl import wall_off
from app.adapters.postgres.migrations import script

revision = "20261129_0901"
down_revision = "20261129_0900"
branch_labels = None
depends_on = None

TENANT_TABLES = (
    "tenants",
    "api_keys",
    "documents",
    "pages",
    "jobs",
    "job_attempts",
    "results",
    "idempotency_keys",
)

# No UPDATE on tenant_id or id anywhere, no TRUNCATE, and a key's secret can't be replaced.
GRANTS = """
grant usage on schema daira to daira_app, daira_scout;
grant select on all tables in schema daira to daira_app;
grant insert (tenant_id) on daira.tenants to daira_app;
grant update (state) on daira.tenants to daira_app;
grant insert, update (revoked_at, last_used_at) on daira.api_keys to daira_app;
grant insert, update (page_count), delete on daira.documents to daira_app;
grant insert, delete on daira.pages to daira_app;
grant insert (tenant_id, id, kind, document_id, dedup_key, priority, payload, run_after, ring_after, max_attempts,
    traceparent) on daira.jobs to daira_app;
grant update (state, run_after, ring_after, rings, attempts, failures, expiries, releases, cancel_requested,
    claimed_by, lease_until, progress, last_error, started_at, finished_at) on daira.jobs to daira_app;
grant insert on daira.job_attempts, daira.results to daira_app;
grant insert, delete, update (document_id) on daira.idempotency_keys to daira_app;
grant insert, delete, update (due_at) on daira.doorbells to daira_app;
"""

# The scout finds tenants with work: no ids, no payload, no finished job, no write.
SCOUT = """
create policy scout_live on daira.jobs as permissive for select to daira_scout
    using (state in ('queued', 'claimed'));
create policy scout_registry on daira.tenants as permissive for select to daira_scout using (tenant_id <> '');
grant select (tenant_id, kind, state, run_after, ring_after, lease_until) on daira.jobs to daira_scout;
grant select (tenant_id, state) on daira.tenants to daira_scout;
"""


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    wall_off(*TENANT_TABLES)
    script(GRANTS)
    script(SCOUT)


def downgrade() -> None:
    script("drop policy scout_live on daira.jobs; drop policy scout_registry on daira.tenants")
    script("revoke all on all tables in schema daira from daira_app, daira_scout")
    for table in TENANT_TABLES:
        script(
            f"drop policy tenant_rows on daira.{table}; drop policy tenant_clamp on daira.{table};"
            f"alter table daira.{table} no force row level security, disable row level security"
        )
