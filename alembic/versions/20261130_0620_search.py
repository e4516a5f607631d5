"""Pages can be searched: for every word the pages that have it, in a table that row-level security lets an index find.

No GIN index: `@@` is not leakproof, so behind policies it is no condition of an index (docs/decisions/0032).
"""

from app.adapters.postgres.ddl import wall_off
from app.adapters.postgres.migrations import script

revision = "20261130_0620"
down_revision = "20261130_0610"
branch_labels = None
depends_on = None


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script("""
        create table daira.terms (
            tenant_id text not null constraint terms_tenant_check check (tenant_id <> ''),
            lexeme text not null,
            stemming text not null,
            document_id uuid not null,
            places integer[] not null,
            constraint terms_pkey primary key (tenant_id, lexeme, stemming, document_id),
            constraint terms_document_fkey foreign key (tenant_id, document_id)
                references daira.documents (tenant_id, id) on delete cascade
        );
        create index terms_of_document on daira.terms (tenant_id, document_id);
        create table daira.indexed (
            tenant_id text not null constraint indexed_tenant_check check (tenant_id <> ''),
            stemming text not null,
            document_id uuid not null,
            constraint indexed_pkey primary key (tenant_id, stemming, document_id),
            constraint indexed_document_fkey foreign key (tenant_id, document_id)
                references daira.documents (tenant_id, id) on delete cascade
        );
        create index indexed_documents on daira.indexed (tenant_id, document_id);
        grant select, insert, delete on daira.terms, daira.indexed to daira_app;
    """)
    wall_off("terms", "indexed")


def downgrade() -> None:
    script("drop table daira.terms; drop table daira.indexed")
