"""What a model has answered is kept until the job that asked it settles: nobody pays for it twice."""

from app.adapters.postgres.ddl import wall_off
from app.adapters.postgres.migrations import script

revision = "20261130_0430"
down_revision = "20261130_0300"
branch_labels = None
depends_on = None


def upgrade() -> None:
    script("set local lock_timeout = '5s'")
    script("""
        create table daira.answers (
            tenant_id text not null constraint answers_tenant_check check (tenant_id <> ''),
            job_id uuid not null,
            question text not null,
            text text,
            fault text,
            input_tokens integer not null,
            output_tokens integer not null,
            constraint answers_pkey primary key (tenant_id, job_id, question),
            constraint answers_job_fkey foreign key (tenant_id, job_id)
                references daira.jobs (tenant_id, id) on delete cascade
        );
        grant select, insert, delete on daira.answers to daira_app;
    """)
    wall_off("answers")


def downgrade() -> None:
    script("drop table daira.answers")
