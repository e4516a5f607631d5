"""A job that is taken up again reads no page twice: what an attempt has read is kept until the job settles.

Documents carry warnings, pages too, and a page of text without geometry has no size.
"""

from app.adapters.postgres.ddl import wall_off
from app.adapters.postgres.migrations import script

revision = "20261130_0300"
down_revision = "20261129_2340"
branch_labels = None
depends_on = None


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script("""
        alter table daira.documents add column warnings jsonb not null default '[]';
        grant update (warnings) on daira.documents to daira_app;
        alter table daira.pages
            add column warnings text[] not null default '{}',
            alter column width drop not null,
            alter column height drop not null;
        create table daira.drafts (
            tenant_id text not null constraint drafts_tenant_check check (tenant_id <> ''),
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
            constraint drafts_source_check check (source in ('text_layer', 'ocr')),
            constraint drafts_pkey primary key (tenant_id, job_id, number),
            constraint drafts_job_fkey foreign key (tenant_id, job_id)
                references daira.jobs (tenant_id, id) on delete cascade
        );
        grant select, insert, delete on daira.drafts to daira_app;
    """)
    wall_off("drafts")


def downgrade() -> None:
    script("""
        drop table daira.drafts;
        revoke update (warnings) on daira.documents from daira_app;
        alter table daira.documents drop column warnings;
        alter table daira.pages
            drop column warnings,
            alter column width set not null,
            alter column height set not null;
    """)
