"""What a tenant may use: running jobs, queued jobs, bytes of an upload, requests a minute. NULL: the setting decides."""

from app.adapters.postgres.migrations import script

revision = "20261129_2310"
down_revision = "20261129_0902"
branch_labels = None
depends_on = None


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script("""
        alter table daira.tenants
            add column max_running integer,
            add column max_queued integer,
            add column max_upload_bytes bigint,
            add column requests_per_minute integer,
            add constraint tenants_limits_check check
                (max_running > 0 and max_queued > 0 and max_upload_bytes > 0 and requests_per_minute > 0);
        grant update (max_running, max_queued, max_upload_bytes, requests_per_minute) on daira.tenants to daira_app;
    """)


def downgrade() -> None:
    script("""
        alter table daira.tenants
            drop column max_running, drop column max_queued, drop column max_upload_bytes,
            drop column requests_per_minute
    """)
