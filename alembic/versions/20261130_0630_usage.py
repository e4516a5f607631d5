"""What a tenant has used, day by day: rows are added and never changed, so that no transaction waits for another's."""

from app.adapters.postgres.ddl import wall_off
from app.adapters.postgres.migrations import script

revision = "20261130_0630"
down_revision = "20261130_0620"
branch_labels = None
depends_on = None


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script("""
        create table daira.usage (
            tenant_id text not null constraint usage_tenant_check check (tenant_id <> ''),
            id uuid not null,
            day date not null default (now() at time zone 'utc')::date,
            documents bigint not null,
            pages bigint not null,
            bytes bigint not null,
            input_tokens bigint not null,
            output_tokens bigint not null,
            constraint usage_pkey primary key (tenant_id, id),
            constraint usage_tenant_fkey foreign key (tenant_id) references daira.tenants (tenant_id) on delete cascade
        );
        create index usage_days on daira.usage (tenant_id, day);
        grant select, insert, delete on daira.usage to daira_app;
    """)
    wall_off("usage")


def downgrade() -> None:
    script("drop table daira.usage")
