"""A tenant can be removed, with all that it has, once it is suspended.

The cascade does the rest, with the rights of the tables' owner: no grant to delete jobs, keys or history is needed.
Suspended first: then no key of it is accepted and no job of it claimed while it goes, and no single slip of a
statement takes an active tenant's work away, whoever makes it.
"""

from app.adapters.postgres.migrations import script

revision = "20261129_2330"
down_revision = "20261129_2321"
branch_labels = None
depends_on = None


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script(
        "create policy tenant_suspended_first on daira.tenants as restrictive for delete to daira_app"
        " using (state = 'suspended');"
        "grant delete on daira.tenants to daira_app"
    )


def downgrade() -> None:
    script("revoke delete on daira.tenants from daira_app; drop policy tenant_suspended_first on daira.tenants")
