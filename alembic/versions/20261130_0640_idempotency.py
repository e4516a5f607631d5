"""What an idempotency key was used for: a request that is sent again is answered with what the first has made."""

from app.adapters.postgres.migrations import script

revision = "20261130_0640"
down_revision = "20261130_0630"
branch_labels = None
depends_on = None


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script("""
        alter table daira.idempotency_keys
            add column resource_id uuid,
            add column made boolean;
        -- A document is removed without a walk through the tenant's keys; so are keys that have expired.
        create index idempotency_keys_document on daira.idempotency_keys (tenant_id, document_id);
        create index idempotency_keys_expiry on daira.idempotency_keys (tenant_id, expires_at);
        grant update (resource_id, made) on daira.idempotency_keys to daira_app;
    """)


def downgrade() -> None:
    script("""
        drop index daira.idempotency_keys_document, daira.idempotency_keys_expiry;
        revoke update (resource_id, made) on daira.idempotency_keys from daira_app;
        alter table daira.idempotency_keys drop column resource_id, drop column made;
    """)
